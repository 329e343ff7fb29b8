"""Rows of one problem brought together through a scratch file on disk.

The rows of a problem may be anywhere in an input far larger than memory. A first pass writes a
SQLite file. Where rows hold one solution each, it stores all of them, to read them back by problem.
Where a row is a whole problem, it stores only the later rows of repeated problems; the input is
then read again, and each problem is completed at its first row.

The file is a cache, complete or absent. One run at a time may use a scratch folder.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.raw_rows import decode_values, encode_values
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import OutputError, first_line

SCHEMA = """
CREATE TABLE problem (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, text BLOB, extra TEXT);
CREATE TABLE row (problem INTEGER, place TEXT, solutions BLOB, extra TEXT);
CREATE TABLE reject (record TEXT);
CREATE TABLE info (content TEXT);
"""


def problem_digest(problem: str, group: str = "") -> bytes:
    """What two rows of one problem share: a digest of its text, blank space aside, and its group.

    >>> problem_digest("Find  $x$.") == problem_digest(" Find $x$.\\n")
    True
    """
    text = " ".join(problem.split()) + (f"\n{group}" if group else "")
    return sha256(text.encode()).digest()


def write_scratch(
    path: Path,
    items: Iterable[Problem | Rejected],
    rows_read: Callable[[], int],
    *,
    one_each: bool,
    limit: int | None = None,
) -> dict[str, Any]:
    """Read all rows into a new scratch file; returns what [`read_info`] reads of it.

    With one solution per row it also keeps rejects, so that a later run can report them. `limit`
    stops after so many different problems. Raises [`OutputError`], e.g. if the disk is full.
    """
    building = path.with_name(path.name + ".building")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        building.unlink(missing_ok=True)
        with closing(sqlite3.connect(building)) as database:
            # A half-written file is thrown away, so it needs no journal.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(SCHEMA)
            info = _fill(database, items, one_each, limit) | {"rows_read": rows_read()}
            database.execute("INSERT INTO info VALUES (?)", (json.dumps(info),))
            database.execute("CREATE INDEX by_problem ON row (problem)")
            database.commit()
        with building.open("rb+") as file:
            os.fsync(file.fileno())
        building.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise OutputError(
            f"The scratch file {path} for grouping rows cannot be written: {first_line(error)}. "
            "Choose a folder with more space."
        ) from error
    return info


def _fill(
    database: sqlite3.Connection,
    items: Iterable[Problem | Rejected],
    one_each: bool,
    limit: int | None,
) -> dict[str, Any]:
    columns: dict[str, None] = {}  # an ordered set
    varying: set[str] = set()
    problems = 0
    for item in items:
        if isinstance(item, Rejected):
            if one_each:
                database.execute("INSERT INTO reject VALUES (?)", (json.dumps(item.as_row()),))
            continue
        digest = problem_digest(item.identity or item.problem, item.group)
        query = "SELECT id, extra FROM problem WHERE digest = ?"
        known = database.execute(query, (digest,)).fetchone()
        if known is None and problems == limit:
            break
        stored = one_each or known is not None
        extra = encode_values(item.extra) if stored else ""
        if known is None:
            problems += 1
            text = _pack(item.problem) if stored else ""
            problem = (problems, digest, text, extra)
            database.execute("INSERT INTO problem VALUES (?, ?, ?, ?)", problem)
        elif one_each:
            varying |= _differing(known[1], extra)
        if stored:
            number = problems if known is None else known[0]
            row = (number, item.where, _pack(item.solutions), extra)
            database.execute("INSERT INTO row VALUES (?, ?, ?, ?)", row)
            columns.update(dict.fromkeys(item.extra))
    return {"problems": problems, "columns": list(columns), "varying": sorted(varying)}


def _differing(before: str, now: str) -> set[str]:
    """The columns in which a row differs from its problem's first row."""
    if before == now:
        return set()
    # As text, because NaN is not equal to itself.
    first, later = (
        {name: json.dumps(value, sort_keys=True) for name, value in json.loads(extra).items()}
        for extra in (before, now)
    )
    return {name for name in first | later if first.get(name, "null") != later.get(name, "null")}


def read_info(path: Path) -> dict[str, Any] | None:
    """The counts and columns of a complete scratch file; `None` without one."""
    if not path.exists():
        return None
    try:
        with closing(_reading(path)) as database:
            row = database.execute("SELECT content FROM info").fetchone()
    except sqlite3.DatabaseError:
        return None  # damaged, e.g. by a full disk: it is made again
    return None if row is None else dict(json.loads(row[0]))


def read_gathered(path: Path) -> Iterator[Problem | Rejected]:
    """The rejects of rows with one solution each, then every problem.

    A column that never differs within a problem keeps its value; any other becomes a list.
    """
    info = read_info(path) or {}
    varying = set(info["varying"])
    with closing(_reading(path)) as database:
        for (record,) in database.execute("SELECT record FROM reject ORDER BY rowid"):
            yield Rejected(**json.loads(record))
        rows = database.execute(
            "SELECT problem.id, problem.text, place, solutions, row.extra "
            # CROSS JOIN fixes the order of the loops, so that nothing has to be sorted.
            "FROM problem CROSS JOIN row ON row.problem = problem.id "
            "ORDER BY problem.id, row.rowid"
        )
        for _, members in groupby(rows, key=lambda row: row[0]):
            group = list(members)
            extras = [decode_values(row[4]) for row in group]
            extra = {name: extras[0].get(name) for name in info["columns"]}
            extra |= {name: [row.get(name) for row in extras] for name in varying}
            solutions = tuple(text for row in group for text in _unpack(row[3]))
            where = _where([row[2] for row in group])
            yield Problem(_unpack(group[0][1]), solutions, extra, where)


def join_rows(path: Path, items: Iterable[Problem | Rejected]) -> Iterator[Problem | Rejected]:
    """The items of a scratch file, with the rows of each problem joined."""
    done: set[bytes] = set()
    with closing(_reading(path)) as database:
        # Nearly all problems occur once, and a query takes longer than the rest of reading one.
        repeated = dict(
            database.execute("SELECT digest, id FROM problem WHERE id IN (SELECT problem FROM row)")
        )
        query = "SELECT solutions, extra FROM row WHERE problem = ? ORDER BY rowid"
        for item in items:
            if isinstance(item, Problem) and repeated:
                digest = problem_digest(item.identity or item.problem, item.group)
                if digest in done:
                    continue
                if digest in repeated:
                    done.add(digest)
                    rows = database.execute(query, (repeated[digest],)).fetchall()
                    later = [(_unpack(texts), decode_values(extra)) for texts, extra in rows]
                    item = _together(item, later)
            yield item


def _together(first: Problem, later: Sequence[tuple[Sequence[str], Mapping[str, Any]]]) -> Problem:
    """One problem of several rows: lists beside the solutions grow, the rest is the first row's."""
    extra = dict(first.extra)
    for name, value in first.extra.items():
        if _beside(value, first.solutions):
            extra[name] = list(value)
            for texts, columns in later:
                more = columns.get(name)
                extra[name] += more if _beside(more, texts) else [None] * len(texts)
    solutions = (*first.solutions, *(text for texts, _ in later for text in texts))
    return Problem(first.problem, solutions, extra, f"{first.where} and {len(later)} more")


def _beside(value: Any, solutions: Sequence[str]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == len(solutions)


def _where(places: Sequence[str]) -> str:
    if len(places) == 1:
        return places[0]
    (file, _, first), (last_file, _, last) = (places[at].rpartition(":") for at in (0, -1))
    if file == last_file and int(last) - int(first) == len(places) - 1:
        return f"{places[0]}-{last}"
    return f"{places[0]} and {len(places) - 1} more"


def _reading(path: Path) -> sqlite3.Connection:
    # A generator may be finished, and so closed, by another thread than began it.
    uri = path.absolute().as_uri() + "?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _pack(texts: str | Sequence[str]) -> bytes:
    # Level 1: a third of the space for chains of thought, and faster than most disks.
    return zlib.compress(json.dumps(texts).encode(), 1)


def _unpack(blob: bytes) -> Any:
    return json.loads(zlib.decompress(blob))
