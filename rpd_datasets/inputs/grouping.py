"""Rows with one solution each, gathered by problem through a scratch file on disk.

The rows of one problem may stand anywhere in the input, and the input may be far larger than
memory, so the rows go to a SQLite file first and come back problem by problem, in the order in
which the problems first appear. The file is complete or absent: a run that was interrupted
while grouping starts it again, a run that was interrupted later uses it as it is. It holds the
text of the whole input, compressed; it is a cache and can be deleted at any time. One run at a
time may use a scratch folder.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.files import one_line
from rpd_datasets.inputs.rows import Place
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError, OutputError

# Part of every scratch file's name: older layouts are left alone and grouped anew.
VERSION = 1
COMMIT_EVERY = 10_000
SCHEMA = """
CREATE TABLE problem (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, text BLOB, extra TEXT);
CREATE TABLE solution (
    id INTEGER PRIMARY KEY, problem INTEGER, file TEXT, row INTEGER, text BLOB, extra TEXT);
CREATE TABLE reject (id INTEGER PRIMARY KEY, record TEXT);
CREATE TABLE total (name TEXT PRIMARY KEY, value TEXT);
"""


@dataclass(frozen=True)
class FlatRow:
    """One solution of one problem, with the row's other columns."""

    place: Place
    problem: str
    solution: str
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """All rows of one problem, in the order of the input.

    Args:
        problem (`str`): The problem's text as its first row has it.
        solutions (`tuple[str, ...]`): One per row.
        extra (`dict`): A value for columns that no problem's rows differ in; for every other
            column a list, one entry per solution.
        where (`str`): The rows it was made of.
    """

    problem: str
    solutions: tuple[str, ...]
    extra: dict[str, Any]
    where: str


def problem_digest(problem: str) -> bytes:
    """What two rows of the same problem share: a digest of its text, blank space aside.

    Example:

    >>> problem_digest("Find  $x$.") == problem_digest(" Find $x$.\\n")
    True
    """
    return sha256(" ".join(problem.split()).encode()).digest()


def build_groups(
    path: Path, rows: Iterator[FlatRow | Rejected], totals: Callable[[], Mapping[str, int]]
) -> None:
    """Read all rows into a new scratch file.

    Args:
        path (`Path`): The file to make; it appears only when it is complete.
        rows (iterator of [`FlatRow`] or [`Rejected`]): The rows; what was rejected on the way is
            kept too, so that a later run that reuses the file can name it again.
        totals (`Callable`): Called after the last row; what it counts is kept as well.

    Raises:
        OutputError: If the file cannot be written, e.g. because the disk is full.
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
            _fill(database, rows)
            database.execute("INSERT INTO total VALUES ('counts', ?)", (json.dumps(totals()),))
            database.execute("CREATE INDEX by_problem ON solution (problem)")
            database.commit()
        with building.open("rb+") as file:
            os.fsync(file.fileno())
        building.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise OutputError(
            f"The scratch file {path} for grouping rows cannot be written: {one_line(error)}. "
            "Choose a folder with more space."
        ) from error


def _fill(database: sqlite3.Connection, rows: Iterator[FlatRow | Rejected]) -> None:
    columns: dict[str, None] = {}  # an ordered set
    varying: set[str] = set()
    for count, row in enumerate(rows, start=1):
        if isinstance(row, Rejected):
            record = json.dumps(row.as_row())
            database.execute("INSERT INTO reject (record) VALUES (?)", (record,))
        else:
            columns.update(dict.fromkeys(row.extra))
            varying |= _insert(database, row)
        if count % COMMIT_EVERY == 0:
            database.commit()
    database.executemany(
        "INSERT INTO total VALUES (?, ?)",
        [("columns", json.dumps(list(columns))), ("varying", json.dumps(sorted(varying)))],
    )


def _insert(database: sqlite3.Connection, row: FlatRow) -> set[str]:
    """Store one row; returns the columns in which it differs from its problem's first row."""
    digest = problem_digest(row.problem)
    extra = encode_values(row.extra)
    known = database.execute("SELECT id, extra FROM problem WHERE digest = ?", (digest,)).fetchone()
    if known is None:
        added = database.execute(
            "INSERT INTO problem (digest, text, extra) VALUES (?, ?, ?)",
            (digest, _pack(row.problem), extra),
        )
        problem, first = added.lastrowid, extra
    else:
        problem, first = known
    database.execute(
        "INSERT INTO solution (problem, file, row, text, extra) VALUES (?, ?, ?, ?, ?)",
        (problem, row.place.file, row.place.row, _pack(row.solution), extra),
    )
    if extra == first:
        return set()
    before, now = json.loads(first), json.loads(extra)
    return {name for name in before.keys() | now.keys() if not _same(before, now, name)}


def _same(before: dict[str, Any], now: dict[str, Any], name: str) -> bool:
    # As text, because NaN is not equal to itself.
    one, other = (json.dumps(values.get(name), sort_keys=True) for values in (before, now))
    return one == other


def read_totals(path: Path) -> dict[str, int] | None:
    """The totals of a finished scratch file, or None where there is none that can be used."""
    if not path.exists():
        return None
    try:
        with closing(_reading(path)) as database:
            row = database.execute("SELECT value FROM total WHERE name = 'counts'").fetchone()
    except sqlite3.DatabaseError:
        # Damaged, e.g. by a full disk. It is only a cache, so it is made again.
        return None
    return None if row is None else dict(json.loads(row[0]))


def read_rejects(path: Path) -> Iterator[Rejected]:
    """What was rejected while the scratch file was made, in the order of the input."""
    with closing(_reading(path)) as database:
        for (record,) in database.execute("SELECT record FROM reject ORDER BY id"):
            yield Rejected(**json.loads(record))


def count_groups(path: Path) -> int:
    """How many problems a scratch file holds."""
    with closing(_reading(path)) as database:
        count: int = database.execute("SELECT COUNT(*) FROM problem").fetchone()[0]
    return count


def read_groups(path: Path) -> Iterator[Group]:
    """The problems of a scratch file, in the order in which they first appear in the input."""
    with closing(_reading(path)) as database:
        totals = dict(database.execute("SELECT name, value FROM total"))
        columns: list[str] = json.loads(totals["columns"])
        varying = set(json.loads(totals["varying"]))
        rows = database.execute(
            "SELECT solution.problem, problem.text, file, row, solution.text, solution.extra "
            # CROSS JOIN fixes the order of the loops, so that nothing has to be sorted.
            "FROM problem CROSS JOIN solution ON solution.problem = problem.id "
            "ORDER BY problem.id, solution.id"
        )
        for _, members in groupby(rows, key=lambda row: row[0]):
            group = list(members)
            extras = [decode_values(row[5]) for row in group]
            yield Group(
                problem=_unpack(group[0][1]),
                solutions=tuple(_unpack(row[4]) for row in group),
                extra={
                    name: [extra.get(name) for extra in extras]
                    if name in varying
                    else extras[0].get(name)
                    for name in columns
                },
                where=_where([Place(row[2], row[3]) for row in group]),
            )


def _reading(path: Path) -> sqlite3.Connection:
    # A generator may be finished, and so closed, by another thread than began it.
    uri = path.absolute().as_uri() + "?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _where(places: list[Place]) -> str:
    first, last = places[0], places[-1]
    if len(places) == 1:
        return str(first)
    if first.file == last.file and last.row - first.row == len(places) - 1:
        return f"{first}-{last.row}"
    return f"{first} and {len(places) - 1} more"


def _pack(text: str) -> bytes:
    # Level 1: a third of the space for chains of thought, and faster than most disks.
    return zlib.compress(text.encode(), 1)


def _unpack(blob: bytes) -> str:
    return zlib.decompress(blob).decode()


def encode_values(values: Mapping[str, Any]) -> str:
    """Column values as JSON text that `decode_values` turns back into equal values.

    What JSON lacks and Parquet has (dates, times, decimals, bytes) is written as an object with
    one key that starts with `$rpd:`.

    Args:
        values (`Mapping`): Column names to plain Python values.

    Returns:
        `str`: ASCII text.

    Raises:
        InputError: If a column holds what cannot be written, e.g. a decoded image.
    """
    try:
        return json.dumps(values, default=_tagged)
    except TypeError as error:
        raise InputError(
            f"A row cannot be carried along: {one_line(error)}. Its columns are "
            f"{', '.join(values)}; remove the one that holds it from the dataset."
        ) from error


def decode_values(text: str) -> dict[str, Any]:
    """The column values that `encode_values` wrote."""
    values: dict[str, Any] = json.loads(text, object_hook=_untagged)
    return values


def _tagged(value: Any) -> dict[str, Any]:
    # datetime is a date too, so it must be asked for first.
    if isinstance(value, datetime):
        return {"$rpd:datetime": value.isoformat(timespec="microseconds")}
    if isinstance(value, (date, time)):
        kind = "date" if isinstance(value, date) else "time"
        return {f"$rpd:{kind}": value.isoformat()}
    if isinstance(value, timedelta):
        return {"$rpd:timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, Decimal):
        return {"$rpd:decimal": str(value)}
    if isinstance(value, bytes):
        return {"$rpd:bytes": base64.b64encode(value).decode()}
    raise TypeError(f"it holds a {type(value).__name__}")


def _untagged(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    ((tag, content),) = value.items()
    read = _READ.get(tag)
    return value if read is None else read(content)


_READ: dict[str, Callable[[Any], Any]] = {
    "$rpd:datetime": datetime.fromisoformat,
    "$rpd:date": date.fromisoformat,
    "$rpd:time": time.fromisoformat,
    "$rpd:timedelta": lambda parts: timedelta(*parts),
    "$rpd:decimal": Decimal,
    "$rpd:bytes": base64.b64decode,
}
