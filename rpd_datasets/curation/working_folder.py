"""The folder that a run works in until its result is complete, and what it keeps there.

`<output>.partial` is locked against a second run, survives an interruption, and goes when the
result has been moved into place. What is written into it is decided in `run.py`.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rpd_datasets.problem import Problem
from rpd_metric.errors import OutputError


class Spill:
    """The chosen problems on disk, by place: the input gives them in another order.

    Pickled, because carried columns may hold dates, bytes and decimals; the file is this run's
    own and goes with it.
    """

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("CREATE TABLE chosen (place INTEGER PRIMARY KEY, problem BLOB)")

    def put(self, place: int, problem: Problem) -> None:
        """Keep a problem."""
        self._db.execute("INSERT INTO chosen VALUES (?, ?)", (place, pickle.dumps(problem)))

    def get(self, place: int) -> Problem:
        """The problem kept under that number."""
        row = self._db.execute("SELECT problem FROM chosen WHERE place = ?", (place,)).fetchone()
        problem: Problem = pickle.loads(row[0])
        return problem

    def close(self) -> None:
        """Close the file."""
        self._db.close()


@contextmanager
def partial_folder(output: Path, overwrite: bool) -> Iterator[Path]:
    """The folder a run works in, locked against a second run to the same output."""
    from filelock import FileLock, Timeout

    if output.exists() and not overwrite:
        if not output.is_dir():
            raise OutputError(f"{output} is a file; choose another output folder")
        if any(output.iterdir()):
            raise OutputError(
                f"{output} exists and is not empty; choose another output folder, or pass "
                "--overwrite to replace it"
            )
    partial = output.with_name(output.name + ".partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = FileLock(partial / "lock", timeout=0)
        with lock:
            yield partial
        shutil.rmtree(partial, ignore_errors=True)
    except Timeout:
        raise OutputError(f"another run is writing to {output}; wait for it or stop it") from None
    except PermissionError as error:
        raise OutputError(f"cannot write {error.filename}: permission denied") from error
    except sqlite3.OperationalError as error:
        raise OutputError(f"cannot write under {partial}: {error}") from error
    except OSError as error:
        if isinstance(error, OutputError) or error.errno is None:
            raise
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def move_into_place(result: Path, output: Path, partial: Path) -> None:
    """Replace the output by the result in two renames, each of them atomic."""
    if output.exists():
        replaced = partial / "replaced"
        if replaced.exists():
            shutil.rmtree(replaced)
        os.replace(output, replaced)
    os.replace(result, output)
