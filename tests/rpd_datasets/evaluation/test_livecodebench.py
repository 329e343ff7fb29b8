"""LiveCodeBench: a file of release 6 as it is published, with rows that cannot be graded."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, Problem, load_problems
from rpd_metric.errors import InputError
from rpd_metric.grading.code import CodeTask, grade_program
from rpd_metric.grading.sandbox import Sandbox

RELEASES = {one.release: one.sizes[0] for one in BENCHMARKS.values() if one.release}
ADD = {"input": "1 2\n", "output": "3\n", "testtype": "stdin"}
PAIR = {"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}
RIGHT = {
    "stdin": "```python\nprint(sum(map(int, input().split())))\n```",
    "functional": "```python\nclass Solution:\n    def shift(self, xs: List[int], k: int):\n"
    "        return [x + k for x in xs]\n```",
}
WRONG = {
    "stdin": "```python\nprint(3)\n```",
    "functional": "```python\nclass Solution:\n    def shift(self, xs, k):\n        return xs\n```",
}


def pickled(value: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def packed(cases: list[dict[str, str]]) -> str:
    return pickled(json.dumps(cases))


def row(number: int, **changes: Any) -> dict[str, Any]:
    """A row as published: every third is functional, every second has packed tests."""
    functional = number % 3 == 0
    hidden = [PAIR | {"input": "[]\n1", "output": "[]"}]
    if not functional:
        hidden = [ADD | {"input": "5 -2\n"}, ADD | {"input": "7 2\n", "output": "9"}]
    return {
        "question_content": f"Add the numbers of line {number}.",
        "question_id": f"p{number}",
        "starter_code": "class Solution:\n    def shift(self, xs, k):\n" if functional else "",
        "public_test_cases": json.dumps([PAIR if functional else ADD]),
        "private_test_cases": packed(hidden) if number % 2 else json.dumps(hidden),
        "metadata": json.dumps({"func_name": "shift"} if functional else {}),
    } | changes


def folder(path: Path, change: Callable[[int], dict[str, Any]] = lambda number: {}) -> Path:
    """The six files of a release."""
    path.mkdir(exist_ok=True)
    start = 0
    for n, end in sorted(RELEASES.items()):
        rows = (row(number, **change(number)) for number in range(start, end))
        name = "test.jsonl" if n == 1 else f"test{n}.jsonl"
        (path / name).write_text("".join(json.dumps(found) + "\n" for found in rows))
        start = end
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("lcb"))


@pytest.fixture(scope="module")
def tasks(files: Path) -> list[Problem]:
    return load_problems("livecodebench", files)


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_is_the_first_files(release: int, files: Path, tasks: list[Problem]) -> None:
    name = "livecodebench" if release == 6 else f"livecodebench-v{release}"
    assert [task.id for task in load_problems(name, files)] == [
        task.id for task in tasks[: RELEASES[release]]
    ]


def cases_of(task: Problem) -> CodeTask:
    assert task.tests is not None
    return task.tests()


def test_methods_and_programs_are_graded_by_their_kind(tasks: list[Problem]) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (package bubblewrap)")
    samples = [
        (cases_of(tasks[number]), text["functional" if number % 3 == 0 else "stdin"])
        for text in (RIGHT, WRONG)
        for number in range(4)
    ]
    sandbox = Sandbox()
    found = [grade_program(*sample, sandbox) for sample in samples]
    assert [result.value for result in found] == ["passed"] * 4 + ["failed"] * 4


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("never",)


@pytest.mark.parametrize(
    ("number", "changes", "why"),
    [
        (1, {"private_test_cases": packed([ADD])[:-9]}, "cannot be read"),
        (1, {"private_test_cases": "no base 64!"}, "cannot be read"),
        (1, {"private_test_cases": pickled(_Evil())}, "names builtins.print"),
        (1, {"private_test_cases": pickled([1])}, "TypeError"),
        (1, {"private_test_cases": packed([{"input": "1", "testtype": "stdin"}])}, "KeyError"),
        (1, {"public_test_cases": json.dumps([ADD, PAIR])}, "of the kinds"),
        (3, {"metadata": "{}"}, "metadata.func_name names none"),
        (3, {"public_test_cases": json.dumps([PAIR | {"input": "[1, 2"}])}, "JSONDecodeError"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused_by_its_id(
    number: int, changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    damaged = folder(tmp_path, lambda n: changes if n == number else {})
    tasks = load_problems("livecodebench", damaged)
    with pytest.raises(InputError, match=f"problem p{number} of LiveCodeBench.*{why}"):
        cases_of(tasks[number])


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "test5.jsonl").unlink()
    with pytest.raises(InputError, match=r"test5\.jsonl"):
        load_problems("livecodebench", tmp_path)
    assert len(load_problems("livecodebench-v4", tmp_path)) == 713
