"""LiveCodeBench's own files: problems of programming contests with their hidden tests.

    FOLDER/test.jsonl ... test6.jsonl -> problems

A release is the first so many of the six files; release_v6 has 1,055 problems. The paper's 15
LiveCodeBench figures fit that one: as means of two runs, 13 are multiples of 1/1055, the other
two are if they were cut off and not rounded. `datasets` 5 runs no loading script, so the files are
read as they lie in the dataset's repository.

A row's tests are `public_test_cases` and `private_test_cases`: JSON lists of `{"input", "output",
"testtype"}`, the private ones often packed (base64 of zlib of a pickled JSON text). They are
several gigabytes in all, so a problem keeps the place of its row and reads its tests when it is
graded. A row that cannot be graded is refused by its id; it is never a wrong solution.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
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
_COLUMNS = ("question_content", "public_test_cases", "private_test_cases")

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
        """The tests, as [`read_tests`] does."""
        with self.path.open("rb") as lines:
            lines.seek(self.place)
            row = _object(lines.readline(), f"{self.path}, byte {self.place}")
        return read_tests(row, self.id)


def is_livecodebench(path: Path) -> bool:
    """Whether a folder or file holds LiveCodeBench's own rows."""
    if path.is_dir():
        return (path / "test.jsonl").is_file()
    if not path.is_file() or path.suffix != ".jsonl":
        return False
    first = next(_rows(path), None)
    return first is not None and set(_COLUMNS) <= set(first[1])


def read_problems(path: Path, release: int) -> Iterator[dict[str, Any]]:
    """The fields of the problems of a release, 1 to 6: of a folder, its first so many files."""
    files = [path]
    if path.is_dir():
        files = [path / f"test{'' if n == 1 else n}.jsonl" for n in range(1, release + 1)]
    for file in files:
        for place, row in _rows(file):
            yield _problem(file, place, row)


def read_tests(row: Mapping[str, Any], name: str) -> StdioTask | CallTask:
    """The tests of a row; [`InputError`] names the problem where they cannot be graded."""
    cases = [*_cases(row, "public_test_cases", name), *_cases(row, "private_test_cases", name)]
    kinds = sorted({str(case.get("testtype")) for case in cases})
    if kinds == ["stdin"]:
        pairs = [(case["input"], case["output"]) for case in cases]
        return StdioTask(pairs, CASE_SECONDS, CONTEST_PRELUDE, CASE_MEMORY)
    if kinds != ["functional"]:
        _refuse(name, f"its tests are of the kinds {kinds}; stdin or functional can be graded")
    metadata = _json(row.get("metadata") or "{}", "metadata", name)
    function = metadata.get("func_name") if isinstance(metadata, dict) else None
    if not isinstance(function, str) or not function.isidentifier():
        _refuse(name, "its tests call a function, and metadata.func_name names none")
    calls = []
    for case in cases:
        # One JSON value a line is one argument.
        given = [_json(line, "input", name) for line in case["input"].split("\n") if line.strip()]
        calls.append((given, _json(case["output"], "output", name)))
    return CallTask(function, calls, CASE_SECONDS, CONTEST_PRELUDE, CASE_MEMORY)


def _cases(row: Mapping[str, Any], column: str, name: str) -> list[dict[str, Any]]:
    value = row.get(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = _json(_unpacked(value, column, name), column, name)
    if not isinstance(value, list):
        _refuse(name, f"{column} is no list of tests")
    for case in value:
        texts = [case.get(key) for key in ("input", "output")] if isinstance(case, dict) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            _refuse(name, f"{column} holds a test without input and output")
    return value


class _TextOnly(pickle.Unpickler):
    """A pickle that names any class or function is refused: loading one could run anything."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _unpacked(value: str, column: str, name: str) -> str:
    """The JSON text in base64 of zlib of a pickle."""
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode(value, validate=True), _MOST_BYTES)
        if unpack.unconsumed_tail or not unpack.eof:
            _refuse(name, f"{column} is cut off, or longer than {_MOST_BYTES} bytes")
        text = _TextOnly(io.BytesIO(data)).load()
    # What a damaged pickle raises depends on where it is damaged.
    except (
        *(binascii.Error, zlib.error, pickle.UnpicklingError, EOFError, ValueError),
        *(IndexError, KeyError, AttributeError, TypeError, ImportError, MemoryError),
    ) as error:
        _refuse(name, f"{column} cannot be decoded: {type(error).__name__}: {error}")
    if not isinstance(text, str):
        _refuse(name, f"{column} holds a {type(text).__name__} in the place of JSON text")
    return text


def _json(text: str, what: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError) as error:
        _refuse(name, f"{what} is not JSON: {error}")


def _refuse(name: str, why: str) -> NoReturn:
    raise InputError(f"problem {name} of LiveCodeBench cannot be graded: {why}")


def _problem(path: Path, place: int, row: Mapping[str, Any]) -> dict[str, Any]:
    where = f"{path}, row at {place}"
    lacking = [name for name in (*_COLUMNS, "question_id", "contest_date") if row.get(name) is None]
    if lacking:
        raise InputError(f"{where} lacks {', '.join(lacking)}; use LiveCodeBench's own files")
    id_, starter = str(row["question_id"]), str(row.get("starter_code") or "")
    try:
        day = date.fromisoformat(str(row["contest_date"])[:10])
    except ValueError as error:
        raise InputError(f"{where}: contest_date is no date: {error}") from error
    start = _CALL.replace("{starter}", starter.rstrip()) if starter.strip() else _STDIO
    text = start + str(row["question_content"]).strip()
    return {"id": id_, "text": text, "code": StoredTests(path, place, id_), "day": day}


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its place."""
    try:
        with path.open("rb") as lines:
            place = 0
            for line in lines:
                if line.strip():
                    yield place, _object(line, f"{path}, byte {place}")
                place += len(line)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; a release needs its files, "
            "test.jsonl, test2.jsonl and so on"
        ) from error


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{where} is no JSON object")
    return row
