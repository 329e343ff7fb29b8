"""Grading by a function of the user's own."""

from pathlib import Path

import pytest

from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.custom import OwnGrader, load_grader


def test_a_function_in_a_file_grades_rows_in_order(tmp_path: Path):
    checks = tmp_path / "checks.py"
    checks.write_text("def ends(answer, response):\n    return response.endswith(answer)\n")
    rows = [("7", "it is 7"), (7, "it is 8"), ("8", "it is 8")]
    with load_grader(f"{checks}:ends") as grader:
        verdicts = list(grader.grade(rows))
    assert verdicts == [Verdict.CORRECT, Verdict.WRONG, Verdict.CORRECT]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("checks", "No module named 'checks'; use file.py:function"),
        ("nowhere.py:check", "No such file or directory"),
        ("operator:nothing", "no attribute 'nothing'"),
        ("operator", "is not a function"),
        (f"{__file__}:nothing", "is not a function"),
    ],
)
def test_a_grader_that_cannot_be_found_is_named(spec: str, message: str):
    with pytest.raises(InputError, match=message):
        OwnGrader(spec)
