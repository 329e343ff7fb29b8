"""How far one problem travels through the code: the files it enters, and its moves between them.

A profiler follows the curation of one problem with the defaults. A move is a call from a function
of one file into a function of another file of this project. Imports are done before it starts.

    python benchmarks/row_path.py [--files]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from datasets import Dataset

from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import score_problem
from rpd_datasets.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
PROBLEM = "What is the larger root of $x^2-5x+6=0$?"
SOLUTIONS = (
    "2 and 3 have product 6 and sum 5. So it is $(x-2)(x-3)$, and the larger root is $3$.",
    "By the quadratic formula the roots are $(5\\pm1)/2$, that is 2 and 3. The answer is $3$.",
    "Complete the square: $(x-5/2)^2=1/4$, so $x=5/2\\pm1/2$. The larger root is $3$.",
)


class RowPath:
    """Counts calls that enter another file of the project."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.moves = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        if event != "call" or (file := _own(frame)) is None:
            return
        self.files[file] += 1
        caller = frame.f_back
        while caller is not None and _own(caller) is None:
            caller = caller.f_back
        self.moves += caller is not None and _own(caller) != file

    def __enter__(self) -> RowPath:
        threading.setprofile(self)  # threads that start from here on
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _own(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    for package in ("rpd_metric", "rpd_datasets"):
        if name.startswith(str(ROOT / package)):
            return name[len(str(ROOT)) + 1 :]
    return None


def main() -> None:
    """Print both figures for scoring alone and for a whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list files with their calls")
    options = parser.parse_args()
    config = CurationConfig(num_problems=1, num_solutions=2)
    rows = Dataset.from_list([{"problem": PROBLEM, "solutions": list(SOLUTIONS)}])
    problem = Problem(PROBLEM, SOLUTIONS, {})
    with tempfile.TemporaryDirectory() as folder:
        curate_dataset(rows, f"{folder}/first", config)  # imports, models and caches
        models = load_models(config)
        asyncio.run(score_problem(problem, config, models))
        # A thread is followed from its start on: a loaded encoder in a new pool.
        models = replace(models, threads=ThreadPoolExecutor(max_workers=1))
        with RowPath() as scoring:
            asyncio.run(score_problem(problem, config, models))
        with RowPath() as whole:
            curate_dataset(rows, f"{folder}/second", config)
    for name, path in (("score_problem", scoring), ("up to the card", whole)):
        print(
            f"{name}: {len(path.files)} files, {path.moves} moves, {sum(path.files.values())} calls"
        )
        if options.files:
            for file, count in path.files.most_common():
                print(f"  {count:5} {file}")


if __name__ == "__main__":
    main()
