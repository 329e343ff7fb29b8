"""LiveCodeBench: a file of release 6 as it is published, with rows that cannot be graded."""

import base64
import json
import pickle
import shutil
import zlib

import pytest

from parts.rows import write_rows
from rpd_datasets.evaluation.benchmarks import BENCHMARKS, load_problems
from rpd_metric.errors import InputError
from rpd_metric.grading.code import grade_program
from rpd_metric.grading.sandbox import Sandbox

RELEASES = {one.release: one.sizes[0] for one in BENCHMARKS.values() if one.release}
ADD = {"input": "1 2\n", "output": "3\n", "testtype": "stdin"}
PAIR = {"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}
# Of programs and of methods, a right and a wrong one.
PROGRAMS = "print(sum(map(int, input().split())))", "print(3)"
METHOD = "class Solution:\n    def shift(self, xs: List[int], k: int):\n        return "
METHODS = METHOD + "[x + k for x in xs]", METHOD + "xs"


def pickled(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def row(number, changes):
    """A row as published: every third is functional, every second has packed tests."""
    functional = number % 3 == 0
    hidden = [PAIR | {"input": "[]\n1", "output": "[]"}]
    if not functional:
        hidden = [ADD | {"input": "5 -2\n"}, ADD | {"input": "7 2\n", "output": "9"}]
    tests = json.dumps(hidden)
    return {
        "question_content": f"Add the numbers of line {number}.",
        "question_id": f"p{number}",
        "starter_code": "class Solution:\n    def shift(self, xs, k):\n" if functional else "",
        "public_test_cases": json.dumps([PAIR if functional else ADD]),
        "private_test_cases": pickled(tests) if number % 2 else tests,
        "metadata": json.dumps({"func_name": "shift"} if functional else {}),
    } | changes.get(number, {})


def folder(path, changes):
    """The six files of a release."""
    start = 0
    for n, end in sorted(RELEASES.items()):
        rows = (row(number, changes) for number in range(start, end))
        write_rows(path / f"test{'' if n == 1 else n}.jsonl", rows)
        start = end
    return path


def test_a_release_is_the_first_files_and_is_graded_by_kind(tmp_path):
    files = folder(tmp_path, {})
    tasks = load_problems("livecodebench", files)
    (files / "test5.jsonl").unlink()
    found = load_problems("livecodebench-v4", files)
    assert [task.id for task in found] == [task.id for task in tasks[: RELEASES[4]]]
    with pytest.raises(InputError, match=r"test5\.jsonl"):
        load_problems("livecodebench", files)
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (package bubblewrap)")
    for place, verdict in enumerate(("passed", "failed")):
        for number in range(4):
            code = (PROGRAMS if number % 3 else METHODS)[place]
            result = grade_program(found[number].tests(), f"```python\n{code}\n```", Sandbox())
            assert result.value == verdict


class _Evil:
    def __reduce__(self):
        return print, ("never",)


def test_a_row_that_cannot_be_graded_is_refused_by_its_id(tmp_path):
    damages = [
        (1, {"private_test_cases": pickled(json.dumps([ADD]))[:-9]}, "cannot be read"),
        (2, {"private_test_cases": "no base 64!"}, "cannot be read"),
        (4, {"private_test_cases": pickled(_Evil())}, "names builtins.print"),
        (5, {"private_test_cases": pickled([1])}, "TypeError"),
        (7, {"private_test_cases": json.dumps([{"input": "1", "testtype": "stdin"}])}, "KeyError"),
        (8, {"public_test_cases": json.dumps([ADD, PAIR])}, "of the kinds"),
        (3, {"metadata": "{}"}, "metadata.func_name names none"),
        (6, {"public_test_cases": json.dumps([PAIR | {"input": "[1, 2"}])}, "JSONDecodeError"),
    ]
    tasks = load_problems("livecodebench", folder(tmp_path, {n: one for n, one, _ in damages}))
    for number, _, why in damages:
        with pytest.raises(InputError, match=f"problem p{number} of LiveCodeBench.*{why}"):
            tasks[number].tests()
