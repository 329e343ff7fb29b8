"""How often intervals hold the truth, and how often equal models are called different.

    python benchmarks/interval_coverage.py            # prints the tables of docs/statistics.md

Problems are drawn from known populations, samples from the problems, and the figure that
infinitely many problems and samples would have is known. Everything is seeded.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    holm,
    mean_interval,
    paired_difference,
    percentile_ends,
    resample_weights,
    student_quantile,
)

Floats = npt.NDArray[np.float64]
KS = (1, 2, 4, 8, 16)
SIZES = ((30, 64), (134, 64), (240, 16))
_RESAMPLES = 1_000

# Chances of a right sample, problem by problem.
POPULATIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "of every difficulty": lambda rng, size: rng.beta(0.5, 0.5, size),
    "hard": lambda rng, size: rng.beta(0.2, 2, size),
    "1 in 100 can be solved": lambda rng, size: np.where(rng.random(size) < 0.01, 0.3, 0.0),
    "near the ceiling": lambda rng, size: rng.beta(8, 0.3, size),
    "1 in 50 cannot be solved": lambda rng, size: np.where(rng.random(size) < 0.02, 0.0, 0.9),
    "of middling difficulty": lambda rng, size: rng.beta(5, 5, size),
}


def coverage(
    population: str, *, problems: int, samples: int, k: int, repeats: int, seed: int
) -> dict[str, float]:
    """Share of benchmarks whose interval for pass@k holds the population's pass@k."""
    rng = np.random.default_rng(seed)
    draw = POPULATIONS[population]
    truth = float((1 - (1 - draw(rng, 2_000_000)) ** k).mean())
    of_count = _pass_at_k_of_count(samples, k)
    held = dict.fromkeys(("bootstrap", "t", "here"), 0)
    for _ in range(repeats):
        values = of_count[rng.binomial(samples, draw(rng, problems))]
        found = mean_interval(values)
        ends = {
            "bootstrap": _bootstrap(values),
            "t": _student(values),
            "here": (found.low, found.high),
        }
        for name, (low, high) in ends.items():
            # The truth itself is drawn, too: to five digits or so.
            held[name] += low - 1e-9 <= truth <= high + 1e-9
    return {name: count / repeats for name, count in held.items()}


def false_alarms(*, problems: int, samples: int, pairs: int, seed: int) -> dict[str, float]:
    """Share of pairs of equal models of which any of five k says that they differ."""
    rng = np.random.default_rng(seed)
    tables = {k: _pass_at_k_of_count(samples, k) for k in KS}
    alarms = dict.fromkeys(("bootstrap", "t, each k alone", "here"), 0)
    for _ in range(pairs):
        chances = POPULATIONS["of every difficulty"](rng, problems)
        counts = rng.binomial(samples, chances, size=(2, problems))
        p_values, apart = [], False
        for table in tables.values():
            gap = paired_difference(table[counts[0]], table[counts[1]])
            p_values.append(gap.p)
            low, high = _bootstrap(table[counts[0]] - table[counts[1]])
            apart = apart or low > 0 or high < 0
        alarms["bootstrap"] += apart
        alarms["t, each k alone"] += min(p_values) < 0.05
        alarms["here"] += min(holm(p_values)) < 0.05
    return {name: count / pairs for name, count in alarms.items()}


def _pass_at_k_of_count(samples: int, k: int) -> Floats:
    return np.asarray(pass_at_k(samples, np.arange(samples + 1), k))


def _bootstrap(values: Floats) -> tuple[float, float]:
    return percentile_ends(_weights(len(values)) @ values, 0.95)


@lru_cache
def _weights(problems: int) -> Floats:
    """One set of resamples for every benchmark of a size: drawing them takes most of the time."""
    (drawn,) = resample_weights(problems, _RESAMPLES, seed=0)
    return drawn / problems


def _student(values: Floats) -> tuple[float, float]:
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    half = student_quantile(0.975, len(values) - 1) * error
    return float(values.mean() - half), float(values.mean() + half)


def main() -> None:
    """Print the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=1_000)
    args = parser.parse_args()
    print("| problems | samples | population | k | bootstrap | Student's t | here |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for (problems, samples), name, k in itertools.product(SIZES, POPULATIONS, (1, 16)):
        shares = coverage(
            name, problems=problems, samples=samples, k=k, repeats=args.repeats, seed=0
        )
        print(f"| {problems} | {samples} | {name} | {k} | {_cells(shares)} |")
    print("\n| problems | bootstrap | t, each k alone | here: t with Holm |")
    print("| ---: | ---: | ---: | ---: |")
    for problems in (30, 134, 500):
        rates = false_alarms(problems=problems, samples=64, pairs=args.pairs, seed=0)
        print(f"| {problems} | {_cells(rates)} |")


def _cells(shares: dict[str, float]) -> str:
    return " | ".join(f"{100 * share:.1f}" for share in shares.values())


if __name__ == "__main__":
    main()
