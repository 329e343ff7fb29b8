"""What a distance means: the chance of another strategy by distance, from labelled pairs.

    python benchmarks/calibration_curves.py [--data FOLDER] [--vectors FILE] [--write-curves OUT]

A curve of each distance is fitted to all labelled pairs, and tried on each set with the fit to the
other two. `rpd_metric/distance/calibration.json` is what `--write-curves` wrote. How much of a
dataset is uniform was estimated with them once and stands in `docs/distances.md`.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from labelled_sets import CURVE_STEPS, Case, KeptVectors, parser_of, read_sets
from machine import markdown

from rpd_metric.distance.calibration import Calibration, calibration_error, fit_curve
from rpd_metric.distance.distances import load_distance
from rpd_metric.models.kinds import load_embedder

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

# By source of steps and distance, by set, the matrix of each problem.
Matrices = Mapping[tuple[str, str], Mapping[str, list[Array]]]


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
    """Keep curves as `calibration` reads them."""
    lines = ",\n".join(f"  {json.dumps(asdict(curve))}" for curve in found)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
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


if __name__ == "__main__":
    main()
