"""LiveCodeBench: a file of release 6 as it is published, with rows that cannot be graded."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from parts.rows import write_rows
from rpd_datasets.evaluation.benchmarks import BENCHMARKS, load_problems
from rpd_metric.errors import InputError
from rpd_metric.grading.code import grade_program
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


def folder(path: Path, changes: dict[int, dict[str, Any]] | None = None) -> Path:
    """The six files of a release."""
    path.mkdir(exist_ok=True)
    start = 0
    for n, end in sorted(RELEASES.items()):
        rows = (row(number, **(changes or {}).get(number, {})) for number in range(start, end))
        write_rows(path / f"test{'' if n == 1 else n}.jsonl", rows)
        start = end
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("lcb"))


@pytest.fixture(scope="module")
def tasks(files):
    return load_problems("livecodebench", files)


def test_a_release_is_the_first_files_and_a_missing_one_is_named(files, tasks, tmp_path):
    for n in (1, 4):
        found = load_problems(f"livecodebench-v{n}", files)
        assert [task.id for task in found] == [task.id for task in tasks[: RELEASES[n]]]
    shutil.copytree(files, tmp_path / "part")
    (tmp_path / "part" / "test5.jsonl").unlink()
    with pytest.raises(InputError, match=r"test5\.jsonl"):
        load_problems("livecodebench", tmp_path / "part")


def test_methods_and_programs_are_graded_by_their_kind(tasks):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (package bubblewrap)")
    samples = [
        (tasks[number].tests(), text["functional" if number % 3 == 0 else "stdin"])
        for text in (RIGHT, WRONG)
        for number in range(4)
    ]
    sandbox = Sandbox()
    found = [grade_program(*sample, sandbox) for sample in samples]
    assert [result.value for result in found] == ["passed"] * 4 + ["failed"] * 4


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("never",)


def test_a_row_that_cannot_be_graded_is_refused_by_its_id(tmp_path):
    damages = [
        (1, {"private_test_cases": packed([ADD])[:-9]}, "cannot be read"),
        (2, {"private_test_cases": "no base 64!"}, "cannot be read"),
        (4, {"private_test_cases": pickled(_Evil())}, "names builtins.print"),
        (5, {"private_test_cases": pickled([1])}, "TypeError"),
        (7, {"private_test_cases": packed([{"input": "1", "testtype": "stdin"}])}, "KeyError"),
        (8, {"public_test_cases": json.dumps([ADD, PAIR])}, "of the kinds"),
        (3, {"metadata": "{}"}, "metadata.func_name names none"),
        (6, {"public_test_cases": json.dumps([PAIR | {"input": "[1, 2"}])}, "JSONDecodeError"),
    ]
    tasks = load_problems("livecodebench", folder(tmp_path, {n: one for n, one, _ in damages}))
    for number, _, why in damages:
        with pytest.raises(InputError, match=f"problem p{number} of LiveCodeBench.*{why}"):
            tasks[number].tests()
