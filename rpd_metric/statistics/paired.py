"""Telling two models apart on the same problems, without claiming too much.

    two models' values per problem -> difference, interval, p value -> Holm over several k

Both models meet the same problems, so what makes a problem hard for both cancels: the test is
Student's paired t. Looking at pass@1, 2, 4, 8 and 16 is looking five times; Holm's correction
keeps the chance of any false alarm at 5 %. A percentile bootstrap of each k alone raises one in
a fifth of pairs of equal models on 30 problems (`docs/statistics.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    as_values,
    check_level,
    mean_interval,
    student_quantile,
)

# The chance of seeing a real difference that studies are planned for.
POWER = 0.8


@dataclass(frozen=True)
class Difference(Interval):
    """A difference of two means with its interval, and the test of its being zero.

    Args:
        value (`float`): Mean of the first minus that of the second.
        low (`float`): Lower end of the interval, of this difference alone.
        high (`float`): Upper end.
        p (`float`): Of the paired t test, two-sided.
    """

    p: float


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike, *, level: float = 0.95) -> Difference:
    """How much better model A does than model B on the same problems.

    Args:
        a (array of shape `(problems,)`): A's values, problem by problem.
        b (array of shape `(problems,)`): B's, for the same problems in the same order.
        level (`float`, defaults to 0.95): Of the interval.

    Returns:
        [`Difference`]: Where no problem tells the models apart, the interval is as wide as that
        for no success in so many problems, since another problem might.

    Raises:
        [`InputError`]: The arrays differ in length or are no values per problem.
    """
    from scipy.special import stdtr

    check_level(level)
    ours, theirs = as_values(a, "a"), as_values(b, "b")
    if len(ours) != len(theirs):
        raise InputError(
            f"a has {len(ours)} problems and b has {len(theirs)}; a paired comparison needs the "
            "same problems in the same order"
        )
    gaps, freedom = ours - theirs, len(ours) - 1
    mean = float(gaps.mean())
    if not gaps.any() or not freedom:
        half = mean_interval(np.zeros(len(gaps)), level=level).high
        return Difference(mean, mean - half, mean + half, 1.0)
    error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    half = student_quantile((1 + level) / 2, freedom) * error
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error else 0.0
    return Difference(mean, mean - half, mean + half, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for there being several (Holm 1979): compare them with the level itself.

    Example:

    ```py
    >>> from rpd_metric.statistics.paired import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]

    ```
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


@dataclass(frozen=True)
class Needed:
    """What it would take to tell two models apart, if they differ by what was seen.

    Args:
        problems (`int`, *optional*): Problems like these, with as many samples of each; `None`
            when no difference was seen.
        samples (`int`, *optional*): Samples of each of these problems; `None` when no number of
            them would do, because the models differ too differently from problem to problem, or
            when it cannot be estimated from so few samples.
    """

    problems: int | None
    samples: int | None


def needed(
    a: npt.ArrayLike, b: npt.ArrayLike, k: int, *, level: float = 0.95, power: float = POWER
) -> Needed:
    """How many problems, or samples of each, would tell two models apart at one k.

    By the usual normal approximation, taking the difference that was seen for the true one,
    which makes it a rough guide and no promise. The part of the variance that more samples can
    remove is estimated by leaving out one sample of a problem at a time.

    Args:
        a (`bool` array of shape `(problems, n)`): Which of A's samples are right.
        b (`bool` array of shape `(problems, m)`): Of B's.
        k (`int`): Attempts that count.
        level (`float`, defaults to 0.95): Of the test.
        power (`float`, defaults to 0.8): Chance of seeing the difference.

    Returns:
        [`Needed`]
    """
    from scipy.special import ndtri

    sides = [np.asarray(side, dtype=np.bool_) for side in (a, b)]
    values, noises = zip(*(_value_and_noise(side, k) for side in sides), strict=True)
    gaps = values[0] - values[1]
    mean, variance = float(gaps.mean()), float(gaps.var(ddof=1)) if len(gaps) > 1 else 0.0
    if mean == 0 or len(gaps) < 2:
        return Needed(None, None)
    # The variance of the mean difference at which it is seen with this power.
    goal = (mean / float(ndtri((1 + level) / 2) + ndtri(power))) ** 2
    problems = max(2, math.ceil(variance / goal))
    if any(noise is None for noise in noises):
        return Needed(problems, None)
    noise = float(sum(cast("npt.NDArray[np.float64]", side).mean() for side in noises))
    left = goal * len(gaps) - max(0.0, variance - noise)
    drawn = max(side.shape[1] for side in sides)
    return Needed(problems, max(k, math.ceil(drawn * noise / left)) if left > 0 else None)


def _value_and_noise(
    correct: npt.NDArray[np.bool_], k: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Each problem's pass@k, and the variance of it that comes from its samples (jackknife)."""
    n, right = correct.shape[1], correct.sum(axis=1)
    values = np.asarray(pass_at_k(n, right, k), dtype=np.float64)
    if k > n - 1:
        return values, None
    without_right = np.asarray(pass_at_k(n - 1, np.maximum(right - 1, 0), k))
    without_wrong = np.asarray(pass_at_k(n - 1, np.minimum(right, n - 1), k))
    mean = (right * without_right + (n - right) * without_wrong) / n
    squares = right * (without_right - mean) ** 2 + (n - right) * (without_wrong - mean) ** 2
    return values, (n - 1) / n * squares
