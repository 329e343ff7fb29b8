"""Choosing over a whole corpus: problems by score (Eq. 3, Algorithm 1) or drawn, and a budget.

A budget of samples is spent on breadth first, then on the depth that adds most. Every problem gets
one solution, the one nearest to its others (the medoid); of more problems than the budget holds, a
draw. What is left goes, one by one over all problems, to the solution furthest from those chosen
for its own problem. Within a problem these gains never grow, so the largest are the ones to take.
"""

import hashlib
import heapq
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from rpd_datasets.selection.solutions import spending_order
from rpd_metric.distance.groups import ReaderTrust, group_distances, scores_by_groups
from rpd_metric.errors import InputError

PROBLEM_METHODS = ("score", "rpd", "random", "llm")
MATRICES = ("distance_matrix", "rpd_matrix")
GROUPS = ("strategies", "strategy_names")


def rank(scores: Sequence[float | None]) -> list[int]:
    """Indices by descending score, ties in their given order, `None` and NaN last.

    >>> rank([0.2, None, 0.5, 0.2])
    [2, 0, 3, 1]
    """
    keys = [math.inf if score is None or math.isnan(score) else -score for score in scores]
    return sorted(range(len(scores)), key=keys.__getitem__)


def draw_lot(text: str, seed: int) -> str:
    """A hash of a text and the seed; sorting by it shuffles, so the first 100 are among the first
    300 whatever the other texts."""
    return hashlib.sha256(f"{seed}\n{text}".encode(errors="surrogatepass")).hexdigest()


def select_problems(
    ds: Any, n: int, method: str = "score", *, seed: int = 0, problem_column: str = "problem"
) -> Any:
    """Keep `n` problems: those with the highest score (Algorithm 1), or a baseline's.

    Args:
        ds (`datasets.Dataset`, `IterableDataset` or `list` of rows): From `ds.map(rpd_curate)`. A
            stream is read twice, with at most `n` rows in memory.
        n (`int`): At most so many. Problems without a score (fewer than two usable solutions) rank
            last.
        method (`str`): `"score"` ranks by the configured distance (`problem_score`, or else
            `rpd_score`; with `groups` see [`~rpd_metric.scores_by_groups`]), `"rpd"` by
            `rpd_score`.
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
    condition = "diverse" if method == "llm" else "selected"
    rows = ds
    if hasattr(ds, "select"):
        scores = {"num_strategies", "groups_auroc", "problem_score", "rpd_score"}
        decisive = scores if by_score else {problem_column, condition}
        columns = decisive.intersection(ds.column_names)
        rows = ds.select_columns(list(columns)).to_list() if columns else ds
    if by_score:
        places = _by_score(rows, method)[:n]
    else:
        lots = (
            (draw_lot(value_of(row, problem_column), seed), place)
            for place, row in enumerate(rows)
            if value_of(row, condition)
        )
        places = [place for _, place in heapq.nsmallest(n, lots)]
    if isinstance(ds, list):
        return [ds[place] for place in places]
    if hasattr(ds, "select"):
        return ds.select(places)
    from datasets import Dataset

    chosen, last = set(places), max(places, default=-1)
    row_at = {p: row for p, row in enumerate(islice(ds, last + 1)) if p in chosen}
    return Dataset.from_list([row_at[place] for place in places])


def _by_score(rows: Iterable[Mapping[str, Any]], method: str) -> list[int]:
    """The places of rows by their scores, highest first."""
    scores: list[float | None] = []
    numbers: list[float | None] = []
    aurocs: list[float | None] = []
    grouped = False
    for row in rows:
        ranked = method == "score" and "problem_score" in row
        scores.append(value_of(row, "problem_score" if ranked else "rpd_score"))
        grouped = grouped or (ranked and "num_strategies" in row)
        numbers.append(row.get("num_strategies"))
        aurocs.append(row.get("groups_auroc"))
    if grouped:
        if not (trust := ReaderTrust.of(aurocs)).earned:
            warnings.warn(
                f"the chat model's groups are not trusted and do not rank: {trust.in_words()}. In "
                "`selected` they still chose; curate_dataset selects by `strategy` instead",
                stacklevel=3,
            )
        scores = scores_by_groups(numbers, aurocs, scores)
    return rank(scores)


def value_of(row: Mapping[str, Any], *names: str) -> Any:
    """A row's value in the first of these columns that it has. Raises [`InputError`]."""
    for name in names:
        if name in row:
            return row[name]
    raise InputError(f"the rows have no {names[-1]}; run ds.map(rpd_curate) first")


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
