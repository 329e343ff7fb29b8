"""Selection: which problems, and which solutions of each; plain matrices and scores in.

Stage 1 of the paper ranks problems by their score (Eq. 3, Algorithm 1), stage 2 picks a
diverse subset of each problem's solutions (Algorithm 2).
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import usable_part
from rpd_metric.errors import InputError

Selection = Literal["maxmin", "maxavg", "exact", "random"]
SELECTIONS: tuple[Selection, ...] = ("maxmin", "maxavg", "exact", "random")
# Those that go one by one, so that groups may take turns.
GREEDY: tuple[Selection, ...] = ("maxmin", "maxavg")
MAX_SUBSETS = 5000

Matrix = npt.NDArray[np.float64]


def select_solutions(
    matrix: npt.ArrayLike,
    m: int,
    method: Selection = "maxmin",
    *,
    seed: int = 0,
    quality: Sequence[float | None] | None = None,
    quality_weight: float = 0.0,
    groups: Sequence[int | None] | None = None,
) -> list[int]:
    """Pick `m` solutions of one problem (Sec. 3.2, Algorithm 2).

    The methods, all with ties going to the lowest index:

    - `"maxmin"` is Algorithm 2: start with the solution furthest from all others, then keep
      adding the one whose closest chosen neighbour is furthest away;
    - `"maxavg"` is the paper's text in Sec. 3.2: keep adding the one with the highest average
      distance to those chosen. It readily picks two solutions of one strategy, as long as both
      are far from a third;
    - `"exact"` looks at every subset for the largest smallest distance (then the largest sum),
      where there are at most 5000;
    - `"random"` is the baseline.

    Args:
        matrix (`array` of shape `(k, k)`): Distances. Solutions with NaN on their diagonal are
            unusable and never picked.
        m (`int`): How many. With fewer usable solutions all of them come back.
        method (`str`, defaults to `"maxmin"`): See above.
        seed (`int`, defaults to 0): For `"random"`.
        quality (`Sequence[float | None]`, *optional*): A score per solution, scaled to 0 to 1 over
            the usable ones as `q` (0 if missing). `"maxmin"` and `"maxavg"` then add the solution
            with the largest `distance + quality_weight * q`; `"exact"` maximizes `smallest distance
            + quality_weight * mean q`.
        quality_weight (`float`, defaults to 0): Negative weights prefer low scores.
        groups (`Sequence[int | None]`, *optional*): The strategy of each solution, for `"maxmin"`
            and `"maxavg"`: one of each is taken in turn; those without one (`None`) come last.

    Returns:
        `list[int]`: Indices into the matrix, in order of choice (ascending for `"exact"`).

    Example:

    ```py
    >>> from rpd_datasets import select_solutions
    >>> select_solutions([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]], 2)
    [2, 0]

    ```
    """
    usable, distances = usable_part(matrix)
    if (m := min(m, len(usable))) <= 0:
        return []
    if method not in SELECTIONS:
        raise InputError(f"unknown selection {method!r}; use one of {', '.join(SELECTIONS)}")
    worth = None
    if quality is not None and quality_weight:
        if method == "random":
            raise InputError("a random choice weighs no quality; choose by a distance")
        worth = quality_weight * scaled_quality([quality[int(index)] for index in usable])
    if groups is not None:
        if method not in GREEDY:
            raise InputError(f"selection {method!r} knows no groups; use 'maxmin' or 'maxavg'")
        groups = [groups[int(index)] for index in usable]
    if method == "random":
        chosen = np.random.default_rng(seed).choice(len(usable), size=m, replace=False).tolist()
    else:
        chosen = (_exact if method == "exact" else _greedy)(distances, m, worth, method, groups)
    return [int(usable[index]) for index in chosen]


def _greedy(
    distances: Matrix,
    m: int,
    worth: Matrix | None,
    method: Selection,
    groups: Sequence[int | None] | None,
) -> list[int]:
    """Algorithm 2, or the paper's text; a solution's worth is added to its distance."""
    chosen: list[int] = []
    value = _totals(distances, worth)
    gather = np.minimum if method == "maxmin" else np.add
    while True:
        if groups is not None:
            value[~_due(groups, chosen)] = -np.inf
        chosen.append(int(value.argmax()))
        if len(chosen) == m:
            return chosen
        value = reduce(gather, distances[chosen])
        if worth is not None:
            value = value / (1 if method == "maxmin" else len(chosen)) + worth
        # Without worth, the average over those chosen and their sum have the same maximum.
        value[chosen] = -np.inf


def _due(groups: Sequence[int | None], chosen: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Solutions of the groups with the fewest chosen solutions."""
    times = Counter(groups[index] for index in chosen)
    taken = np.array([math.inf if group is None else times[group] for group in groups])
    due: npt.NDArray[np.bool_] = taken == np.delete(taken, chosen).min()
    return due


def _totals(distances: Matrix, worth: Matrix | None) -> Matrix:
    total: Matrix = distances.sum(axis=1)
    return total if worth is None else total / max(1, len(distances) - 1) + worth


def scaled_quality(scores: Sequence[float | None]) -> Matrix:
    """Scores scaled to 0 to 1; missing and constant scores become 0.

    >>> scaled_quality([3.0, 1.0, None, 2.0]).tolist()
    [1.0, 0.0, 0.0, 0.5]
    """
    values = np.array(scores, dtype=np.float64)  # None becomes NaN
    known = values[np.isfinite(values)]
    if not len(known) or known.max() == known.min():
        return np.zeros(len(values))
    scaled = (values - known.min()) / (known.max() - known.min())
    return np.where(np.isfinite(scaled), scaled, 0.0)


def _exact(distances: Matrix, m: int, worth: Matrix | None, *_: object) -> list[int]:
    k = len(distances)
    if (count := math.comb(k, m)) > MAX_SUBSETS:
        raise InputError(
            f"selection 'exact' would look at {count} subsets of {m} out of {k} solutions, more "
            f"than {MAX_SUBSETS}; use 'maxmin'"
        )
    if m == 1:
        return [int(_totals(distances, worth).argmax())]
    subsets = np.array(list(itertools.combinations(range(k), m)))
    pairs = np.array(list(itertools.combinations(range(m), 2)))
    within = distances[subsets[:, pairs[:, 0]], subsets[:, pairs[:, 1]]]
    # lexsort is stable and sorts by its last key first: smallest distance, then sum, then order.
    smallest = within.min(axis=1)
    if worth is not None:
        smallest = smallest + worth[subsets].mean(axis=1)
    best = np.lexsort((-within.sum(axis=1), -smallest))[0]
    return [int(index) for index in subsets[best]]


def rank(scores: Sequence[float | None]) -> list[int]:
    """Indices by descending score, ties in their given order, `None` and NaN last.

    >>> rank([0.2, None, 0.5, 0.2])
    [2, 0, 3, 1]
    """
    return sorted(range(len(scores)), key=[_descending(score) for score in scores].__getitem__)


def _descending(score: float | None) -> float:
    return math.inf if score is None or math.isnan(score) else -score


def draw_lot(text: str, seed: int) -> str:
    """A hash of a text and the seed; sorting by it shuffles, so the first 100 are among the first
    300 whatever the other texts."""
    return hashlib.sha256(f"{seed}\n{text}".encode(errors="surrogatepass")).hexdigest()


PROBLEM_METHODS = ("score", "rpd", "random", "llm")


def select_problems(
    ds: Any, n: int, method: str = "score", *, seed: int = 0, problem_column: str = "problem"
) -> Any:
    """Keep `n` problems: those with the highest score (Algorithm 1), or a baseline's.

    Args:
        ds (`datasets.Dataset`, `IterableDataset` or `list` of rows): From `ds.map(rpd_curate)`. A
            stream is read once, with at most `n` rows in memory.
        n (`int`): At most so many. Problems without a score (fewer than two usable solutions) rank
            last.
        method (`str`): `"score"` ranks by the configured distance (`problem_score`, or else
            `rpd_score`; with `groups` first by `num_strategies`), `"rpd"` by `rpd_score`.
            `"random"` draws among problems with any `selected`, `"llm"` among those that a judge
            called `diverse` (App. D.2); a draw of 100 is the beginning of a draw of 300.
        seed (`int`): For the draws.
        problem_column (`str`): The column with the problem's text, for the draws.

    Returns:
        The same type as `ds`; of a stream, a `datasets.Dataset`.
    """
    if n < 0:
        raise InputError(f"cannot select {n} problems")
    if method not in PROBLEM_METHODS:
        raise InputError(f"unknown method {method!r}; use one of {', '.join(PROBLEM_METHODS)}")
    by_score = method in ("score", "rpd")
    wanted = "diverse" if method == "llm" else "selected"
    rows = ds
    if hasattr(ds, "select"):
        scores = {"num_strategies", "problem_score", "rpd_score"}
        decisive = scores if by_score else {problem_column, wanted}
        known = decisive.intersection(ds.column_names)
        rows = ds.select_columns(list(known)).to_list() if known else ds

    def keyed() -> Iterator[tuple[tuple[float, Any, int], dict[str, Any]]]:
        for place, row in enumerate(rows):
            if by_score:
                scored = method == "score" and "problem_score" in row
                score = _value(row, "problem_score" if scored else "rpd_score")
                number = row.get("num_strategies") if scored else None
                yield (-(number or 1.0), _descending(score), place), row
            elif _value(row, wanted):
                yield (0.0, draw_lot(_value(row, problem_column), seed), place), row

    best = heapq.nsmallest(n, keyed(), key=itemgetter(0))
    places = [place for (*_, place), _ in best]
    if isinstance(ds, list):
        return [ds[place] for place in places]
    if hasattr(ds, "select"):
        return ds.select(places)
    from datasets import Dataset

    return Dataset.from_list([row for _, row in best])


def _value(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise InputError(f"the rows have no {name}; run ds.map(rpd_curate) first")
    return row[name]
