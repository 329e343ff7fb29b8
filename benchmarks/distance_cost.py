"""CPU milliseconds a solution of the default distances, beside RPD on extractive steps.

    python benchmarks/distance_cost.py [FILE] [--limit N] [--rounds N]

FILE is JSONL with `problem` and `solutions`; left out, it is the labelled problems beside the
repository where they are, and the packaged sample otherwise. The ways take turns in one process on
one thread, and the fastest round of each counts; reading, encoding and comparing are in it,
loading the encoder is not. Ratios are to RPD on extractive steps in float32.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import machine, markdown

from rpd_metric.metrics.matrices import distance_matrices
from rpd_metric.models.embedders import Dtype, Embedder
from rpd_metric.models.sentence_transformer import SentenceTransformerEmbedder, minilm_path
from rpd_metric.steps.extractive import ExtractiveSummarizer

ROOT = Path(__file__).resolve().parents[1]
LABELLED = ROOT.parent / "shared" / "data" / "strategy_bench" / "train.jsonl"
SAMPLE = ROOT / "rpd_datasets" / "sample" / "algebra.jsonl"
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")


def encoder_of(dtype: Dtype) -> SentenceTransformerEmbedder:
    """The packaged encoder with weights of a type."""
    return SentenceTransformerEmbedder("minilm", str(minilm_path()), dtype=dtype, minilm=True)


def ways(row: dict[str, Any], encoder: Embedder) -> dict[str, Callable[[], object]]:
    """What is timed on one problem."""
    problem, solutions = row["problem"], row["solutions"]

    def steps() -> list[list[str]]:
        summarizer = ExtractiveSummarizer()
        return [list(summarizer.steps(problem, text).steps) for text in solutions]

    def distance(name: str, made: Callable[[], list[list[str]] | None]) -> Callable[[], object]:
        return lambda: distance_matrices([name], problem, solutions, made(), encoder)

    return {
        "`rpd`, extractive steps": distance("rpd", steps),
        "`pieces`": distance("pieces", lambda: None),
        "`raw_chunks`": distance("raw_chunks", lambda: None),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=None)
    parser.add_argument("--limit", type=int, default=12, help="problems")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    path = args.file or (LABELLED if LABELLED.is_file() else SAMPLE)
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][: args.limit]
    encoders = {dtype: encoder_of(dtype) for dtype in DTYPES}
    solutions = sum(len(row["solutions"]) for row in rows)
    for encoder in encoders.values():  # what is imported and compiled on first use
        for way in ways(rows[0], encoder).values():
            way()
    spent: dict[tuple[str, str], list[float]] = {}
    for _ in range(args.rounds):
        for dtype, encoder in encoders.items():
            for name in ways(rows[0], encoder):
                encoder.forget()
                before = time.process_time()
                for row in rows:
                    ways(row, encoder)[name]()
                spent.setdefault((name, dtype), []).append(time.process_time() - before)
    best = {way: 1000 * min(seconds) / solutions for way, seconds in spent.items()}
    base = best["`rpd`, extractive steps", "float32"]
    print(f"{path.name}: {len(rows)} problems, {solutions} solutions; one thread; {machine()}\n")
    print(
        markdown(
            [
                {
                    "distance": name,
                    "weights": dtype,
                    "CPU ms a solution": f"{value:.0f}",
                    "ratio": f"{value / base:.2f}",
                }
                for (name, dtype), value in best.items()
            ]
        )
    )


if __name__ == "__main__":
    main()
