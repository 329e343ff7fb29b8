"""Rows of one problem that stand apart in a grouped input, put together.

A first pass over the input finds the problems that come back, and keeps those of their rows that
come later in a SQLite file; what is read afterwards is handed over with all its solutions where the
problem first stands. Inputs without such problems cost one pass more and an empty file, and memory
holds nothing but the digests of problems that come back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.files import one_line
from rpd_datasets.inputs.grouping import decode_values, encode_values, problem_digest
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import OutputError


def find_repeated(path: Path, problems: Iterable[Problem], limit: int | None) -> None:
    """Write the later rows of problems that come back to a new file.

    Args:
        path (`Path`): The file; it appears only when it is complete.
        problems (iterable of [`Problem`]): Those of the input, one a row.
        limit (`int`, *optional*): Stop after so many different problems, as reading will.

    Raises:
        OutputError: If the file cannot be written.
    """
    building = path.with_name(path.name + ".building")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        building.unlink(missing_ok=True)
        with (
            closing(sqlite3.connect(building)) as later,
            # A nameless database lives in memory while small and on disk when it grows.
            closing(sqlite3.connect("")) as seen,
        ):
            later.execute("CREATE TABLE later (digest BLOB, place TEXT, content TEXT)")
            seen.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY) WITHOUT ROWID")
            different = 0
            for problem in problems:
                digest = problem_digest(problem.problem)
                added = seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (digest,)).rowcount
                different += added
                if limit is not None and different > limit:
                    break
                if not added:
                    content = {"solutions": list(problem.solutions), "extra": dict(problem.extra)}
                    row = (digest, problem.where, encode_values(content))
                    later.execute("INSERT INTO later VALUES (?, ?, ?)", row)
            later.execute("CREATE INDEX by_digest ON later (digest)")
            later.commit()
        building.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise OutputError(
            f"The scratch file {path} for rows of one problem cannot be written: "
            f"{one_line(error)}. Choose a folder with more space."
        ) from error


def merged(path: Path, items: Iterable[Problem | Rejected]) -> Iterator[Problem | Rejected]:
    """The items of an input, with the rows of one problem as one problem where it first stands.

    Args:
        path (`Path`): What [`find_repeated`] wrote.
        items (iterable): All of them, one problem a row.
    """
    done: set[bytes] = set()
    # A generator may be finished, and so closed, by another thread than began it.
    uri = path.absolute().as_uri() + "?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as later:
        query = "SELECT place, content FROM later WHERE digest = ? ORDER BY rowid"
        # Nearly all problems stand once, and a query takes longer than the rest of reading one.
        repeated = {digest for (digest,) in later.execute("SELECT DISTINCT digest FROM later")}
        for item in items:
            if isinstance(item, Rejected):
                yield item
                continue
            digest = problem_digest(item.problem)
            if digest in done:
                continue
            rows: list[tuple[str, str]] = []
            if digest in repeated:
                done.add(digest)
                rows = later.execute(query, (digest,)).fetchall()
            yield together(item, [(place, decode_values(content)) for place, content in rows])


def together(first: Problem, others: Iterable[tuple[str, Mapping[str, Any]]]) -> Problem:
    """One problem of several rows.

    Lists with an entry per solution are joined; any other column is the first row's.

    Args:
        first ([`Problem`]): The first row.
        others (iterable of `(place, {"solutions", "extra"})`): The other ones.

    Example:

    >>> one = Problem("2 + 2?", ("4",), {"correct": [True], "level": 1}, "rows.jsonl:1")
    >>> two = {"solutions": ["5", "four"], "extra": {"correct": [False, True], "level": 2}}
    >>> both = together(one, [("rows.jsonl:9", two)])
    >>> both.solutions, both.extra, both.where
    (('4', '5', 'four'), {'correct': [True, False, True], 'level': 1}, 'rows.jsonl:1 and 1 more')
    """
    rows = list(others)
    if not rows:
        return first
    contents = [{"solutions": first.solutions, "extra": first.extra}, *(one for _, one in rows)]
    extra = {
        name: _joined(name, value, contents) if _beside(value, first.solutions) else value
        for name, value in first.extra.items()
    }
    solutions = tuple(text for one in contents for text in one["solutions"])
    return Problem(first.problem, solutions, extra, f"{first.where} and {len(rows)} more")


def _beside(value: Any, solutions: Iterable[str]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == len(list(solutions))


def _joined(name: str, value: Any, contents: Iterable[Mapping[str, Any]]) -> list[Any]:
    entries = list(value)
    for one in islice(contents, 1, None):
        more = one["extra"].get(name)
        count = len(one["solutions"])
        entries += more if _beside(more, one["solutions"]) else [None] * count
    return entries
