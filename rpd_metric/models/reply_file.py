"""The SQLite file of a store: opened, brought up to date, asked, and explained when it fails.

Safe for several threads and processes at once, a process that forks included. Every error of
SQLite becomes a `StoreError` that says what a person can do about it. What is in the file, and
which reply answers a request, is `store.py`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rpd_metric.errors import StoreError

COLUMNS = (
    "model",
    "template",
    "text",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
    "created",
)

# `text` is a BLOB because a reply may hold NUL or half a surrogate pair, which SQLite's TEXT
# does not carry. `crc` catches damage that SQLite cannot see: flipped bits inside a value.
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model TEXT NOT NULL,
    template TEXT NOT NULL,
    text BLOB NOT NULL,
    crc INTEGER NOT NULL,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    created REAL NOT NULL,
    family BLOB,
    max_tokens INTEGER
)
"""
# What earlier versions did not write: the key without max_tokens, and max_tokens.
_ADDED = {"family": "BLOB", "max_tokens": "INTEGER"}
_FAMILY_INDEX = "CREATE INDEX IF NOT EXISTS replies_by_family ON replies (family)"
_INDEX = "CREATE INDEX IF NOT EXISTS replies_by_origin ON replies (model, template, created)"

# What SQLite says, and what a person can do about it.
_FIXES = {
    "locked": "another process holds it (waited {wait:g} s); stop that process or let it finish",
    "disk is full": "the disk is full; free some space or move the file to a larger disk",
    "not a database": "it is not a store of replies; give another path or move that file away",
    "malformed": "it is damaged; save what can be read with "
    "`python -m rpd_metric.models.repair_store {path} NEW_FILE` and use NEW_FILE",
    "readonly": "it is read-only; check the permissions of the file and of its folder",
    "unable to open": "it cannot be opened; check that its folder exists and may be written to",
    "disk I/O error": "the disk refused; check its free space, quota and health",
}


class DamagedStoreError(StoreError):
    """A part of the file does not hold what was written there."""


class ReplyFile:
    """One SQLite file in WAL mode with the table `replies`.

    Args:
        path (`str` or `os.PathLike`): The file. It and its folder are made when missing.
        create (`bool`): With `False`, a missing file is an error rather than a new one.
        busy_timeout (`float`): Seconds to wait for another process that holds the file.

    Raises:
        StoreError: When the file cannot be opened or is something else.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = True, busy_timeout: float = 30.0
    ) -> None:
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._inherited: list[sqlite3.Connection] = []
        if create:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self.failure(f"its folder cannot be made ({error.strerror})") from error
        elif not self.path.exists():
            raise self.failure("there is no such file; check the path, or start a run first")
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = self._open()

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement and return its rows."""
        return self.execute(statement, values)[0]

    def change(self, statement: str, values: Sequence[Any]) -> int:
        """Run a statement, which commits by itself, and return how many rows it changed."""
        return self.execute(statement, values)[1]

    def execute(self, statement: str, values: Sequence[Any]) -> tuple[list[Any], int]:
        """Run a statement; returns its rows and how many rows it changed."""
        if self._pid != os.getpid():
            # After a fork. The parent's connection must be neither used nor closed here, and a
            # thread of the parent may have held the lock.
            self._lock = threading.Lock()
            if self._connection is not None:
                self._inherited.append(self._connection)
                self._connection = self._open()
            self._pid = os.getpid()
        with self._lock:
            if self._connection is None:
                raise self.failure("it has been closed; open it again")
            try:
                cursor = self._connection.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
            except sqlite3.Error as error:
                raise self.explained(error) from error

    def explained(self, error: sqlite3.Error) -> StoreError:
        """What SQLite says, with what a person can do about it."""
        text = str(error)
        for sign, fix in _FIXES.items():
            if sign in text:
                kind = DamagedStoreError if sign == "malformed" else StoreError
                return self.failure(fix.format(path=self.path, wait=self._busy_timeout), kind)
        return self.failure(f"SQLite says: {text}; check the file, then run again")

    def failure(self, what: str, kind: type[StoreError] = StoreError) -> StoreError:
        """An error that names the file."""
        return kind(f"the store {self.path} cannot be used: {what}. Stored replies are kept.")

    def _open(self) -> sqlite3.Connection:
        give_up = time.monotonic() + self._busy_timeout
        while True:
            try:
                # One connection, used by one thread at a time (`_lock`).
                connection = sqlite3.connect(
                    self.path,
                    timeout=self._busy_timeout,
                    isolation_level=None,
                    check_same_thread=False,
                )
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
                return connection
            except sqlite3.Error as error:
                # Switching a new file to WAL fails at once, without the busy timeout, while
                # another process is doing the same.
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise self.explained(error) from error
                time.sleep(0.02)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        elif "replies" not in tables:
            raise self.failure(
                "it is a database of another program; give another path or move that file away"
            )
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise self.failure("its disk does not support WAL; put the store on a local disk")
        connection.execute("PRAGMA synchronous = NORMAL")
        if "replies_by_origin" not in tables:
            connection.execute(_TABLE)
            connection.execute(_INDEX)
        found = {row[1] for row in connection.execute("PRAGMA table_info(replies)")}
        if "crc" in found and "replies_by_family" not in tables:
            for name in _ADDED.keys() - found:
                connection.execute(f"ALTER TABLE replies ADD COLUMN {name} {_ADDED[name]}")
            connection.execute(_FAMILY_INDEX)
        if not found.issuperset({"key", "crc", *COLUMNS}):
            raise self.failure(
                "another version of this package made it; give another path or install that version"
            )
