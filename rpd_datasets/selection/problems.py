"""Choosing among problems: by their scores (Eq. 3, Algorithm 1), or drawn."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rpd_metric.errors import InputError

PROBLEM_METHODS = ("score", "rpd", "random", "llm")


def rank(
    scores: Sequence[float | None], strategies: Sequence[float | None] | None = None
) -> list[int]:
    """Indices by descending number of `strategies`, then score; ties in their given order.

    Scores of `None` and NaN come last, and an unknown number of strategies counts as one.

    >>> rank([0.2, None, 0.5, 0.2]), rank([0.2, 0.5, 0.1], [2.0, None, 2.0])
    ([2, 0, 3, 1], [0, 2, 1])
    """
    numbers = strategies or [None] * len(scores)
    keys = [_rank_key(score, number) for score, number in zip(scores, numbers, strict=True)]
    return sorted(range(len(scores)), key=keys.__getitem__)


def _rank_key(score: float | None, strategies: float | None) -> tuple[float, float]:
    unknown = score is None or math.isnan(score)
    return -(strategies or 1.0), math.inf if unknown else -score  # type: ignore[operator]


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
    condition = "diverse" if method == "llm" else "selected"
    rows = ds
    if hasattr(ds, "select"):
        scores = {"num_strategies", "problem_score", "rpd_score"}
        decisive = scores if by_score else {problem_column, condition}
        columns = decisive.intersection(ds.column_names)
        rows = ds.select_columns(list(columns)).to_list() if columns else ds

    def keyed() -> Iterator[tuple[tuple[Any, int], dict[str, Any]]]:
        for place, row in enumerate(rows):
            if by_score:
                ranked = method == "score" and "problem_score" in row
                score = value_of(row, "problem_score" if ranked else "rpd_score")
                strategies = row.get("num_strategies") if ranked else None
                yield (_rank_key(score, strategies), place), row
            elif value_of(row, condition):
                yield (draw_lot(value_of(row, problem_column), seed), place), row

    best = heapq.nsmallest(n, keyed(), key=itemgetter(0))
    places = [place for (_, place), _ in best]
    if isinstance(ds, list):
        return [ds[place] for place in places]
    if hasattr(ds, "select"):
        return ds.select(places)
    from datasets import Dataset

    return Dataset.from_list([row for _, row in best])


def value_of(row: Mapping[str, Any], *names: str) -> Any:
    """A row's value in the first of these columns that it has. Raises [`InputError`]."""
    for name in names:
        if name in row:
            return row[name]
    raise InputError(f"the rows have no {names[-1]}; run ds.map(rpd_curate) first")
