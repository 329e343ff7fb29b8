"""How fast are steps embedded, against plain `SentenceTransformer.encode` of the same texts?

    python benchmarks/embedding.py [FILE] [--quick]

FILE is JSONL with `problem`, `solutions` and, where a language model has summarised them, `steps`;
left out, it is the labelled problems beside the repository where they are, and the packaged sample
otherwise. Three ways, interleaved in the same run, with minilm:

- `one call`: `encode` of all texts of all problems at once, as a script would;
- `call per problem`: `encode` of each problem's texts, one problem after the other;
- `rpd`: the path that curation takes, `step_matrices` problem by problem, distances included.

`rpd` encodes each of a problem's distinct steps once, and on a CPU each text by itself, so that its
vector depends on no other text. Goal: never slower than `one call`, and faster by the share of
duplicates. The whole of curation is timed by `whole_curation.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from machine import machine, markdown

from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_metric.metrics.matrices import step_matrices
from rpd_metric.models.sentence_transformer import SentenceTransformerEmbedder, minilm_path
from rpd_metric.steps.extractive import ExtractiveSummarizer

ROOT = Path(__file__).resolve().parents[1]
LABELLED = ROOT.parent / "shared" / "data" / "strategy_bench" / "dev.jsonl"
QUICK = 4
WAYS = ("one call", "call per problem", "rpd")
Problems = list[list[list[str]]]  # problem, solution, step


def read(path: Path | None, limit: int | None) -> dict[str, Problems]:
    """The steps of each problem, by who wrote them."""
    if path is None and LABELLED.is_file():
        path = LABELLED
    if path is None:
        source = open_source(
            "sample", InputSpec(limit=limit), scratch=Path(), on_reject=lambda _: None
        )
        rows: list[dict[str, Any]] = [
            {"problem": one.problem, "solutions": one.solutions} for one in source
        ]
    else:
        with path.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file][:limit]
    summarizer = ExtractiveSummarizer()
    found = {
        "extractive": [
            [list(summarizer.steps(row["problem"], text).steps) for text in row["solutions"]]
            for row in rows
        ]
    }
    if all("steps" in row for row in rows):
        found = {"a language model": [row["steps"] for row in rows], **found}
    return found


def measure(problems: Problems, rounds: int) -> dict[str, Any]:
    """Texts per second of each way: the best of some rounds."""
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(minilm_path()))
    embedder = SentenceTransformerEmbedder("minilm", str(minilm_path()), minilm=True)
    by_problem = [[step for steps in solutions for step in steps] for solutions in problems]
    texts = [text for part in by_problem for text in part]
    distinct = sum(len(set(part)) for part in by_problem)

    def one_by_one() -> None:
        for part in by_problem:
            plain.encode(part, show_progress_bar=False)

    def ours() -> None:
        embedder.forget()
        for solutions in problems:
            step_matrices([solutions], embedder)

    calls: dict[str, Callable[[], object]] = {
        "one call": lambda: plain.encode(texts, show_progress_bar=False),
        "call per problem": one_by_one,
        "rpd": ours,
    }
    plain.encode(texts[:32], show_progress_bar=False)
    embedder.encode(texts[:32])
    best = dict.fromkeys(WAYS, float("inf"))
    best_cpu = dict(best)
    for _ in range(rounds):
        for way in WAYS:
            began, cpu = time.perf_counter(), time.process_time()
            calls[way]()
            best[way] = min(best[way], time.perf_counter() - began)
            best_cpu[way] = min(best_cpu[way], time.process_time() - cpu)
    return {
        "problems": len(problems),
        "texts": len(texts),
        "duplicates": 1 - distinct / len(texts),
        "texts_per_second": {way: len(texts) / best[way] for way in WAYS},
        "texts_per_cpu_second": {way: len(texts) / best_cpu[way] for way in WAYS},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="JSONL with problems and solutions")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} problems only, one round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")
    parser.add_argument("--json", action="store_true", help="all figures as one JSON object")
    options = parser.parse_args(argv)
    if options.file is not None and not options.file.is_file():
        print(f"{options.file} is not a file; pass JSONL, or nothing", file=sys.stderr)
        return 2
    rows = []
    for name, problems in read(options.file, QUICK if options.quick else None).items():
        found = measure(problems, 1 if options.quick else options.rounds)
        rows.append({"steps": name, **found})
    about = machine(["torch", "sentence-transformers"])
    if options.json:
        print(json.dumps({"machine": about, "rows": rows}))
        return 0
    table: list[dict[str, object]] = []
    for row in rows:
        speed, per_cpu = row["texts_per_second"], row["texts_per_cpu_second"]
        table.append(
            {
                "steps by": row["steps"],
                "texts": f"{row['texts']:,}",
                "duplicates": f"{row['duplicates']:.1%}",
                **{f"{way}, texts/s": f"{speed[way]:.0f}" for way in WAYS},
                "rpd / one call": f"{speed['rpd'] / speed['one call']:.2f}",
                "the same in CPU time": f"{per_cpu['rpd'] / per_cpu['one call']:.2f}",
                "rpd / call per problem": f"{speed['rpd'] / speed['call per problem']:.2f}",
            }
        )
    print(f"{about}; minilm\n\n{markdown(table)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
