"""How much of a dataset is uniform: problems whose solutions all have one strategy.

    python benchmarks/uniform.py [FILE ...] [--data FOLDER] [--vectors FILE]

A problem counts as uniform where its effective number of strategies, by the calibrated chances of
`pieces` (and of `strategy` and `combined` on steps of a chat model), stays under a limit. Curve and
limit are fitted to two of the labelled sets and tried on the third: the limit is where as many
problems of the two fall below it as their labels call uniform. Then all three fit, and FILEs
without labels are read (by default the traces of `long_cot/candidates.jsonl`).
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import (
    DATA,
    VECTORS,
    Case,
    KeptVectors,
    evidence_of,
    read_rows,
    read_sets,
    texts_of,
)
from machine import markdown

from rpd_metric.distance.calibration import Calibration, fit_curve
from rpd_metric.distance.registry import load_distance
from rpd_metric.inference.registry import load_embedder
from rpd_metric.statistics.bootstrap import percentile_ends, resample_weights

Array = Any

METHODS = {"pieces": "", "strategy": "LLM", "combined": "LLM"}
UNLABELLED = "long_cot/candidates.jsonl"


@dataclass(frozen=True)
class Estimator:
    """What decides whether a problem is uniform.

    Args:
        curve ([`Calibration`]): Chance of another strategy by distance.
        limit (`float`): The effective number under which a problem counts as uniform.
    """

    curve: Calibration
    limit: float

    @classmethod
    def fitted(cls, distance: str, cases: Sequence[Case], matrices: Sequence[Array]) -> Estimator:
        """Fit curve and limit to labelled problems."""
        pairs = [
            (matrix[i, j], different)
            for case, matrix in zip(cases, matrices, strict=True)
            for i, j, different in case.labels.pairs()
        ]
        distances, labels = np.array(pairs).T
        curve = Calibration(distance, "minilm", "", *fit_curve(distances, labels), len(pairs))
        numbers = [curve.effective_strategies(matrix) for matrix in matrices]
        share = np.mean([one_strategy(case) for case in cases])
        return cls(curve, float(np.quantile(numbers, share)))

    def uniform(self, matrices: Sequence[Array]) -> Array:
        """Per problem."""
        numbers = [self.curve.effective_strategies(matrix) or 1.0 for matrix in matrices]
        return np.array(numbers) <= self.limit


def one_strategy(case: Case) -> bool:
    """Whether no pair of a problem is labelled as different."""
    return not any(different for _, _, different in case.labels.pairs())


def print_held_out(
    sets: Mapping[str, Sequence[Case]], matrices: Mapping[str, Mapping[str, list[Array]]]
) -> None:
    """Each set by what was fitted to the other two."""
    rows = []
    for distance, found in matrices.items():
        for name, cases in sets.items():
            others = [other for other in sets if other != name]
            estimator = Estimator.fitted(
                distance,
                [case for other in others for case in sets[other]],
                [matrix for other in others for matrix in found[other]],
            )
            guess = estimator.uniform(found[name])
            truth = np.array([one_strategy(case) for case in cases])
            rows.append(
                {
                    "distance": f"`{distance}`",
                    "set left out": name,
                    "problems": len(cases),
                    "uniform by labels": f"{truth.mean():.3f}",
                    "estimated": with_interval(guess),
                    "error": f"{guess.mean() - truth.mean():+.3f}",
                    "problems put right": f"{(guess == truth).mean():.3f}",
                }
            )
    print(markdown(rows), "\n")


def with_interval(found: Array) -> str:
    """A share with its 95 % bootstrap interval over problems."""
    (weights,) = resample_weights(len(found), 2000, 0)
    low, high = percentile_ends(weights @ found / len(found), 0.95)
    return f"{found.mean():.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--vectors", type=Path, default=VECTORS, help="keeps them between runs")
    parser.add_argument("--limit", type=int, help="problems of each set")
    args = parser.parse_args()
    encoder = KeptVectors(load_embedder("minilm"), args.vectors)
    sets = read_sets(args.data, encoder, args.limit)
    matrices = {
        distance: {
            name: [load_distance(distance)(case.evidence[source]) for case in cases]
            for name, cases in sets.items()
        }
        for distance, source in METHODS.items()
    }
    print_held_out(sets, matrices)
    cases = [case for found in sets.values() for case in found]
    known = {case.row["problem"] for case in cases}
    estimator = Estimator.fitted(
        "pieces", cases, [matrix for found in matrices["pieces"].values() for matrix in found]
    )
    rows = []
    for path in args.files or [args.data / UNLABELLED]:
        read = read_rows(path, args.limit)
        encoder.encode([text for row in read for text in texts_of(row)])
        found = [load_distance("pieces")(evidence_of(row, encoder)[""]) for row in read]
        guess = estimator.uniform(found)
        new = np.array([row["problem"] not in known for row in read])
        rows.append(
            {
                "file": path.name,
                "problems": len(read),
                "uniform": with_interval(guess),
                "without labels": int(new.sum()),
                "of these uniform": with_interval(guess[new]) if new.any() else "-",
            }
        )
    print(f"All three sets: limit {estimator.limit:.3f} effective strategies.\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
