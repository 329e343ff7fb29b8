"""From the arms' verdicts to figures: curves, intervals over seeds, paired differences.

A seed is the unit: it has a pool, candidates, test problems and a training order of its own, so
that an interval over seeds holds what would be different another time. With five seeds Student's
t is wide, and rightly so. Differences are taken seed by seed, on the same test problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import t

from benchmarks.loop.arms import ArmResult
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import Interval

LEVEL = 0.95
BySeed = Mapping[int, ArmResult]
Found = Mapping[str, BySeed]


def pass_at(result: ArmResult, k: int) -> float:
    """An arm's pass@k on its test problems, by the unbiased estimator."""
    verdicts = np.asarray(result.verdicts)
    return float(np.mean(pass_at_k(verdicts.shape[1], verdicts.sum(axis=1), k)))


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean of one figure per seed with its 95 % interval by Student's t.

    With a single seed the interval is unbounded: nothing is known about another one.
    """
    figures = np.asarray(values, dtype=np.float64)
    mean = float(figures.mean())
    if len(figures) < 2:
        return Interval(mean, -float("inf"), float("inf"))
    error = float(figures.std(ddof=1)) / len(figures) ** 0.5
    half = float(t.ppf((1 + LEVEL) / 2, len(figures) - 1)) * error
    return Interval(mean, mean - half, mean + half)


def figure(arm: BySeed, k: int) -> Interval:
    """An arm's pass@k over its seeds."""
    return over_seeds([pass_at(result, k) for result in arm.values()])


def difference(a: BySeed, b: BySeed, k: int) -> Interval:
    """How much more of the test problems the first arm solves with k tries than the second."""
    shared = sorted(a.keys() & b.keys())
    return over_seeds([pass_at(a[seed], k) - pass_at(b[seed], k) for seed in shared])


def mean_of(arm: BySeed, name: str) -> float | None:
    """The mean over seeds of a field of the results, or of an entry of `training`."""
    found: list[Any] = [getattr(result, name, result.training.get(name)) for result in arm.values()]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def course(arm: BySeed, name: str, steps: int = 4) -> tuple[float, float] | None:
    """A logged measure of reinforcement learning: mean of its first steps, and of its last."""
    series = [[row[name] for row in result.rewards if name in row] for result in arm.values()]
    series = [values for values in series if len(values) > 1]
    if not series:
        return None
    first = float(np.mean([np.mean(values[:steps]) for values in series]))
    last = float(np.mean([np.mean(values[-steps:]) for values in series]))
    return first, last
