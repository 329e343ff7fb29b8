"""What a distance means: the chance that two solutions at this distance differ in strategy.

A logistic curve for each distance and encoder, fitted to pairs of solutions with strategy labels;
the table of evidence (`measured.json`) holds those of the bundled encoder. A chance depends on how
common several strategies are: in the sets that these were fitted to, 16 % of the pairs differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

# Up to which chance each phrase holds.
_PHRASES = (
    (0.1, "almost surely the same method"),
    (0.35, "probably the same method"),
    (0.65, "the same method or another"),
    (0.9, "probably another method"),
    (1.0, "almost surely another method"),
)
_SCALE = (0.1, 0.3, 0.5, 0.7)
_BINS = 10
_MOST_STEPS = 100
# Keeps the slope finite where a distance splits the pairs without an error.
_RIDGE = 1e-3


@dataclass(frozen=True)
class Calibration:
    """The curve of one distance with one embedder: log odds at distance 0, and their slope.

    Args:
        steps (`str`): `"chat"` where a chat model made the steps, `"extractive"`, or `""` where it
            reads none.
        pairs (`int`): Labelled pairs that it was fitted to.
        texts (`str`): The kind of text, see [`~rpd_metric.distance.measured.Measurement`].
        error (`float`, *optional*): Mean gap between chance and share, in ten bins, on pairs that
            were left out of the fit: of the packaged curves the largest over three sets left out
            in turn, of others over five folds of the problems together.
    """

    distance: str
    embedder: str
    steps: str
    intercept: float
    slope: float
    pairs: int
    error: float | None = None
    texts: str = "en"

    def chance(self, distance: float) -> float:
        """The chance that a pair at this distance differs in strategy."""
        odds = self.intercept + self.slope * distance
        return 1 / (1 + math.exp(-max(min(odds, 700.0), -700.0)))

    def phrase(self, distance: float) -> str:
        """The chance in words, e.g. `"probably the same method"`."""
        chance = self.chance(distance)
        return next(words for most, words in _PHRASES if chance <= most)

    def in_words(self, distance: float) -> str:
        """The distance and its phrase, e.g. `"0.41: probably the same method"`."""
        return f"{distance:.2f}: {self.phrase(distance)}"

    def scale(self) -> str:
        """A few distances with their chance of another strategy, to read others by."""
        marks = ", ".join(f"{distance:.1f}: {self.chance(distance):.0%}" for distance in _SCALE)
        error = "" if self.error is None else f", off by {self.error:.0%} on sets it had not seen"
        return (
            f"the chance of another method at a distance of {marks} (encoder {self.embedder}, "
            f"{self.pairs:,} labelled pairs{error})"
        )

    def effective_strategies(
        self, matrix: npt.ArrayLike, among: Sequence[int] | None = None
    ) -> float | None:
        """How many equally common strategies solutions are worth; `None` without a usable one.

        The inverse of the chance that two solutions drawn with replacement have the same strategy.

        Args:
            matrix (`array` of shape `(k, k)`): Distances; rows and columns of NaN (in nested
                lists: None) are left out.
            among (`Sequence[int]`, *optional*): Of these solutions only.
        """
        distances = np.asarray(matrix, dtype=np.float64)
        among = range(len(distances)) if among is None else among
        keep = [index for index in among if not np.isnan(distances[index, index])]
        if not keep:
            return None
        odds = self.intercept + self.slope * distances[np.ix_(keep, keep)]
        same = 1 - 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        np.fill_diagonal(same, 1)
        return float(len(keep) ** 2 / same.sum())


def fit_curve(distances: npt.ArrayLike, different: npt.ArrayLike) -> tuple[float, float]:
    """Intercept and slope of the logistic curve of labelled pairs, by Newton's method.

    Pairs without a distance (NaN) are left out; the labels must be of both kinds.
    """
    x = np.asarray(distances, dtype=np.float64)
    y = np.asarray(different, dtype=np.float64)[~np.isnan(x)]
    x = x[~np.isnan(x)]
    if not 0 < y.sum() < len(y):
        raise InputError("calibration needs labelled pairs of the same and of another strategy")
    design = np.column_stack([np.ones_like(x), x])
    weights = np.zeros(2)
    for _ in range(_MOST_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (y - chance) - _RIDGE * weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), float(weights[1])


def calibration_error(chances: Sequence[float], different: Sequence[bool]) -> float:
    """Mean gap between the chance that was given and the share that differed, in ten bins."""
    order = np.argsort(chances, kind="stable")
    given = np.asarray(chances, dtype=np.float64)[order]
    truth = np.asarray(different, dtype=np.float64)[order]
    bins = np.array_split(np.arange(len(order)), min(_BINS, len(order)))
    gaps = [len(part) * abs(given[part].mean() - truth[part].mean()) for part in bins]
    return float(sum(gaps) / len(order))
