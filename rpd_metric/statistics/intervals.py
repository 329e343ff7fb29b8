"""How far to trust a figure, and whether two models differ, without claiming too much.

    values of each problem (problems, figures), shares      -> means with a band over the figures
    two models' values for the same problems, such an array -> differences, band, p values

A percentile bootstrap and Student's t fail for a share where benchmarks are used: they print
[0, 0] when nothing was solved, and a few hopeless problems that the benchmark lacks are never
allowed for. A mean's interval here is Gaffke's: a Bayesian bootstrap with one more problem, which
is all wrong for the lower end and all right for the upper one. For problems that are right or
wrong it is the exact interval of Clopper and Pearson.

Two models that meet the same problems are compared by flipping signs: if they are equal, a
difference could as well have been the opposite one. Looking at pass@1, 2, 4, 8 and 16 is looking
five times, so each difference is held against the largest that any k shows by chance (max-t).
Several comparisons in one table are corrected by Holm's method (`holm_rows`). `docs/statistics.md`
has the simulated coverage and error rates, made by `benchmarks/interval_coverage.py`.

The percentile bootstrap is for figures that are no mean of shares, as an AUROC. A resample draws
whole problems, because samples (or pairs) of one problem are not independent of each other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Floats = npt.NDArray[np.float64]

# Weights are drawn in blocks of about this many numbers (32 MB of int64).
_BLOCK = 4_000_000
_RESAMPLES = 10_000
# How often an interval should hold the truth, and a band all differences.
LEVEL = 0.95


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
    """A difference of two means, and the p value of there being none."""

    p: float


def mean_interval(per_problem: npt.ArrayLike) -> Interval:
    """Gaffke's 95 % interval for a mean of shares: no more than so many problems can show.

    Args:
        per_problem (array of shape `(problems,)`): Values from 0 to 1 of any estimator.

    Returns:
        [`Interval`]: Inside [0, 1], never of zero width.

    >>> nothing_solved = mean_interval([0.0] * 240)
    >>> nothing_solved.low, round(nothing_solved.high, 3)
    (0.0, 0.015)
    """
    return mean_band(np.asarray(per_problem, dtype=np.float64)[..., None])[0]


def mean_band(per_problem: npt.ArrayLike) -> list[Interval]:
    """Intervals for several means over the same problems that hold all of them at once.

    Arguments as for [`mean_interval`], with a column for each mean.
    """
    values = _values(per_problem, "per_problem")
    # The order of the problems makes no difference.
    values = values[np.lexsort(values.T)]
    problems, figures = values.shape
    worst = np.concatenate([values, np.zeros((1, figures))])
    best = np.concatenate([values, np.ones((1, figures))])
    lows, highs = [], []
    rng = np.random.default_rng(0)
    for size in _block_sizes(problems + 1, _RESAMPLES):
        weights = rng.standard_exponential((size, problems + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        lows.append(weights @ worst)
        highs.append(weights @ best)
    low = 1 - _upper_ends(1 - np.concatenate(lows))
    high = _upper_ends(np.concatenate(highs))
    means = values.mean(axis=0)
    # Rounding must not spoil the ends, nor put a figure outside its interval.
    low = np.where(values.max(axis=0) == 0, 0.0, np.clip(low, 0.0, means))
    high = np.where(values.min(axis=0) == 1, 1.0, np.clip(high, means, 1.0))
    return [Interval(*map(float, ends)) for ends in zip(means, low, high, strict=True)]


def _upper_ends(draws: Floats) -> Floats:
    """For each column an end, above all of which lies half of what is outside of the level.

    One rank for all columns: the least at which so many rows lie below all of the ends.
    """
    ordered = np.sort(draws, axis=0)
    ranks = np.max([np.searchsorted(o, d) for o, d in zip(ordered.T, draws.T, strict=True)], axis=0)
    rank = np.sort(ranks)[min(len(draws) - 1, math.ceil((1 + LEVEL) / 2 * len(draws)))]
    return np.asarray(ordered[rank])


def paired_differences(a: npt.ArrayLike, b: npt.ArrayLike) -> list[PairedDifference]:
    """How much better model A does than model B on the same problems, in several figures at once.

    Args:
        a (array of shape `(problems, figures)`): A's values.
        b (array of the same shape): B's, for the same problems in the same order.

    Returns:
        `list` of [`PairedDifference`]: p values are corrected for there being several figures.
        Where no problem tells the models apart, the interval is as wide as that for no success
        in so many problems, since another problem might.
    """
    ours, theirs = _values(a, "a"), _values(b, "b")
    if ours.shape != theirs.shape:
        raise InputError(
            f"a has {ours.shape} (problems, figures) and b {theirs.shape}; a paired comparison "
            "needs the same problems in the same order"
        )
    gaps = ours - theirs
    means = gaps.mean(axis=0)
    # Among flips of signs the sum of squares stays, so that t grows with this ratio alone.
    lengths = np.sqrt((gaps**2).sum(axis=0))
    scaled = np.divide(gaps, lengths, out=np.zeros_like(gaps), where=lengths > 0)
    observed = np.abs(scaled.sum(axis=0))
    largest = _largest_by_chance(scaled)
    # The flip that was observed is one of them.
    p = (1 + (largest[:, None] >= observed - 1e-9).sum(axis=0)) / (1 + len(largest))
    critical = float(np.sort(largest)[min(len(largest) - 1, math.ceil(LEVEL * len(largest)))])
    return [
        PairedDifference(*map(float, figures))
        for figures in zip(means, *_band(gaps, critical), p, strict=True)
    ]


def _largest_by_chance(scaled: Floats) -> Floats:
    """The largest sum of any column, for each random flip of the problems' signs."""
    rng = np.random.default_rng(0)
    problems, largest = len(scaled), []
    for size in _block_sizes(problems, _RESAMPLES):
        signs = 2.0 * rng.integers(0, 2, (size, problems)) - 1.0
        largest.append(np.abs(signs @ scaled).max(axis=1))
    return np.concatenate(largest)


def _band(gaps: Floats, critical: float) -> tuple[Floats, Floats]:
    """The ends of a band, from the largest scaled sum that chance reaches."""
    from scipy.special import stdtrit

    problems, means = len(gaps), gaps.mean(axis=0)
    # Back from the ratio to Student's t, whose quantile is the least that one figure needs.
    square = min(critical**2, problems)
    alone = float(stdtrit(max(problems - 1, 1), (1 + LEVEL) / 2))
    ratio = square * (problems - 1) / max(problems - square, 1e-9)
    error = gaps.std(axis=0) / math.sqrt(max(problems - 1, 1))
    nothing = mean_interval(np.zeros(problems)).high
    half = np.where(error > 0, max(math.sqrt(ratio), alone) * error, nothing)
    return np.clip(means - half, -1.0, 1.0), np.clip(means + half, -1.0, 1.0)


def holm_rows(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """P values corrected for there being several rows, each corrected for its own cells before.

    Holm's method (1979), in which a row counts until all of its cells are rejected: compare the
    results with the level itself, and any false alarm in the table is as rare as the level says.

    >>> holm_rows([[0.01], [0.04], [0.03]]), holm_rows([[0.01, 0.04], [0.02]])
    ([[0.03], [0.06], [0.06]], [[0.02, 0.04], [0.04]])
    """
    corrected = [[0.0] * len(row) for row in rows]
    open_cells = [len(row) for row in rows]
    highest = 0.0
    cells = [(p, place, cell) for place, row in enumerate(rows) for cell, p in enumerate(row)]
    for p, place, cell in sorted(cells):
        highest = max(highest, min(1.0, p * sum(count > 0 for count in open_cells)))
        corrected[place][cell] = highest
        open_cells[place] -= 1
    return corrected


def bootstrap_interval(per_problem: npt.ArrayLike) -> Interval:
    """The 95 % percentile bootstrap interval, over problems, for a mean without an upper bound.

    Where all values are equal it has no width. For shares take [`mean_interval`].

    >>> bootstrap_interval([1.0, 2.0, 3.0])
    Interval(value=2.0, low=1.0, high=3.0)
    """
    # Equal values are drawn together: many problems show few different values.
    values, times = np.unique(np.asarray(per_problem, dtype=np.float64), return_counts=True)
    problems, rng = int(times.sum()), np.random.default_rng(0)
    drawn = [
        rng.multinomial(problems, times / problems, size=size) @ values
        for size in _block_sizes(len(values), _RESAMPLES)
    ]
    ends = percentile_ends(np.concatenate(drawn) / problems, LEVEL)
    return Interval(float(times @ values / problems), *ends)


def resample_weights(
    num_problems: int, num_resamples: int, seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """How often each resample drew each problem, in blocks that bound the memory.

    Yields arrays of shape `(resamples of the block, num_problems)`. The same seed gives the same
    weights, whatever the size of a block.
    """
    rng = np.random.default_rng(seed)
    uniform = np.full(num_problems, 1 / num_problems)
    for size in _block_sizes(num_problems, num_resamples):
        yield rng.multinomial(num_problems, uniform, size=size)


def percentile_ends(resampled: Floats, level: float) -> tuple[float, float]:
    """The ends between which the middle `level` of the resampled figures lies."""
    outside = (100 - 100 * level) / 2
    low, high = np.percentile(resampled, [outside, 100 - outside])
    return float(low), float(high)


def _block_sizes(width: int, rows: int) -> Iterator[int]:
    block = max(1, _BLOCK // width)
    for start in range(0, rows, block):
        yield min(block, rows - start)


def _values(values: npt.ArrayLike, name: str) -> Floats:
    """Shares, a row for each problem. Raises [`InputError`]."""
    array = np.asarray(values, dtype=np.float64)
    # NaN is in no range.
    if array.ndim != 2 or array.size == 0 or not ((array >= 0) & (array <= 1)).all():
        raise InputError(
            f"{name} must be a non-empty array of shares from 0 to 1, a row for each problem; "
            f"got one of shape {array.shape}"
        )
    return array
