"""The folder that a run works in until its result is complete, and what it keeps there.

`<output>.partial` is locked against a second run, survives an interruption, and goes when the
result has been moved into place. What is written into it is decided in `run.py`.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
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


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse an output folder that is there already. Raises [`OutputError`]."""
    if output.exists() and not overwrite:
        if not output.is_dir():
            raise OutputError(f"{output} is a file; choose another output folder")
        if any(output.iterdir()):
            raise OutputError(
                f"{output} exists and is not empty; choose another output folder, or pass "
                "--overwrite to replace it"
            )


@contextmanager
def partial_folder(output: Path, overwrite: bool) -> Iterator[Path]:
    """The folder a run works in, locked against a second run to the same output."""
    from filelock import FileLock, Timeout

    check_output(output, overwrite)
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


def write_files(contents: Mapping[str, str | bytes], folder: Path) -> None:
    """Write files by their names, which may hold a folder."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)


def join_files(parts: Sequence[Path], path: Path) -> None:
    """Write text files one after the other into a new one."""
    with open_text(path) as file:
        for part in parts:
            with part.open(encoding="utf-8") as lines:
                shutil.copyfileobj(lines, file)


def open_text(path: Path) -> TextIO:
    """A text file whose bytes are the same on every system."""
    return path.open("w", encoding="utf-8", newline="\n")


def reject_to(file: TextIO, drops: Counter[tuple[str, str, str]]) -> Callable[[Rejected], None]:
    """Write down what is left out, and count it by stage, reason and unit."""

    def reject(rejected: Rejected) -> None:
        kind = "problem" if rejected.solution_index is None else "solution"
        drops[rejected.stage, rejected.reason, kind] += 1
        # ensure_ascii: a reject may be the very text that is no valid Unicode.
        file.write(json.dumps(rejected.as_row()) + "\n")

    return reject
