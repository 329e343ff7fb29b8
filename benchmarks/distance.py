"""How fast is `rpd_matrix`? Against the bare product X @ X.T and against SciPy per pair.

    python benchmarks/distance.py

k = 16 solutions of 3-5 steps, 200 problems, one thread. Three ways in the same run, on the
same data, interleaved problem by problem:

- `X @ X.T`: the symmetric product of a problem's stacked steps alone, the floor under any
  way that compares all pairs;
- `rpd_matrix`: the whole matrix;
- `cdist per pair`: what one writes first, `scipy.spatial.distance.cdist(a, b, "cosine")`
  in a Python loop over pairs.

Goals: at most 1.5 times the product; at least 10 times faster than cdist per pair.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy loads its BLAS

import itertools
import statistics
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import machine, markdown
from scipy.spatial.distance import cdist

from rpd_metric import rpd_matrix


def cdist_matrix(solutions: list[Any]) -> Any:
    """RPD with `ties="mean"` by one SciPy call per pair."""
    matrix = np.zeros((len(solutions), len(solutions)))
    for i, j in itertools.combinations(range(len(solutions)), 2):
        a, b = solutions[i], solutions[j]
        distances = cdist(a, b, "cosine")
        forward, backward = distances.min(axis=1).mean(), distances.min(axis=0).mean()
        value = forward if len(a) < len(b) else backward
        if len(a) == len(b):
            value = (forward + backward) / 2
        matrix[i, j] = matrix[j, i] = value
    return matrix


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call: the best of six, the first of which warms the caches."""
    return min(timeit.repeat(call, number=1, repeat=6))


def measure(dimension: int) -> dict[str, float]:
    """Median microseconds per problem of the three ways."""
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {"product": [], "rpd_matrix": [], "cdist": []}
    for _ in range(200):
        shapes = [(rng.integers(3, 6), dimension) for _ in range(16)]
        solutions = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
        stacked = np.concatenate(solutions)
        times["product"].append(seconds(lambda x=stacked: x @ x.T))
        times["rpd_matrix"].append(seconds(lambda s=solutions: rpd_matrix(s)))
        times["cdist"].append(seconds(lambda s=solutions: cdist_matrix(s)))
        np.testing.assert_allclose(rpd_matrix(solutions), cdist_matrix(solutions), atol=1e-5)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    rows: list[dict[str, object]] = []
    for dimension in (384, 4096):
        median = measure(dimension)
        rows.append(
            {"dimension": dimension}
            | {f"{name}, us": f"{value:.1f}" for name, value in median.items()}
            | {"rpd_matrix / product": f"{median['rpd_matrix'] / median['product']:.2f}"}
            | {"cdist / rpd_matrix": f"{median['cdist'] / median['rpd_matrix']:.1f}"}
        )
    print(f"{machine(['numpy', 'scipy'])}\n\n{markdown(rows)}")


if __name__ == "__main__":
    main()
