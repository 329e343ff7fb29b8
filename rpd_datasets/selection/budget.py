"""A budget of samples spent over a whole corpus: breadth first, then the depth that adds most.

Every problem gets one solution, the one nearest to its others (the medoid); of more problems than
the budget holds, a draw. What is left goes, one by one over all problems, to the solution furthest
from those chosen for its own problem. Within a problem these gains never grow, so the largest of
all are the ones to take.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from rpd_datasets.selection.problems import draw_lot, value_of
from rpd_datasets.selection.solutions import spending_order
from rpd_metric.distance.diversity import group_distances
from rpd_metric.errors import InputError

MATRICES = ("distance_matrix", "rpd_matrix")
GROUPS = ("strategies", "strategy_names")


def shares(
    offers: Sequence[tuple[str, Sequence[float]]], num_samples: int, seed: int
) -> dict[int, int]:
    """How many solutions each problem gets, by its place among the `offers`.

    A problem is offered as its text and its gains (see [`spending_order`]). Lots drawn with `seed`
    decide between too many problems and between equal gains, so that the order of the problems
    decides nothing. Those that get any are in the order of their lots.

    >>> inf = float("inf")
    >>> shares([("2 + 2?", [inf, 0.1]), ("3 * 3?", [inf, 0.5, 0.3])], num_samples=4, seed=0)
    {0: 1, 1: 3}
    """
    if num_samples < 1:
        raise InputError(f"{{num_samples}} must be >= 1, got {num_samples}", option="num_samples")
    lots = sorted(
        (draw_lot(text, seed), place) for place, (text, gains) in enumerate(offers) if gains
    )
    counts = {place: 1 for _, place in lots[:num_samples]}
    deeper = (
        (-gain, lot, place, rank)
        for lot, place in lots
        for rank, gain in enumerate(offers[place][1][1:])
    )
    for _, _, place, _ in heapq.nsmallest(num_samples - len(lots), deeper):
        counts[place] += 1
    return counts


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
        The same type as `ds`. Problems are in the order of the draw, and `selected` holds each
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
    is_dataset = not isinstance(ds, list)
    # Of a dataset, only the columns that are looked at; the others may be long.
    columns = (problem_column, *MATRICES, *GROUPS)
    names = [name for name in columns if is_dataset and name in ds.column_names]
    orders: list[list[int]] = []
    offers: list[tuple[str, list[float]]] = []
    for row in ds.select_columns(names) if names else ds:
        matrix, problem = value_of(row, *MATRICES), value_of(row, problem_column)
        if isinstance(row.get("strategy_names"), list):  # a user's own are by label
            matrix = group_distances(row["strategies"], matrix)
        order, gains = spending_order(matrix)
        offers.append((problem, gains))
        orders.append(order)
    selected = {place: orders[place][:share] for place, share in shares(offers, n, seed).items()}
    if not is_dataset:
        return [ds[place] | {"selected": indices} for place, indices in selected.items()]
    from datasets import List, Value

    rows = ds.select(list(selected))
    rows = rows.remove_columns("selected") if "selected" in rows.column_names else rows
    return rows.add_column("selected", list(selected.values()), feature=List(Value("int64")))
