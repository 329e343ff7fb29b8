"""What a report shows and a curated folder does not hold: it takes an encoder.

Which step matched which, and the raw-text distance beside RPD (the baseline of Sec. 4.1: one
embedding per solution; Fig. 3). Without an encoder only the stored distances are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rpd_datasets.report.contents import Array, ChosenProblem, spread
from rpd_metric.distance.core import StepMatch, Ties, rpd_alignment, rpd_matrix
from rpd_metric.models.embedders import Embedder


@dataclass(frozen=True)
class Pair:
    """Two chosen solutions and their distances."""

    first: int
    second: int
    rpd: float | None  # as stored
    chosen_by: float | None  # by the distance that chose, if another
    raw: float | None
    matches: list[StepMatch]  # empty without an encoder; "a" is the first


@dataclass(frozen=True)
class Case:
    """A chosen problem with what was measured of it."""

    row: ChosenProblem
    pairs: list[Pair]
    encoded: bool = False


@dataclass(frozen=True)
class Measures:
    """All cases by rank, and the distances of all pairs of solutions in them, one value a pair."""

    cases: list[Case]
    embedder: str | None
    rpd: Array  # as stored
    choosing: Array  # by the distance that chose, if another
    raw: Array  # empty without an encoder


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
        rows, ties: The problems, and how equally long lists of steps were compared.
        embedder ([`Embedder`], *optional*): The one that the distances were made with; another one
            gives matches that do not explain them. Without one there is only what is stored.
        on_problem (`Callable`): Called after each problem, for a progress bar.
        most (`int`, *optional*): Encode only so many problems, spread evenly.
    """
    encoded = set(range(len(rows)) if most is None else spread(len(rows), most))
    cases: list[Case] = []
    found: dict[str, list[Array]] = {name: [np.zeros(0)] for name in ("rpd", "raw", "choosing")}
    for place, row in enumerate(rows):
        raw, steps = None, dict[int, Array]()
        if embedder is not None and place in encoded:
            raw, steps = _encoded(row, embedder)
        cases.append(Case(row, _pairs(row, raw, steps, ties), raw is not None))
        for name, matrix in (("rpd", row.rpd), ("raw", raw), ("choosing", row.distances)):
            if matrix is not None:
                values = matrix[np.ix_(row.usable, row.usable)]
                values = values[np.triu_indices(len(row.usable), 1)]
                found[name].append(values[~np.isnan(values)])
        on_problem()
    encoder = None if embedder is None else embedder.name
    return Measures(cases, encoder, **{name: np.concatenate(all_) for name, all_ in found.items()})


def _encoded(row: ChosenProblem, embedder: Embedder) -> tuple[Array, dict[int, Array]]:
    """The raw-text distances, and the vectors of the chosen solutions' steps."""
    # What was compared at curation: blank steps are none there.
    steps = {i: [step for step in row.steps[i] if step.strip()] for i in row.selected}
    texts = [row.solutions[index] for index in row.usable]
    flat = [step for index in row.selected for step in steps[index]]
    vectors = np.asarray(embedder.encode([*texts, *flat]), dtype=np.float64)
    raw = np.full(row.rpd.shape, np.nan)
    # Lists of one vector each: their distance is the plain cosine distance.
    raw[np.ix_(row.usable, row.usable)] = rpd_matrix(list(vectors[: len(texts), None]))
    ends = np.cumsum([len(texts), *(len(steps[index]) for index in row.selected)])
    return raw, dict(zip(row.selected, np.split(vectors, ends[:-1])[1:], strict=True))


def _pairs(
    row: ChosenProblem, raw: Array | None, step_vectors: dict[int, Array], ties: Ties
) -> list[Pair]:
    def between(matrix: Array | None) -> float | None:
        if matrix is None or np.isnan(matrix[first, second]):
            return None
        return float(matrix[first, second])

    pairs = []
    # In order of index: with ties="first" the lower one asks.
    for first, second in combinations(sorted(row.selected), 2):
        rpd, matches = between(row.rpd), []
        if step_vectors and rpd is not None:
            matches = rpd_alignment(step_vectors[first], step_vectors[second], ties)
        pairs.append(Pair(first, second, rpd, between(row.distances), between(raw), matches))
    return pairs
