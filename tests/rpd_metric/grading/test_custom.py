"""Grading by a function of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.custom import OwnGrader, load_grader
from rpd_metric.grading.mathematics import Grader

CHECKS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Wanted:
    text: str

def ends(answer: str, response: str) -> bool:
    return response.endswith(Wanted(answer).text)

def counts(answer: str, response: str) -> int:
    return response.count(answer)
"""


@pytest.fixture
def checks(tmp_path: Path) -> Path:
    file = tmp_path / "checks.py"
    file.write_text(CHECKS, encoding="utf-8")
    return file


def test_a_function_in_a_file_grades_rows_in_order_and_tells_the_progress(checks: Path):
    seen: list[int] = []
    rows = [("7", "it is 7"), (7, "it is 8"), ("8", "it is 8")]
    with load_grader(f"{checks}:ends") as grader:
        verdicts = list(grader.grade(rows, progress=seen.append))
    assert verdicts == [Verdict.CORRECT, Verdict.WRONG, Verdict.CORRECT]
    assert seen == [1, 2, 3]


def test_a_function_of_a_module_does_as_well():
    assert list(OwnGrader("operator:contains").grade([("abc", "b")])) == [Verdict.CORRECT]


def test_without_a_function_mathematics_is_graded():
    with load_grader(workers=1) as grader:
        assert isinstance(grader, Grader)
        assert list(grader.grade([("1/2", r"\boxed{0.5}")])) == [Verdict.CORRECT]


def test_a_verdict_that_is_no_bool_is_refused(checks: Path):
    with pytest.raises(InputError, match="returned 1; a grader returns True or False"):
        list(OwnGrader(f"{checks}:counts").grade([("7", "7")]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("checks", "not of the form file.py:function"),
        ("nowhere.py:check", "no file nowhere.py"),
        ("no.such.module:check", "cannot be loaded"),
        ("operator:nothing", "operator has no function 'nothing'"),
    ],
)
def test_a_grader_that_cannot_be_found_is_named(spec: str, message: str):
    with pytest.raises(InputError, match=message):
        OwnGrader(spec)
