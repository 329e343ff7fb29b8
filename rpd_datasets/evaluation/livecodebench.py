"""LiveCodeBench's own files: problems of programming contests with their hidden tests.

    FOLDER/test.jsonl ... test6.jsonl -> problems

A release is the first so many of the six files. The paper's figures fit release_v6 with its 1,055
problems. `datasets` 5 runs no loading script, so the files are read as they lie in the dataset's
repository.

A row's tests are `public_test_cases` and `private_test_cases`: JSON lists of `{"input", "output",
"testtype"}`, the private ones often packed (base64 of zlib of a pickled JSON text). They are
several gigabytes in all, so a problem keeps the place of its row and reads its tests when it is
graded. A row that cannot be graded is refused by its id; it is never a wrong solution.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rpd_metric.errors import InputError
from rpd_metric.grading.code import (
    CASE_MEMORY,
    CASE_SECONDS,
    CONTEST_PRELUDE,
    CallTask,
    StdioTask,
)

# Problems of each release, from the first file to the last.
RELEASES = {1: 400, 2: 511, 3: 612, 4: 713, 5: 880, 6: 1055}
# Unpacked tests of one problem; the largest real ones are some 100 MB.
_MOST_BYTES = 1 << 30
_TEST_COLUMNS = ("public_test_cases", "private_test_cases")
_COLUMNS = (*_TEST_COLUMNS, "question_content", "question_id", "contest_date")

_STDIO = (
    "Write a Python program that solves this problem. It reads standard input and prints the "
    "answer. Reply with the whole program in one fenced code block.\n\n"
)
_CALL = (
    "Complete this Python code so that it solves the problem below. Reply with the whole code in "
    "one fenced code block.\n\n```python\n{starter}\n```\n\n"
)


@dataclass(frozen=True)
class StoredTests:
    """Where a problem's tests lie: the file, and the first byte of the row."""

    path: Path
    place: int
    id: str

    def read(self) -> StdioTask | CallTask:
        """The tests. Raises [`InputError`], which names the problem, if they cannot be graded."""
        with self.path.open("rb") as lines:
            lines.seek(self.place)
            row = json.loads(lines.readline())
        try:
            return _tests(row)
        # What a damaged pickle raises depends on where it is damaged.
        except (
            *(zlib.error, pickle.UnpicklingError, EOFError, ValueError, MemoryError),
            *(IndexError, KeyError, AttributeError, TypeError, ImportError),
        ) as error:
            raise InputError(
                f"problem {self.id} of LiveCodeBench cannot be graded, its tests cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error


def is_livecodebench(path: Path) -> bool:
    """Whether a folder or file holds LiveCodeBench's own rows."""
    if path.is_dir():
        return (path / "test.jsonl").is_file()
    if not path.is_file() or path.suffix != ".jsonl":
        return False
    first = next(_rows(path), None)
    return first is not None and set(_TEST_COLUMNS) <= first[1].keys()


def read_problems(path: Path, release: int) -> Iterator[dict[str, Any]]:
    """The fields of the problems of a release, 1 to 6: of a folder, its first so many files."""
    files = [path]
    if path.is_dir():
        files = [path / f"test{'' if n == 1 else n}.jsonl" for n in range(1, release + 1)]
    for file in files:
        for place, row in _rows(file):
            lacking = [name for name in _COLUMNS if row.get(name) is None]
            if lacking:
                raise InputError(
                    f"{file}, byte {place} lacks {', '.join(lacking)}; use LiveCodeBench's own "
                    "files"
                )
            id_, starter = str(row["question_id"]), str(row.get("starter_code") or "").rstrip()
            start = _CALL.replace("{starter}", starter) if starter else _STDIO
            yield {
                "id": id_,
                "text": start + str(row["question_content"]).strip(),
                "code": StoredTests(file, place, id_),
                "day": str(row["contest_date"])[:10],
            }


def _tests(row: Mapping[str, Any]) -> StdioTask | CallTask:
    cases = [case for column in _TEST_COLUMNS for case in _cases(row[column])]
    kinds = sorted({str(case.get("testtype")) for case in cases})
    if kinds == ["stdin"]:
        pairs = [(str(case["input"]), str(case["output"])) for case in cases]
        return StdioTask(pairs, CASE_SECONDS, CONTEST_PRELUDE, CASE_MEMORY)
    if kinds != ["functional"]:
        raise ValueError(f"they are of the kinds {kinds}; stdin or functional can be graded")
    function = json.loads(row.get("metadata") or "{}").get("func_name")
    if not isinstance(function, str) or not function.isidentifier():
        raise ValueError("they call a function, and metadata.func_name names none")
    calls = []
    for case in cases:
        # One JSON value a line is one argument.
        given = [json.loads(line) for line in case["input"].split("\n") if line.strip()]
        calls.append((given, json.loads(case["output"])))
    return CallTask(function, calls, CASE_SECONDS, CONTEST_PRELUDE, CASE_MEMORY)


def _cases(value: Any) -> list[dict[str, Any]]:
    """Tests as a list, as JSON, or as JSON in base64 of zlib of a pickle."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            unpack = zlib.decompressobj()
            data = unpack.decompress(base64.b64decode(value, validate=True), _MOST_BYTES)
            if not unpack.eof:
                raise ValueError(f"they are cut off, or longer than {_MOST_BYTES} bytes") from None
            value = json.loads(_TextOnly(io.BytesIO(data)).load())
    if not isinstance(value, list):
        raise TypeError(f"a list of tests is wanted, not {type(value).__name__}")
    return value


class _TextOnly(pickle.Unpickler):
    """A pickle that names any class or function is refused: loading one could run anything."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its place."""
    place = 0
    try:
        with path.open("rb") as lines:
            for line in lines:
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("a row is a JSON object")
                    yield place, row
                place += len(line)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; a release needs its files, "
            "test.jsonl, test2.jsonl and so on"
        ) from error
    except ValueError as error:
        raise InputError(f"{path}, byte {place} is not JSON: {error}") from error
