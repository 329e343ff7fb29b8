"""What a report shows and a curated folder does not hold: which step matched which.

It takes an encoder; without one only the stored distances are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rpd_datasets.report.contents import Array, ChosenProblem, spread
from rpd_metric.distance.core import StepMatch, Ties, rpd_alignment
from rpd_metric.models.embedders import Embedder


@dataclass(frozen=True)
class Pair:
    """Two chosen solutions and their distances."""

    first: int
    second: int
    rpd: float | None  # as stored
    chosen_by: float | None  # by the distance that chose, if another
    matches: list[StepMatch]  # empty without an encoder; "a" is the first


@dataclass(frozen=True)
class Case:
    """A chosen problem with what was measured of it."""

    row: ChosenProblem
    pairs: list[Pair]
    encoded: bool = False


@dataclass(frozen=True)
class Measures:
    """All cases by rank, and the stored distances of all pairs of solutions in them."""

    cases: list[Case]
    embedder: str | None
    rpd: Array
    choosing: Array  # by the distance that chose, if another


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
        embedder ([`Embedder`], *optional*): The one that the distances were made with; another one
            gives matches that do not explain them. Without one there is only what is stored.
        most (`int`, *optional*): Encode only so many problems, spread evenly.
    """
    encoded = set(range(len(rows)) if most is None else spread(len(rows), most))
    cases = []
    for place, row in enumerate(rows):
        vectors = dict[int, Array]()
        if embedder is not None and place in encoded:
            vectors = _encoded(row, embedder)
        cases.append(Case(row, _pairs(row, vectors, ties), bool(vectors)))
        on_problem()
    return Measures(
        cases,
        None if embedder is None else embedder.name,
        _values(row.rpd for row in rows),
        _values(row.distances for row in rows if row.distances is not None),
    )


def _values(matrices: Iterable[Array]) -> Array:
    """One value for each pair that has a distance."""
    above = [matrix[np.triu_indices(len(matrix), 1)] for matrix in matrices]
    values = np.concatenate([np.zeros(0), *above])
    return np.asarray(values[~np.isnan(values)], dtype=np.float64)


def _encoded(row: ChosenProblem, embedder: Embedder) -> dict[int, Array]:
    """The vectors of the chosen solutions' steps."""
    # What was compared at curation: blank steps are none there.
    steps = {i: [step for step in row.steps[i] if step.strip()] for i in row.selected}
    flat = [step for texts in steps.values() for step in texts]
    if not flat:  # nothing that chose reads steps
        return {}
    vectors = np.asarray(embedder.encode(flat), dtype=np.float64)
    ends = np.cumsum([len(texts) for texts in steps.values()])
    return dict(zip(steps, np.split(vectors, ends[:-1]), strict=True))


def _pairs(row: ChosenProblem, vectors: dict[int, Array], ties: Ties) -> list[Pair]:
    def between(matrix: Array | None) -> float | None:
        if matrix is None or np.isnan(matrix[first, second]):
            return None
        return float(matrix[first, second])

    pairs = []
    # In order of index: with ties="first" the lower one asks.
    for first, second in combinations(sorted(row.selected), 2):
        rpd, matches = between(row.rpd), []
        if vectors and rpd is not None:
            matches = rpd_alignment(vectors[first], vectors[second], ties)
        pairs.append(Pair(first, second, rpd, between(row.distances), matches))
    return pairs
