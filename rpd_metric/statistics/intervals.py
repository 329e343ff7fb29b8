"""Intervals for a mean over problems, and for the difference of two models on the same ones.

one value per problem (problems,) -> mean, interval
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError
from rpd_metric.statistics.bootstrap import percentile_ends, resample_weights

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A figure with the interval that a bootstrap over problems gives it.

    Args:
        value (`float`): Mean over problems.
        low (`float`): Lower end.
        high (`float`): Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside: for a difference, whether the data tell two models apart."""
        return self.low > 0 or self.high < 0


def bootstrap_interval(
    per_problem: npt.ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a mean over problems, by drawing problems with replacement.

    It answers how the figure would move with other problems of the same kind. Two things it
    cannot do: when every problem has the same value (nothing solved, or everything), it has
    zero width, although the true figure is not known that well; and with the 30 problems of
    an AIME year it runs slightly narrow.

    Args:
        per_problem (array of shape `(problems,)`): Values of any estimator.
        level (`float`, defaults to 0.95): Share of resamples inside the interval.
        resamples (`int`, defaults to 10000): How many.
        seed (`int`, defaults to 0): The same seed and number of problems give the same
            resamples, so that curves over k are drawn on the same footing.

    Raises:
        [`InputError`]: Not a non-empty one-dimensional array of finite numbers, or `level` or
        `resamples` out of range.
    """
    values = _values(per_problem, "per_problem")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; use a share between 0 and 1, e.g. 0.95")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; use at least 1, better 10000")
    problems = len(values)
    means = np.concatenate(
        [weights @ values for weights in resample_weights(problems, resamples, seed)]
    )
    low, high = percentile_ends(means / problems, level)
    return Interval(float(values.mean()), low, high)


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """How much better model A does than model B on the same problems, with an interval.

    Both models meet the same resampled problems, so that what makes a problem hard for both
    cancels; comparing two separate intervals throws that away. `excludes_zero` says whether
    the data tell the models apart.

    Args:
        a (array of shape `(problems,)`): A's values, problem by problem.
        b (array of shape `(problems,)`): B's, for the same problems in the same order.
        level, resamples, seed: See [`bootstrap_interval`].

    Returns:
        [`Interval`] of mean(a) - mean(b).

    Raises:
        [`InputError`]: The arrays differ in length, or as in [`bootstrap_interval`].
    """
    ours, theirs = _values(a, "a"), _values(b, "b")
    if len(ours) != len(theirs):
        raise InputError(
            f"a has {len(ours)} problems and b has {len(theirs)}; a paired comparison needs the "
            "same problems in the same order"
        )
    return bootstrap_interval(ours - theirs, level=level, resamples=resamples, seed=seed)


def _values(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InputError(
            f"{name} must be a non-empty one-dimensional array of finite numbers, "
            f"not one of shape {array.shape}"
        )
    return array
