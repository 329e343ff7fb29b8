"""How well distances tell different from same, with bootstrap intervals over problems.

Everything here works on counts per problem, so that a resample of whole problems is a vector of
weights and 2,000 of them are a few small matrix products. The same weights serve every method,
which makes differences between methods paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.statistics.intervals import percentile_ends, resample_weights

Floats = npt.NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % percentile-bootstrap interval; `None` where the rows allow none."""

    value: float | None
    low: float | None
    high: float | None

    def __format__(self, spec: str) -> str:
        if self.value is None:
            return "-"
        spec = spec or ".3f"
        ends = "" if self.low is None else f" [{self.low:{spec}}, {self.high:{spec}}]"
        return f"{self.value:{spec}}{ends}"


@dataclass(frozen=True)
class Wins:
    """Comparisons of pairs that differ with pairs that do not, counted by problem."""

    won: Floats  # [p, q]: how often a differing pair of p is further than a same pair of q
    different: Floats  # pairs of each problem
    same: Floats


def count_wins(distances: Sequence[npt.ArrayLike], different: Sequence[npt.ArrayLike]) -> Wins:
    """Compare the labelled pairs of all problems; ties count half, NaN is left out."""
    above, below = [], []
    for values, labels in zip(distances, different, strict=True):
        scores, differ = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
        known = ~np.isnan(scores)
        above.append(scores[known & differ])
        below.append(np.sort(scores[known & ~differ]))
    num_above, num_below = ([len(values) for values in side] for side in (above, below))
    problem_of = np.repeat(np.arange(len(above)), num_above)
    stacked = np.concatenate([*above, np.zeros(0)])
    won = np.zeros((len(above), len(above)))
    for problem, values in enumerate(below):
        ranks = np.searchsorted(values, stacked, "left") + np.searchsorted(values, stacked, "right")
        won[:, problem] = np.bincount(problem_of, weights=ranks / 2, minlength=len(above))
    return Wins(won, np.array(num_above, dtype=np.float64), np.array(num_below, dtype=np.float64))


def resamples(num_problems: int, num_bootstrap: int, seed: int) -> Floats:
    """How often each problem was drawn: the sample itself in row 0, then a row per resample."""
    drawn = resample_weights(num_problems, num_bootstrap, seed)
    return np.vstack([np.ones(num_problems), *drawn])


def pooled_auroc(wins: Wins, weights: Floats) -> Floats:
    """AUROC over all pairs of all problems, one value per row of `weights`.

    It asks for distances that mean the same in every problem, as ranking problems (Eq. 3) does.
    """
    won = np.einsum("bp,pq,bq->b", weights, wins.won, weights, optimize=True)
    return _ratio(won, (weights @ wins.different) * (weights @ wins.same))


def within_auroc(wins: Wins, weights: Floats) -> Floats:
    """Mean AUROC of the problems with pairs of both kinds, one value per row of `weights`."""
    compared = wins.different * wins.same
    return weighted_mean(_ratio(wins.won.diagonal(), compared), weights)


def weighted_mean(values: npt.ArrayLike, weights: Floats) -> Floats:
    """Mean over problems, one value per row of `weights`; problems with NaN do not count."""
    array = np.asarray(values, dtype=np.float64)
    counts = ~np.isnan(array)
    return _ratio(weights[:, counts] @ array[counts], weights[:, counts].sum(axis=1))


def estimate(values: Floats) -> Estimate:
    """The figure (row 0) with the interval of its resamples (the others) in which it exists."""
    if np.isnan(values[0]):
        return Estimate(None, None, None)
    drawn = values[1:][~np.isnan(values[1:])]
    ends = percentile_ends(drawn, LEVEL) if len(drawn) else (None, None)
    return Estimate(float(values[0]), *ends)


def _ratio(above: Floats, below: Floats) -> Floats:
    """`above / below`, NaN where nothing is below."""
    result: Floats = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result
