"""Scoring by this process, by worker processes and by Ray actors.

    python benchmarks/engines.py

All engines score the same problems (the packaged sample, repeated under new names) with models
that run here (`extractive`, `minilm`), each in a process that has not loaded them yet, one thread
each. `start` is what an engine takes for one problem, mostly for loading models: it is what
processes and actors have to win back.

What it leaves out: several machines, GPUs and servers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["RAY_AUTH_MODE"] = "disabled"  # nobody else is on this cluster

from machine import machine, markdown

ENGINES = {
    "this process": [],
    "--num-proc 2": ["--num-proc", "2"],
    "--engine ray --num-proc 2": ["--engine", "ray", "--num-proc", "2"],
}


def seconds(problems: Path, options: list[str]) -> float:
    """What `rpd curate` takes from start to end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        command = [sys.executable, "-m", "rpd_datasets.cli", "curate", str(problems)]
        command += ["--output", f"{folder}/out", "--num-problems", "1", *options]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started


def write_problems(path: Path, count: int) -> Path:
    """The sample's problems again and again, none the same."""
    sample = Path(__file__).parents[1] / "rpd_datasets" / "sample"
    lines = [line for file in sorted(sample.glob("*.jsonl")) for line in file.open()]
    with path.open("w", encoding="utf-8") as file:
        for index, line in zip(range(count), itertools.cycle(lines), strict=False):
            row = json.loads(line)
            file.write(json.dumps(row | {"problem": f"({index}) {row['problem']}"}) + "\n")
    return path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=200, help="problems that are scored")
    count = parser.parse_args().problems
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        single = write_problems(Path(folder, "one.jsonl"), 1)
        many = write_problems(Path(folder, "many.jsonl"), count)
        first = None
        for name, options in ENGINES.items():
            start, whole = seconds(single, options), seconds(many, options)
            first = first or whole
            times = {"start": f"{start:.1f}", "seconds": f"{whole:.1f}"}
            rows.append({"engine": name, **times, "this process / engine": f"{first / whole:.2f}"})
    print(machine(("torch", "sentence-transformers", "ray")))
    print(f"\n{count} problems of 6 solutions\n\n{markdown(rows)}")


if __name__ == "__main__":
    main()
