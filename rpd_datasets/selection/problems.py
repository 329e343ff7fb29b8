"""Choosing among problems: by their scores (Eq. 3, Algorithm 1), or drawn."""

from __future__ import annotations

import hashlib
import heapq
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from rpd_metric.distance.trust import ReaderTrust, scores_by_groups
from rpd_metric.errors import InputError

PROBLEM_METHODS = ("score", "rpd", "random", "llm")


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
