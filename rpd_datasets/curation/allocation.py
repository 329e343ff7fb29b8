"""A budget of samples spent over a whole corpus: breadth first, then the depth that adds most.

Every problem gets one solution, the one nearest to its others (the medoid); of more problems than
the budget holds, a draw. What is left goes, one by one over all problems, to the solution furthest
from those chosen for its own problem. Within a problem these gains never grow, so a heap as large
as the budget finds the largest ones in one pass.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.select import draw_lot
from rpd_metric.arrays import nan_for_none
from rpd_metric.errors import InputError

MATRICES = ("distance_matrix", "rpd_matrix")


def spending_order(
    matrix: npt.ArrayLike, kept: Sequence[int] = ()
) -> tuple[list[int], list[float]]:
    """In which order a problem's solutions are taken, and what each adds.

    Solutions with NaN on the diagonal of the distances `matrix` are never taken. What a person
    `kept` comes first, else the medoid; these add infinitely much, any other its distance to the
    nearest one before it. Ties go to the lowest index.

    >>> spending_order([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]])
    ([1, 2, 0], [inf, 0.8, 0.1])
    """
    distances = np.array(matrix, dtype=np.float64)
    if not distances.size or np.isnan(np.diagonal(distances)).all():
        return [], []
    usable = np.flatnonzero(~np.isnan(np.diagonal(distances)))
    distances = distances[np.ix_(usable, usable)]
    place = {int(index): at for at, index in enumerate(usable)}
    order = [place[index] for index in kept if index in place]
    order = order or [int(distances.sum(axis=1).argmin())]
    gains = [math.inf] * len(order)
    nearest = distances[order].min(axis=0)
    nearest[order] = -1  # below any distance
    while len(order) < len(usable):
        furthest = int(nearest.argmax())
        order.append(furthest)
        gains.append(float(nearest[furthest]))
        nearest = np.minimum(nearest, distances[furthest])
        nearest[furthest] = -1
    return [int(usable[at]) for at in order], gains


class Allocation:
    """How many solutions each problem gets, found in one pass over the problems.

    Holds two entries for each sample of the budget at most. Lots drawn with `seed` decide between
    too many problems and between equal gains, so that the order of the problems decides nothing.

    >>> budget = Allocation(4, seed=0)
    >>> budget.offer(0, "What is 2 + 2?", [math.inf, 0.1])
    >>> budget.offer(1, "What is 3 * 3?", [math.inf, 0.5, 0.3])
    >>> sorted(budget.shares().items())
    [(0, 1), (1, 3)]
    """

    def __init__(self, num_samples: int, seed: int) -> None:
        if num_samples < 1:
            raise InputError(f"num_samples is {num_samples}; it must be 1 or more")
        self._num_samples = num_samples
        self._seed = seed
        self._offered = 0
        # The worst in front, because that is what gives way: by lot, and by gain, lot and rank.
        self._drawn: list[tuple[int, int]] = []
        self._deeper: list[tuple[float, int, int, int]] = []

    def offer(self, problem: int, text: str, gains: Sequence[float]) -> None:
        """Offer a problem, by what [`shares`] calls it; its text draws its lot.

        Without any gains (see [`spending_order`]) it gets nothing.
        """
        if not gains:
            return
        self._offered += 1
        lot = int(draw_lot(text, self._seed), 16)
        _push(self._drawn, (-lot, -problem), self._num_samples)
        room = max(0, self._num_samples - self._offered)
        for rank, gain in enumerate(gains[1:], start=1):
            _push(self._deeper, (gain, -lot, -problem, -rank), room)
        while len(self._deeper) > room:
            heapq.heappop(self._deeper)

    def shares(self) -> dict[int, int]:
        """Solutions for each problem that gets any, in the order of the lots."""
        shares = {-problem: 1 for _, problem in sorted(self._drawn, reverse=True)}
        for _, _, problem, _ in self._deeper:
            shares[-problem] += 1
        return shares


def _push(heap: list[Any], entry: Any, most: int) -> None:
    if len(heap) < most:
        heapq.heappush(heap, entry)
    elif heap and entry > heap[0]:
        heapq.heapreplace(heap, entry)


def select_samples(ds: Any, n: int, *, seed: int = 0, problem_column: str = "problem") -> Any:
    """Spend a budget of `n` samples over all rows: the neighbour of [`select_problems`].

    First one solution of every problem, then, one by one over all problems, the solution that adds
    most distance to those chosen for its problem. More problems than `n`: a draw, one solution
    each. Whatever `selected` held before is replaced.

    Args:
        ds (`datasets.Dataset` or `list` of rows): Rows as `ds.map(rpd_curate)` makes them.
        n (`int`): How many samples.
        seed (`int`): Of the draw.
        problem_column (`str`): The column with the problem's text.

    Returns:
        The same type as `ds`. Problems stand in the order of the draw, and `selected` holds each
        one's share.

    Example:

    ```py
    >>> from rpd_datasets import select_samples
    >>> rows = [
    ...     {"problem": "2 + 2?", "rpd_matrix": [[0.0, 0.1], [0.1, 0.0]]},
    ...     {"problem": "3 * 3?", "rpd_matrix": [[0.0, 0.5], [0.5, 0.0]]},
    ... ]
    >>> {row["problem"]: row["selected"] for row in select_samples(rows, 3)}
    {'2 + 2?': [0], '3 * 3?': [0, 1]}

    ```
    """
    budget = Allocation(n, seed)
    whole = not isinstance(ds, list)
    # Of a dataset, only the columns that are looked at; the others may be long.
    names = [name for name in (problem_column, *MATRICES) if whole and name in ds.column_names]
    orders: list[list[int]] = []
    for place, row in enumerate(ds.select_columns(names) if names else ds):
        matrix = next((row[name] for name in MATRICES if name in row), None)
        if matrix is None or problem_column not in row:
            missing = "rpd_matrix" if matrix is None else problem_column
            raise InputError(f"the rows have no {missing}; run ds.map(rpd_curate) first")
        order, gains = spending_order(nan_for_none(matrix))
        budget.offer(place, row[problem_column], gains)
        orders.append(order)
    shares = budget.shares()
    selected = [orders[place][:share] for place, share in shares.items()]
    if not whole:
        return [ds[place] | {"selected": one} for place, one in zip(shares, selected, strict=True)]
    from datasets import List, Value

    rows = ds.select(list(shares))
    rows = rows.remove_columns("selected") if "selected" in rows.column_names else rows
    return rows.add_column("selected", selected, feature=List(Value("int64")))
