"""Selection: which problems, and which solutions of each; plain matrices and scores in.

Stage 1 of the paper ranks problems by their score (Eq. 3, Algorithm 1), stage 2 picks a
diverse subset of each problem's solutions (Algorithm 2). Where the numbers come from is
`curate.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Selection = Literal["maxmin", "maxavg", "exact", "random"]
SELECTIONS: tuple[Selection, ...] = ("maxmin", "maxavg", "exact", "random")
MAX_SUBSETS = 5000

Rows = TypeVar("Rows")
Matrix = npt.NDArray[np.float64]


def select_solutions(
    matrix: npt.ArrayLike, m: int, method: Selection = "maxmin", *, seed: int = 0
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

    Returns:
        `list[int]`: Indices into the matrix, in order of choice (ascending for `"exact"`).

    Raises:
        [`InputError`]: An unknown method, a matrix that is not square, or too many subsets.

    Example:

    ```py
    >>> from rpd_datasets import select_solutions
    >>> select_solutions([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]], 2)
    [2, 0]

    ```
    """
    distances = np.array(matrix, dtype=np.float64)
    if distances.size == 0:
        return []
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise InputError(f"a distance matrix is square; this one has shape {distances.shape}")
    usable = np.flatnonzero(~np.isnan(np.diagonal(distances)))
    distances = distances[np.ix_(usable, usable)]
    np.fill_diagonal(distances, 0)
    if np.isnan(distances).any():
        raise InputError("a distance matrix has NaN in whole rows and columns only")
    m = max(0, min(m, len(usable)))
    if m == 0:
        return []
    if method == "maxmin":
        chosen = _greedy(distances, m, np.minimum)
    elif method == "maxavg":
        # The average over those chosen and their sum have the same maximum.
        chosen = _greedy(distances, m, np.add)
    elif method == "exact":
        chosen = _exact(distances, m)
    elif method == "random":
        chosen = np.random.default_rng(seed).choice(len(usable), size=m, replace=False).tolist()
    else:
        raise InputError(f"unknown selection {method!r}; use one of {', '.join(SELECTIONS)}")
    return [int(usable[index]) for index in chosen]


def _greedy(distances: Matrix, m: int, gather: Callable[[Matrix, Matrix], Matrix]) -> list[int]:
    """Algorithm 2, with the way in which distances to the chosen ones are gathered left open."""
    chosen = [int(distances.sum(axis=1).argmax())]
    gathered = distances[chosen[0]].copy()
    while len(chosen) < m:
        gathered[chosen] = -1  # below any distance
        nearest = int(gathered.argmax())
        chosen.append(nearest)
        gathered = gather(gathered, distances[nearest])
    return chosen


def _exact(distances: Matrix, m: int) -> list[int]:
    k = len(distances)
    count = math.comb(k, m)
    if count > MAX_SUBSETS:
        raise InputError(
            f"selection 'exact' would look at {count} subsets of {m} out of {k} solutions, more "
            f"than {MAX_SUBSETS}; use 'maxmin'"
        )
    if m == 1:
        return [int(distances.sum(axis=1).argmax())]
    subsets = np.array(list(itertools.combinations(range(k), m)))
    pairs = np.array(list(itertools.combinations(range(m), 2)))
    within = distances[subsets[:, pairs[:, 0]], subsets[:, pairs[:, 1]]]
    # lexsort is stable and sorts by its last key first: smallest distance, then sum, then order.
    best = np.lexsort((-within.sum(axis=1), -within.min(axis=1)))[0]
    return [int(index) for index in subsets[best]]


def rank(scores: Sequence[float | None]) -> list[int]:
    """Indices by descending score, ties in their given order, `None` and NaN last.

    Example:

    ```py
    >>> from rpd_datasets.select import rank
    >>> rank([0.2, None, 0.5, 0.2])
    [2, 0, 3, 1]

    ```
    """
    keys = [math.inf if score is None or math.isnan(score) else -score for score in scores]
    return sorted(range(len(keys)), key=keys.__getitem__)


def select_problems(ds: Any, n: int) -> Any:
    """Keep the `n` problems with the highest `rpd_score` (Algorithm 1), best first.

    Args:
        ds (`datasets.Dataset` or `list` of rows): Rows as `ds.map(rpd_curate)` makes them.
        n (`int`): How many. A smaller dataset comes back whole. Problems without a score (fewer
            than two usable solutions) rank last.

    Returns:
        The same type as `ds`.

    Raises:
        [`InputError`]: There is no column `rpd_score`, or `n` is negative.
    """
    if n < 0:
        raise InputError(f"cannot select {n} problems")
    if isinstance(ds, list):
        if not all("rpd_score" in row for row in ds):
            raise InputError(_NO_SCORE)
        return [ds[index] for index in rank([row["rpd_score"] for row in ds])[:n]]
    if "rpd_score" not in ds.column_names:
        raise InputError(_NO_SCORE)
    return ds.select(rank(ds["rpd_score"][:])[:n])


_NO_SCORE = "the rows have no rpd_score; run ds.map(rpd_curate) first"
