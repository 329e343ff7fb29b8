"""An interval for a mean over problems: how the figure would move with other problems like these.

    one value per problem (problems,), each a share -> mean, interval

A percentile bootstrap and Student's t fail where benchmarks are used: they print [0, 0] when
nothing was solved, and near the ceiling they cover the truth in as few as 1 of 100 cases.
`docs/statistics.md` has the simulated coverage of all three, made by `benchmarks/statistics.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure with an interval.

    Args:
        value (`float`): The figure.
        low (`float`): Lower end.
        high (`float`): Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0


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

    Raises:
        [`InputError`]: Not a non-empty one-dimensional array of shares, or `level` out of range.

    Example:

    ```py
    >>> from rpd_metric.statistics.intervals import mean_interval
    >>> nothing_solved = mean_interval([0.0] * 240)
    >>> nothing_solved.low, round(nothing_solved.high, 3)
    (0.0, 0.016)

    ```
    """
    values = as_values(per_problem, "per_problem")
    if values.min() < 0 or values.max() > 1:
        raise InputError("per_problem must hold shares from 0 to 1")
    check_level(level)
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


def student_quantile(share: float, freedom: int) -> float:
    """The value below which a share of Student's t distribution lies."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def check_level(level: float) -> None:
    """Refuse a level that is no share.

    Raises:
        [`InputError`]: It is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; use a share between 0 and 1, e.g. 0.95")


def as_values(values: npt.ArrayLike, name: str) -> Floats:
    """One value per problem.

    Raises:
        [`InputError`]: Not a non-empty one-dimensional array of finite numbers.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InputError(
            f"{name} must be a non-empty one-dimensional array of finite numbers, "
            f"not one of shape {array.shape}"
        )
    return array
