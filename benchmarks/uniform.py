"""What a distance means, and how much of a dataset is uniform: all solutions of one strategy.

    python benchmarks/uniform.py [FILE ...] [--data FOLDER] [--vectors FILE] [--write-curves OUT]

First the chance of another strategy by distance: a curve fitted to all labelled pairs, and how far
off it is on a set that was left out of the fit. `rpd_metric/distance/calibration.json` is what
`--write-curves` wrote.

A problem counts as uniform where its effective number of strategies, by the calibrated chances of a
distance, stays under a limit. Curve and limit are fitted to two of the labelled sets and tried on
the third: the limit is where as many problems of the two fall below it as their labels call
uniform. Then all three fit, and FILEs without labels are read by `pieces` (by default the traces of
`long_cot/candidates.jsonl`).
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import (
    CURVE_STEPS,
    DATA,
    VECTORS,
    Case,
    KeptVectors,
    evidence_of,
    name_of,
    read_rows,
    read_sets,
    texts_of,
)
from machine import markdown

from rpd_metric.distance.calibration import Calibration, calibration_error, fit_curve
from rpd_metric.distance.distances import load_distance
from rpd_metric.models.kinds import load_embedder
from rpd_metric.statistics.intervals import percentile_ends, resample_weights

Array = Any

# Sources of steps and the distances that read them.
METHODS = (
    ("", "pieces"),
    ("LLM", "combined"),
    ("LLM", "strategy"),
    ("LLM", "rpd"),
    ("extractive", "rpd"),
)
SHOWN = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
UNLABELLED = "long_cot/candidates.jsonl"

# By source of steps and distance, by set, the matrix of each problem.
Matrices = Mapping[tuple[str, str], Mapping[str, list[Array]]]


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
    def fitted(
        cls, method: tuple[str, str], cases: Sequence[Case], matrices: Sequence[Array]
    ) -> Estimator:
        """Fit curve and limit to labelled problems."""
        curve = fitted_curve(method, cases, matrices)
        numbers = [curve.effective_strategies(matrix) for matrix in matrices]
        share = np.mean([one_strategy(case) for case in cases])
        return cls(curve, float(np.quantile(numbers, share)))

    def uniform(self, matrices: Sequence[Array]) -> Array:
        """Per problem."""
        numbers = [self.curve.effective_strategies(matrix) or 1.0 for matrix in matrices]
        return np.array(numbers) <= self.limit


def labelled_pairs(cases: Sequence[Case], matrices: Sequence[Array]) -> tuple[Array, Array]:
    """The distances of all labelled pairs, and whether they differ."""
    pairs = [
        (matrix[i, j], different)
        for case, matrix in zip(cases, matrices, strict=True)
        for i, j, different in case.labels.pairs()
    ]
    distances, labels = np.array(pairs, dtype=float).T
    return distances, labels


def fitted_curve(
    method: tuple[str, str], cases: Sequence[Case], matrices: Sequence[Array]
) -> Calibration:
    """The chance of another strategy by distance, of labelled problems."""
    source, distance = method
    distances, labels = labelled_pairs(cases, matrices)
    fit = fit_curve(distances, labels)
    return Calibration(distance, "minilm", CURVE_STEPS[source], *fit, len(labels))


def curves(sets: Mapping[str, Sequence[Case]], matrices: Matrices) -> list[Calibration]:
    """A curve of each distance, fitted to all sets; prints what it says and how far off it is."""
    rows, found = [], []
    for method, by_set in matrices.items():
        whole = fitted_curve(
            method,
            [case for cases in sets.values() for case in cases],
            [matrix for name in sets for matrix in by_set[name]],
        )
        errors = []
        for name, cases in sets.items():
            others = [other for other in sets if other != name]
            curve = fitted_curve(
                method,
                [case for other in others for case in sets[other]],
                [matrix for other in others for matrix in by_set[other]],
            )
            distances, labels = labelled_pairs(cases, by_set[name])
            errors.append(calibration_error([curve.chance(one) for one in distances], labels))
        found.append(
            replace(
                whole,
                intercept=round(whole.intercept, 3),
                slope=round(whole.slope, 3),
                error=round(max(errors), 3),
            )
        )
        rows.append(
            {
                "distance": f"`{method[1]}`",
                "steps": {"LLM": "by a chat model", "": "none"}.get(method[0], f"`{method[0]}`"),
                **{f"{one}": f"{whole.chance(one):.2f}" for one in SHOWN},
                f"error on {', '.join(sets)}": ", ".join(f"{error:.3f}" for error in errors),
            }
        )
    print(f"{found[0].pairs} labelled pairs.\n")
    print(markdown(rows), "\n")
    return found


def write(path: Path, found: Sequence[Calibration]) -> None:
    """Keep curves as [`calibration`] reads them."""
    lines = ",\n".join(f"  {json.dumps(asdict(curve))}" for curve in found)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def one_strategy(case: Case) -> bool:
    """Whether no pair of a problem is labelled as different."""
    return not any(different for _, _, different in case.labels.pairs())


def print_held_out(sets: Mapping[str, Sequence[Case]], matrices: Matrices) -> None:
    """Each set by what was fitted to the other two."""
    rows = []
    for method, found in matrices.items():
        for name, cases in sets.items():
            others = [other for other in sets if other != name]
            estimator = Estimator.fitted(
                method,
                [case for other in others for case in sets[other]],
                [matrix for other in others for matrix in found[other]],
            )
            guess = estimator.uniform(found[name])
            truth = np.array([one_strategy(case) for case in cases])
            rows.append(
                {
                    "distance": name_of(*method),
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
    parser.add_argument("--write-curves", type=Path, help="keeps the curves as JSON")
    args = parser.parse_args()
    encoder = KeptVectors(load_embedder("minilm"), args.vectors)
    sets = read_sets(args.data, encoder, args.limit)
    matrices = {
        (source, distance): {
            name: [load_distance(distance)(case.evidence[source]) for case in cases]
            for name, cases in sets.items()
        }
        for source, distance in METHODS
    }
    found_curves = curves(sets, matrices)
    if args.write_curves:
        write(args.write_curves, found_curves)
    print_held_out(sets, matrices)
    cases = [case for found in sets.values() for case in found]
    known = {case.row["problem"] for case in cases}
    estimator = Estimator.fitted(
        METHODS[0],
        cases,
        [matrix for found in matrices[METHODS[0]].values() for matrix in found],
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
                "file": f"{path.parent.name}/{path.name}",
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
