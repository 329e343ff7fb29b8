"""The folder that a run works in until its result is complete, and what it keeps there.

`<output>.partial` is locked against a second run, survives an interruption, and goes when the
result has been moved into place. In it the journal says what has been scored so far, by the content
of a problem and the options that decide its scores, never by position.
"""

import json
import pickle
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from rpd_datasets.curation.models import default_store
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.destination import check_output
from rpd_datasets.filters.answer_checks import answer_column, mark_column
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.inputs.raw_rows import encode_values
from rpd_datasets.problem import Problem, Rejected
from rpd_datasets.publish.publishable import NEEDED, REPLACED
from rpd_metric.errors import OutputError
from rpd_metric.reasons import Reason

PARTIAL = (
    *("lock", "journal.sqlite*", "rejects-*.jsonl"),
    *("result/*", "replaced/*", "scratch/*", "shards/*"),
)


class Journal:
    """What is known of each problem, in one SQLite file.

    `fingerprint` is what decides the scores beside the problem, and `filters` name the carried
    columns that scoring looks at.
    """

    def __init__(self, path: Path, fingerprint: str, filters: FilterConfig) -> None:
        self.fingerprint = fingerprint
        self.filters = filters
        # Autocommit: a record is on disk as soon as put() returns.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # Without EXCLUSIVE, WAL shares memory through a file, which network file systems do not
        # carry; the folder is this run's alone anyway. With WAL, NORMAL can lose the last records
        # on power failure but never corrupts; a lost record is scored again.
        self._db.executescript(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE IF NOT EXISTS scored (key TEXT PRIMARY KEY, value TEXT);"
            "DROP TABLE IF EXISTS chosen;"
            "CREATE TABLE chosen (place INTEGER PRIMARY KEY, key TEXT, problem BLOB)"
        )

    def key(self, problem: Problem) -> str:
        """The problem's name here: another mark or reference answer makes it another one."""
        return journal_key(problem, self.fingerprint, self.filters)

    def find(self, problem: Problem, *, failed: bool = False) -> Scored | None:
        """What is known of a problem; `failed`: also where a later run may do better."""
        query = "SELECT value FROM scored WHERE key = ?"
        row = self._db.execute(query, (self.key(problem),)).fetchone()
        if row is None:
            return None
        record = json.loads(row[0])
        reasons = [*(reject["reason"] for reject in record["rejects"]), record.get("ungrouped")]
        if Reason.MODEL_ERROR in reasons and not failed:
            return None
        return Scored.from_record(record, problem.where)

    def put(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep a record of plain JSON types."""
        self._db.execute("INSERT OR REPLACE INTO scored VALUES (?, ?)", (key, json.dumps(record)))

    def spill(self, place: int, problem: Problem) -> None:
        """Keep a chosen problem by its place: the input gives them in another order."""
        # Pickled: carried columns may hold dates, bytes and decimals.
        row = place, self.key(problem), pickle.dumps(problem)
        self._db.execute("INSERT INTO chosen VALUES (?, ?, ?)", row)

    def spilled(self, place: int) -> tuple[Problem, Scored]:
        """The problem kept at that place, and what is known of it."""
        query = "SELECT problem, value FROM chosen JOIN scored USING (key) WHERE place = ?"
        problem, record = self._db.execute(query, (place,)).fetchone()
        return pickle.loads(problem), Scored.from_record(json.loads(record))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def journal_key(problem: Problem, fingerprint: str, filters: FilterConfig) -> str:
    """A problem's name among those that were scored."""
    name, columns = f"{problem.key}:{fingerprint}", seen_columns(problem, filters)
    return f"{name}:{sha256(encode_values(columns).encode()).hexdigest()[:16]}" if columns else name


def seen_columns(problem: Problem, filters: FilterConfig) -> dict[str, Any]:
    """The carried columns that scoring looks at."""
    extra = problem.extra
    marks = mark_column(extra, filters.correct_column)
    names = filter(None, {marks, answer_column(extra, filters.answer_column)})
    return {name: extra[name] for name in sorted(names)}


def check_folder(
    output: Path, overwrite: bool, reads: Iterable[Any] = (), store: str | None = None
) -> None:
    """Refuse an output folder that a run may not replace.

    `reads` are its files and folders, among ids and rows that are no such thing.
    """
    paths = (Path(name) for name in reads if isinstance(name, str | Path) and name != "sample")
    inputs = [*filter(Path.exists, map(Path.expanduser, paths)), default_store(store), Path.cwd()]
    check_output(output, _curated_names, overwrite=overwrite, reads=inputs)


def _curated_names(folder: Path) -> Sequence[str] | None:
    """The files of a curated folder, as its manifest lists them."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or "rpd-metric" not in (manifest.get("versions") or ()):
        return None
    if "files" not in manifest:  # of an earlier version
        return (*NEEDED, *REPLACED["dataset"])
    return [escape(str(name)) for name in manifest["files"]]


@contextmanager
def partial_folder(output: Path, check: Callable[[], None]) -> Iterator[Path]:
    """The folder a run works in, locked against a second one; `check` is [`check_folder`]."""
    from filelock import FileLock, Timeout

    check()
    partial = output.with_name(output.name + ".partial")
    check_output(
        partial, lambda folder: PARTIAL if (folder / "journal.sqlite").exists() else ("lock",)
    )
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with FileLock(partial / "lock", timeout=0):
            yield partial
        shutil.rmtree(partial, ignore_errors=True)
    except Timeout:
        raise OutputError(f"another run is writing to {output}; wait for it or stop it") from None
    except sqlite3.OperationalError as error:
        raise OutputError(
            f"cannot write under {partial}: {error}. What is there is kept; free some space and "
            "run the same command again"
        ) from error
    except sqlite3.DatabaseError as error:
        raise OutputError(f"cannot read {partial}: {error}. Delete it to start anew") from error
    except OSError as error:
        if error.errno is None:
            raise
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def reject_to(file: BinaryIO, drops: Counter[tuple[str, str, str]]) -> Callable[[Rejected], None]:
    """Write down what is left out, and count it by stage, reason and unit."""

    def reject(rejected: Rejected) -> None:
        kind = "problem" if rejected.solution_index is None else "solution"
        drops[rejected.stage, rejected.reason, kind] += 1
        # ensure_ascii: a reject may be the very text that is no valid Unicode.
        file.write(json.dumps(rejected.as_row()).encode() + b"\n")

    return reject
