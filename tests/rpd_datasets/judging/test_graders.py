"""Graders on judged pairs: what they get wrong, and the figures of docs/grading.md."""

import json
import re
from pathlib import Path

import pytest

from rpd_datasets.cli import main
from rpd_datasets.judging.graders import JudgedPair, mistakes, read_pairs

PAGE = Path(__file__).parents[3] / "docs" / "grading.md"


def test_false_accepts_and_false_rejects_are_counted_by_form(tmp_path, monkeypatch, capsys):
    (tmp_path / "checks.py").write_text(
        "def check(reference, response):\n    return reference in response\n"
    )
    monkeypatch.chdir(tmp_path)
    pairs = [
        JudgedPair("unit", "5 m", "It is 5 m.", True),
        JudgedPair("unit", "5 m", "It is 500 cm.", True),
        JudgedPair("number", "5", "It is 15.", False),
    ]
    unit, number, every = mistakes("checks.py:check", pairs)
    assert (unit.form, unit.right, unit.false_accepts, unit.false_rejects) == ("unit", 2, 0, 1)
    assert (number.wrong, number.false_accepts, number.false_rejects) == (1, 1, 0)
    assert (every.form, every.right, every.wrong) == ("all", 2, 1)

    assert main(["compare-graders", "--graders", "checks.py:check", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    last = result["results"][-1]
    assert (result["pairs"], last["right"], last["wrong"]) == (525, 283, 242)

    assert main(["compare-graders", "--graders", "latex"]) == 1
    assert "there is no grader 'latex': use one of rpd" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("grader", "column"), [("rpd", 3), ("math-verify", 4)])
def test_the_page_has_the_figures_of_a_grader(grader, column):
    pytest.importorskip("math_verify", reason="needs the extra 'grading'")
    lines = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (.+) \| (.+) \| .+ \|$", PAGE.read_text(), re.M
    )
    printed = {line[0]: line[column].partition(" (")[0] for line in lines}
    found = {
        one.form: f"{one.false_accepts} / {one.false_rejects}"
        for one in mistakes(grader, read_pairs())
    }
    assert found == printed
