"""Marks of a person: what was rejected goes, what was kept is chosen."""

import json
from pathlib import Path

import numpy as np
import pytest

from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.selection.decisions import KEEP, decided, read_decisions
from rpd_datasets.selection.solutions import select_solutions
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError

PROBLEM = Problem("p", tuple(f"{word} is the answer." for word in ("One", "Two", "Three", "Four")))


def save(path: Path, decisions: dict[int, str]) -> str:
    rows = [{"problem": PROBLEM.key, "solution": i, "decision": d} for i, d in decisions.items()]
    path.write_text(json.dumps({"format": 1, "decisions": rows}))
    return str(path)


def test_a_rejected_solution_is_left_out_with_its_reason(tmp_path):
    file = save(tmp_path / "d.json", {1: "reject", 2: "keep"})
    config = FilterConfig(decisions=file, require_complete=False)
    found = filter_problem(PROBLEM, config, token_counter("estimate"))
    assert found.reasons == ("", "rejected_by_hand", "", "")
    assert found.details[1] == "d.json rejects it."
    # Marks of a problem say nothing of one that was changed since.
    other = Problem("p", PROBLEM.solutions[:2])
    assert filter_problem(other, config, token_counter("estimate")).remaining == (0, 1)


@pytest.mark.parametrize(
    ("marks", "chosen"),
    [
        ({1: "keep"}, [1, 2]),
        ({3: "keep", 0: "keep", 1: "keep"}, [0, 1]),
        ({}, [2, 0]),
    ],
)
def test_a_choice_goes_on_from_what_was_kept(tmp_path, marks, chosen):
    matrix = np.array([[0, 1, 9, 2], [1, 0, 8, 7], [9, 8, 0, 3], [2, 7, 3, 0]], dtype=float)
    file = save(tmp_path / "d.json", marks)
    assert select_solutions(matrix, 2, first=decided(file, PROBLEM, KEEP)) == chosen


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2, "decisions": []}', "[1]"])
def test_what_is_no_file_of_marks_is_refused(tmp_path, text):
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(InputError, match="not a file of decisions"):
        read_decisions(str(tmp_path / "d.json"))
    with pytest.raises(InputError, match="cannot read the decisions"):
        read_decisions(str(tmp_path / "nowhere.json"))
