"""The journal of a run: what has been scored so far, so that a run can be taken up again.

One SQLite file per output folder, keyed by the content of the problem and the options that
decide its scores, never by position. What a model replied is kept elsewhere, in the store of
replies; the journal goes when the run has finished.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from rpd_metric.errors import OutputError


class Journal:
    """A durable dictionary from a problem's key to what was found out about it.

    Args:
        path (`Path`): The SQLite file; made if it is not there.

    Raises:
        [`OutputError`]: The file cannot be written or is no journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Autocommit: a record is on disk as soon as put() returns.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            # Without EXCLUSIVE, WAL shares memory through a file, which network file systems do
            # not carry; the folder is this run's alone anyway.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            # With WAL, NORMAL can lose the last records on power failure but never corrupts;
            # a lost record is scored again.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS scored (key TEXT PRIMARY KEY, value TEXT)")
        except sqlite3.Error as error:
            raise OutputError(
                f"cannot use the journal {path}: {error}. Delete it to start from the beginning"
            ) from error

    def get(self, key: str) -> Any | None:
        """The record under `key`, or `None`."""
        row = self._db.execute("SELECT value FROM scored WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, value: Any) -> None:
        """Write a record of plain JSON types."""
        try:
            self._db.execute(
                "INSERT OR REPLACE INTO scored VALUES (?, ?)", (key, json.dumps(value))
            )
        except sqlite3.Error as error:
            raise OutputError(
                f"cannot write to the journal {self._path}: {error}. What is in it is kept; free "
                "some space and run the same command again"
            ) from error

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT COUNT(*) FROM scored").fetchone()[0]
        return count

    def close(self) -> None:
        """Close the file."""
        self._db.close()
