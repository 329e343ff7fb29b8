"""What a report shows and a curated folder does not hold: it takes an encoder.

Which step matched which, the raw-text distance beside RPD (the baseline of Sec. 4.1: one
embedding per solution; Fig. 3), and where steps and whole solutions lie in a plane (Fig. 4).
Without an encoder only the stored distances are left. Drawing is `charts.py` and `figures.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rpd_datasets.report.reading import ChosenProblem, spread
from rpd_metric.distance.core import StepMatch, Ties, rpd_alignment, rpd_matrix
from rpd_metric.models.embedders import Embedder

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two chosen solutions.

    Args:
        first, second (`int`): Indices into the problem's solutions.
        rpd (`float`, *optional*): As stored; `None` where there are no steps.
        raw (`float`, *optional*): Cosine distance of the whole texts.
        matches (`list[StepMatch]`): Empty without an encoder; `"a"` is the first.
    """

    first: int
    second: int
    rpd: float | None
    raw: float | None
    matches: list[StepMatch]


@dataclass(frozen=True)
class Plane:
    """The chosen solutions' steps and whole texts on two principal components.

    Args:
        steps (`dict[int, array of shape (n, 2)]`): Per chosen solution, in order of its steps.
        texts (`dict[int, array of shape (2,)]`): Per chosen solution, its whole text.
        explained (`tuple[float, float]`): Share of the variance on each axis.
    """

    steps: dict[int, Array]
    texts: dict[int, Array]
    explained: tuple[float, float]


@dataclass(frozen=True)
class Case:
    """A chosen problem with what was measured of it."""

    row: ChosenProblem
    pairs: list[Pair]
    plane: Plane | None


@dataclass(frozen=True)
class Measures:
    """All cases, and the distances of all pairs of solutions in them that were not left out.

    Args:
        cases (`list[Case]`): By rank.
        rpd (`array`): As stored, one value per pair with steps.
        raw (`array`): The raw-text distance, one value per pair; empty without an encoder.
        embedder (`str`, *optional*): Who encoded.
        choosing (`array`): The distance that chose solutions, as stored, one value per pair; empty
            where it is RPD, or no distance chose.
    """

    cases: list[Case]
    rpd: Array
    raw: Array
    embedder: str | None
    choosing: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Spread:
    """How one distance is distributed over the pairs of the problems shown.

    Args:
        name (`str`): What it is called.
        kind (`str`): Its colour in the page's style sheet: `"accent"` for the distance that chose,
            `"beside"` for RPD where another one did, `"raw"` for whole texts.
        values (`array`): Of all pairs of compared solutions.
        picked (`list[float]`): Of the pairs of chosen solutions.
    """

    name: str
    kind: str
    values: Array
    picked: list[float]


def spreads(measures: Measures, chosen_by: str) -> list[Spread]:
    """The distances that there is something to show of, the one that chose first.

    Args:
        measures ([`Measures`]): What was measured.
        chosen_by (`str`): The manifest's name of the distance that chose solutions.
    """
    pairs = [(case.row.distances, pair) for case in measures.cases for pair in case.pairs]
    by_choice = [
        float(matrix[pair.first, pair.second]) for matrix, pair in pairs if matrix is not None
    ]
    found = [
        Spread(
            f"Distance {chosen_by}",
            "accent",
            measures.choosing,
            [value for value in by_choice if not np.isnan(value)],
        ),
        Spread(
            "RPD",
            "beside" if len(measures.choosing) else "accent",
            measures.rpd,
            [pair.rpd for _, pair in pairs if pair.rpd is not None],
        ),
        Spread(
            "Raw-text distance",
            "raw",
            measures.raw,
            [pair.raw for _, pair in pairs if pair.raw is not None],
        ),
    ]
    return [one for one in found if len(one.values)]


def measure(
    rows: Sequence[ChosenProblem],
    embedder: Embedder | None,
    ties: Ties = "mean",
    on_problem: Callable[[], None] = lambda: None,
    *,
    most: int | None = None,
) -> Measures:
    """Measure the problems that a report shows.

    Args:
        rows (`Sequence` of [`ChosenProblem`]): The problems.
        embedder ([`Embedder`], *optional*): The one that the distances were
            made with; another one gives matches that do not explain them.
        ties (`"mean"` or `"first"`): As the distances were made.
        on_problem (`Callable`): Called after each problem, for a progress bar.
        most (`int`, *optional*): Encode only so many problems, spread evenly; the others have what
            is stored.
    """
    encoded = set(range(len(rows)) if most is None else spread(len(rows), most))
    cases, rpd, raw, choosing = [], [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    for place, row in enumerate(rows):
        rpd.append(_above_diagonal(row.rpd, row.usable))
        if row.distances is not None:
            choosing.append(_above_diagonal(row.distances, row.usable))
        if embedder is None or place not in encoded:
            cases.append(Case(row, _pairs(row, None, {}, ties), None))
        else:
            case, distances = _measured(row, embedder, ties)
            cases.append(case)
            raw.append(_above_diagonal(distances, row.usable))
        on_problem()
    name = None if embedder is None else embedder.name
    return Measures(cases, np.concatenate(rpd), np.concatenate(raw), name, np.concatenate(choosing))


def percentile(values: Array, value: float) -> float:
    """Percent of `values` below `value`, those equal to it counted half.

    Example:

    >>> percentile(np.array([0.1, 0.2, 0.2, 0.4]), 0.2)
    50.0
    """
    return float(50 * ((values < value).mean() + (values <= value).mean()))


def _above_diagonal(matrix: Array, usable: Sequence[int]) -> Array:
    """One value per pair of usable solutions, unknown ones left out."""
    values = matrix[np.ix_(usable, usable)][np.triu_indices(len(usable), 1)]
    return values[~np.isnan(values)]


def _measured(row: ChosenProblem, embedder: Embedder, ties: Ties) -> tuple[Case, Array]:
    # What was compared at curation: blank steps are none there.
    steps = {i: [step for step in row.steps[i] if step.strip()] for i in row.selected}
    texts = [row.solutions[index] for index in row.usable]
    flat = [step for index in row.selected for step in steps[index]]
    vectors = np.asarray(embedder.encode([*texts, *flat]), dtype=np.float64)
    raw = np.full(row.rpd.shape, np.nan)
    # Lists of one vector each: their distance is the plain cosine distance.
    raw[np.ix_(row.usable, row.usable)] = rpd_matrix(list(vectors[: len(texts), None]))
    bounds = np.cumsum([len(texts), *(len(steps[index]) for index in row.selected)])
    step_vectors = {
        index: vectors[start:end]
        for index, start, end in zip(row.selected, bounds[:-1], bounds[1:], strict=True)
    }
    text_vectors = {index: vectors[row.usable.index(index)] for index in row.selected}
    pairs = _pairs(row, raw, step_vectors, ties)
    return Case(row, pairs, _plane(step_vectors, text_vectors) if flat else None), raw


def _pairs(
    row: ChosenProblem, raw: Array | None, step_vectors: dict[int, Array], ties: Ties
) -> list[Pair]:
    pairs = []
    # In order of index: with ties="first" the lower one asks.
    for first, second in combinations(sorted(row.selected), 2):
        rpd = float(row.rpd[first, second])
        matches = []
        if step_vectors and not np.isnan(rpd):
            matches = rpd_alignment(step_vectors[first], step_vectors[second], ties)
        pairs.append(
            Pair(
                first,
                second,
                None if np.isnan(rpd) else rpd,
                None if raw is None else float(raw[first, second]),
                matches,
            )
        )
    return pairs


def _plane(steps: dict[int, Array], texts: dict[int, Array]) -> Plane:
    """Principal components of steps and whole texts together, at the unit length of cosines."""
    points = np.concatenate([*steps.values(), *(vector[None] for vector in texts.values())])
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    points = points / np.where(norms > 0, norms, 1)
    points = points - points.mean(axis=0)
    left, sizes, axes = np.linalg.svd(points, full_matrices=False)
    found = min(2, len(sizes))
    coordinates = np.zeros((len(points), 2))
    coordinates[:, :found] = left[:, :found] * sizes[:found]
    # An axis may point either way: its largest entry is made positive, so that equal runs agree.
    for axis in range(found):
        if axes[axis, np.abs(axes[axis]).argmax()] < 0:
            coordinates[:, axis] *= -1
    total = float((sizes**2).sum())
    shares = [float(size**2) / total if total > 0 else 0.0 for size in sizes[:2]]
    shares += [0.0] * (2 - len(shares))
    bounds = np.cumsum([0, *(len(vectors) for vectors in steps.values())])
    return Plane(
        {i: coordinates[a:b] for i, a, b in zip(steps, bounds[:-1], bounds[1:], strict=True)},
        {i: coordinates[int(bounds[-1]) + place] for place, i in enumerate(texts)},
        (shares[0], shares[1]),
    )
