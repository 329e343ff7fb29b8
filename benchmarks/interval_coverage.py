"""How often intervals hold the truth, and how often equal models are called different.

    python benchmarks/interval_coverage.py            # writes docs/statistics.md

Problems are drawn from known populations, samples from the problems, and the figure that
infinitely many problems and samples would have is known. Everything is seeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

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
PAGE = Path(__file__).resolve().parents[1] / "docs" / "statistics.md"
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


def page(repeats: int, pairs: int) -> str:
    """The page of figures."""
    lines = [_INTRODUCTION.replace("REPEATS", f"{repeats:,}")]
    lines += [
        "| problems | samples | population | k | bootstrap | Student's t | here |",
        "| ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    worst = 1.0
    for problems, samples in ((30, 64), (134, 64), (240, 16)):
        for population in POPULATIONS:
            for k in (1, 16):
                shares = coverage(
                    population, problems=problems, samples=samples, k=k, repeats=repeats, seed=0
                )
                worst = min(worst, shares["here"])
                cells = " | ".join(f"{100 * share:.1f}" for share in shares.values())
                lines.append(f"| {problems} | {samples} | {population} | {k} | {cells} |")
    lines += [
        _COMPARING.replace("PAIRS", f"{pairs:,}").replace("WORST", f"{100 * worst:.1f}"),
        "| problems | bootstrap | t, each k alone | here: t with Holm |",
    ]
    lines.append("| ---: | ---: | ---: | ---: |")
    for problems in (30, 134, 500):
        rates = false_alarms(problems=problems, samples=64, pairs=pairs, seed=0)
        cells = " | ".join(f"{100 * rate:.1f}" for rate in rates.values())
        lines.append(f"| {problems} | {cells} |")
    return "\n".join([*lines, _END])


_INTRODUCTION = """\
# What the intervals and comparisons are worth

Made by `benchmarks/interval_coverage.py`; do not edit.

## Intervals

A benchmark's pass@k is a mean over problems, and its interval says how it would move with other
problems of the same kind. Here it is Wilson's interval for shares, with the variance that the
problems show and Student's quantile (`rpd_metric/statistics/intervals.py`). How often a 95 %
interval holds the truth, in percent of REPEATS simulated benchmarks:
"""

_COMPARING = """
A bootstrap or t interval that is made of equal values has no width: nothing of 240 solved gives
[0, 0], and near the ceiling at pass@16 such intervals are almost always wrong. Ours is sometimes
too wide there, which is the better mistake; at its worst it holds the truth in WORST %.

## Comparing two models

Two models with the same chances on the same problems, 64 samples of each, compared at pass@1, 2,
4, 8 and 16: in how many of PAIRS pairs, in percent, does at least one k say that they differ?
"""

_END = """
`passk.py compare` goes by the last column: Student's paired t, p values corrected by Holm's
method. The intervals that it prints are those of each k alone. Where nothing tells two models
apart, it adds how many problems, or samples of each, would, if the difference that was seen is
the true one: a rough guide by the usual normal approximation for a power of 80 %.

## Beside pass@k

- Bayes@N (Hariri et al., ICLR 2026): each problem's chance of a right sample with a uniform
  prior, averaged. Its credible interval is about these very problems, and says what more samples
  would change.
- G-Pass@k (Liu et al. 2024): the chance that at least half of k samples, or all of them, are
  right; mG-Pass@k averages over the shares above one half. pass@k rewards one lucky sample, these
  reward steadiness.

Both are checked against the package scorio 0.2.3 in the tests.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--output", type=Path, default=PAGE)
    args = parser.parse_args()
    args.output.write_text(page(args.repeats, args.pairs), encoding="utf-8")


if __name__ == "__main__":
    main()
