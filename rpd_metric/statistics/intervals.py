"""How far to trust a figure, and whether two models differ, without claiming too much.

    one value per problem (problems,), each a share     -> mean, interval
    two models' values for the same problems            -> difference, interval, p value -> Holm

A percentile bootstrap and Student's t fail for a share where benchmarks are used: they print
[0, 0] when nothing was solved, and near the ceiling they cover the truth in as few as 1 of 100
cases. So a share's interval is Wilson's. Two models that meet the same problems are compared by
Student's paired t, since what makes a problem hard for both cancels; looking at pass@1, 2, 4, 8 and
16 is looking five times, and Holm's correction keeps the chance of any false alarm at 5 %.
`docs/statistics.md` has the simulated coverage, made by `benchmarks/interval_coverage.py`.

The bootstrap is for figures that are no mean of shares, as an AUROC. A resample draws whole
problems, because samples (or pairs) of one problem are not independent of each other. It is a
vector of weights, how often each problem was drawn, so that a figure over thousands of resamples is
a few matrix products, and the same weights for two models make their difference a paired one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Floats = npt.NDArray[np.float64]

# Weights are drawn in blocks of about this many numbers (32 MB of int64).
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A figure with an interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class PairedDifference(Interval):
    """A difference of two means, its own interval, and the two-sided p of a paired t test."""

    p: float


def mean_interval(per_problem: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Wilson's interval for a mean of shares, with the variance that the problems show.

    Wilson's interval is for a number of successes out of n. A mean of shares varies less than
    that: m (1 - m) / variance x problems is the number of yes-or-no problems that would vary as
    much, and takes the place of n. Two things keep it honest for few problems: the variance is
    taken with one more problem that was solved or not by lot, so that it is never zero, and the
    quantile is Student's.

    Args:
        per_problem (array of shape `(problems,)`): Values from 0 to 1 of any estimator.
        level (`float`, defaults to 0.95): How often such an interval should hold the truth.

    Returns:
        [`Interval`]: Inside [0, 1], never of zero width.

    >>> nothing_solved = mean_interval([0.0] * 240)
    >>> nothing_solved.low, round(nothing_solved.high, 3)
    (0.0, 0.016)
    """
    values = _values(per_problem, "per_problem", level)
    if values.min() < 0 or values.max() > 1:
        raise InputError("per_problem must hold shares from 0 to 1")
    problems, mean = len(values), float(values.mean())
    quantile = student_quantile((1 + level) / 2, max(problems - 1, 1))
    guess = (float(values.sum()) + 1) / (problems + 2)
    variance = (float(((values - mean) ** 2).sum()) + guess * (1 - guess)) / problems
    size = max(problems, mean * (1 - mean) / variance * problems)
    square = quantile**2 / size
    middle = (mean + square / 2) / (1 + square)
    half = math.sqrt(square * (mean * (1 - mean) + square / 4)) / (1 + square)
    # At 0 and 1 the ends are exact, which rounding must not spoil.
    low = 0.0 if mean == 0 else max(0.0, middle - half)
    return Interval(mean, low, 1.0 if mean == 1 else min(1.0, middle + half))


def paired_difference(
    a: npt.ArrayLike, b: npt.ArrayLike, *, level: float = 0.95
) -> PairedDifference:
    """How much better model A does than model B on the same problems.

    Args:
        a (array of shape `(problems,)`): A's values, problem by problem.
        b (array of shape `(problems,)`): B's, for the same problems in the same order.
        level (`float`, defaults to 0.95): Of the interval.

    Returns:
        [`PairedDifference`]: Where no problem tells the models apart, the interval is as wide as
        that for no success in so many problems, since another problem might.
    """
    from scipy.special import stdtr

    ours, theirs = _values(a, "a", level), _values(b, "b", level)
    if len(ours) != len(theirs):
        raise InputError(
            f"a has {len(ours)} problems and b has {len(theirs)}; a paired comparison needs the "
            "same problems in the same order"
        )
    gaps, freedom = ours - theirs, len(ours) - 1
    mean = float(gaps.mean())
    if not gaps.any() or not freedom:
        half = mean_interval(np.zeros(len(gaps)), level=level).high
        return PairedDifference(mean, mean - half, mean + half, 1.0)
    error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    half = student_quantile((1 + level) / 2, freedom) * error
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error else 0.0
    return PairedDifference(mean, mean - half, mean + half, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for there being several (Holm 1979): compare them with the level itself.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def resample_weights(
    num_problems: int, num_resamples: int, seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """How often each resample drew each problem, in blocks that bound the memory.

    Yields arrays of shape `(resamples of the block, num_problems)`. The same seed gives the same
    weights, whatever the size of a block.
    """
    rng = np.random.default_rng(seed)
    uniform = np.full(num_problems, 1 / num_problems)
    block = max(1, _BLOCK // num_problems)
    for start in range(0, num_resamples, block):
        yield rng.multinomial(num_problems, uniform, size=min(block, num_resamples - start))


def percentile_ends(resampled: Floats, level: float) -> tuple[float, float]:
    """The ends between which the middle `level` of the resampled figures lies."""
    outside = (100 - 100 * level) / 2
    low, high = np.percentile(resampled, [outside, 100 - outside])
    return float(low), float(high)


def student_quantile(share: float, freedom: int) -> float:
    """The value below which a share of Student's t distribution lies."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _values(values: npt.ArrayLike, name: str, level: float) -> Floats:
    """One value per problem. Raises [`InputError`]."""
    if not 0 < level < 1:
        raise InputError(f"level is {level}; use a share between 0 and 1, e.g. 0.95")
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InputError(
            f"{name} must be a non-empty one-dimensional array of finite numbers, "
            f"not one of shape {array.shape}"
        )
    return array
