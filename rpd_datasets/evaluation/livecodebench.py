"""LiveCodeBench's own files: problems of programming contests with their hidden tests.

A release is the first so many of the six files `test.jsonl` ... `test6.jsonl`; the paper's figures
fit release_v6 with its 1,055 problems. `datasets` 5 runs no loading script, so the files are read
as they lie in the dataset's repository.

A row's tests are JSON lists of `{"input", "output", "testtype"}`, the private ones often packed
(base64 of zlib of a pickled JSON text). They are several gigabytes in all, so a problem keeps the
place of its row and reads its tests when it is graded. A row that cannot be graded is refused by
its id; it is never a wrong solution.
"""

import base64
import io
import json
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from rpd_metric.errors import InputError, first_line
from rpd_metric.grading.code import CASE_MEMORY, CASE_SECONDS, CONTEST_PRELUDE, ContestTask

_TESTS = ("public_test_cases", "private_test_cases")
_COLUMNS = (*_TESTS, "question_content", "question_id")
_STDIO = (
    "Write a Python program that solves this problem. It reads standard input and prints the "
    "answer. Reply with the whole program in one fenced code block.\n\n"
)
_CALL = (
    "Complete this Python code so that it solves the problem below. Reply with the whole code in "
    "one fenced code block.\n\n```python\n{starter}\n```\n\n"
)
Tests = Callable[[], ContestTask]


def read_problems(path: Path, release: int) -> Iterator[tuple[str, str, None, Tests]]:
    """The fields of the problems of a file, or of a release, 1 to 6, in a folder."""
    files = [path]
    if path.is_dir():
        files = [path / f"test{'' if n == 1 else n}.jsonl" for n in range(1, release + 1)]
    for file, place, row in _rows(files):
        if lacking := [name for name in _COLUMNS if row.get(name) is None]:
            raise InputError(
                f"{file}, byte {place} lacks {', '.join(lacking)}; use LiveCodeBench's own files, "
                "since prompts alone cannot be graded"
            )
        id_, starter = str(row["question_id"]), str(row.get("starter_code") or "").rstrip()
        start = _CALL.replace("{starter}", starter) if starter else _STDIO
        text = start + str(row["question_content"]).strip()
        yield id_, text, None, partial(_read_tests, file, place, id_)


def _rows(files: list[Path]) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """The rows of files, each with its file and place."""
    for path in files:
        place = 0
        try:
            with path.open("rb") as lines:
                for line in lines:
                    yield path, place, dict(json.loads(line))
                    place += len(line)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"cannot read {path} at byte {place}: {first_line(error)}; a release needs "
                "LiveCodeBench's own files, test.jsonl, test2.jsonl and so on"
            ) from error


def _read_tests(path: Path, place: int, id_: str) -> ContestTask:
    """The tests in the row at a byte. Raises [`InputError`] with the id if none can be graded."""
    with path.open("rb") as lines:
        lines.seek(place)
        row = json.loads(lines.readline())
    try:
        return _tests(row)
    # What a damaged pickle raises depends on where it is damaged.
    except Exception as error:
        raise InputError(
            f"problem {id_} of LiveCodeBench cannot be graded, its tests cannot be read: "
            f"{type(error).__name__}: {error}"
        ) from error


def _tests(row: Mapping[str, Any]) -> ContestTask:
    cases = [case for column in _TESTS for case in _cases(row[column])]
    kinds = {str(case.get("testtype")) for case in cases}
    limits = CASE_SECONDS, CONTEST_PRELUDE, CASE_MEMORY
    if kinds == {"stdin"}:
        return ContestTask([(str(case["input"]), str(case["output"])) for case in cases], *limits)
    if kinds != {"functional"}:
        raise ValueError(f"they are of the kinds {sorted(kinds)}, not stdin or functional alone")
    function = json.loads(row.get("metadata") or "{}").get("func_name")
    if not isinstance(function, str) or not function.isidentifier():
        raise ValueError("they call a function, and metadata.func_name names none")
    calls = []
    for case in cases:
        # One JSON value a line is one argument.
        arguments = [json.loads(line) for line in case["input"].split("\n") if line.strip()]
        calls.append((arguments, json.loads(case["output"])))
    return ContestTask(calls, *limits, entry_point=function)


def _cases(value: Any) -> list[dict[str, Any]]:
    """Tests as a list, as JSON, or as JSON in base64 of zlib of a pickle."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            data = zlib.decompress(base64.b64decode(value, validate=True))
            value = json.loads(_TextOnly(io.BytesIO(data)).load())
    return list(value)


class _TextOnly(pickle.Unpickler):
    """A pickle that names any class or function is refused: loading one could run anything."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module}.{name}")
