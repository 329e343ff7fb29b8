"""Marks of a person: what was rejected goes, what was kept is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rpd_datasets.cli import main
from rpd_datasets.filters.decisions import choose_around, read_decisions
from rpd_datasets.filters.pipeline import FilterConfig, filter_problem
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError

PROBLEM = Problem("p", tuple(f"{word} is the answer." for word in ("One", "Two", "Three", "Four")))


def save(path: Path, decisions: dict[int, str], key: str = PROBLEM.key) -> str:
    rows = [{"problem": key, "solution": i, "decision": d} for i, d in decisions.items()]
    path.write_text(json.dumps({"format": 1, "decisions": rows}))
    return str(path)


def test_a_rejected_solution_is_left_out_with_its_reason(tmp_path):
    file = save(tmp_path / "d.json", {1: "reject", 2: "keep"})
    config = FilterConfig(decisions=file, require_complete=False)
    found = filter_problem(PROBLEM, config, token_counter("estimate"))
    assert found.kept == (0, 2, 3)
    assert found.reasons == ("", "rejected_by_hand", "", "")
    assert found.details[1] == "d.json rejects it."
    other = Problem("p", ("One is the answer.", "Two is the answer."))
    assert filter_problem(other, config, token_counter("estimate")).kept == (0, 1)


def test_a_choice_goes_on_from_what_was_kept(tmp_path):
    matrix = np.array([[0, 1, 9, 2], [1, 0, 8, 7], [9, 8, 0, 3], [2, 7, 3, 0]], dtype=float)
    file = save(tmp_path / "d.json", {1: "keep"})
    assert choose_around(PROBLEM, file, range(4), (0, 2), matrix) == [1, 2]
    both = save(tmp_path / "both.json", {3: "keep", 0: "keep", 1: "keep"})
    assert choose_around(PROBLEM, both, range(4), (0, 2), matrix) == [0, 1]
    nothing = save(tmp_path / "none.json", {})
    assert choose_around(PROBLEM, nothing, range(4), (2, 0), matrix) == [2, 0]


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2, "decisions": []}', "[1]"])
def test_what_is_no_file_of_marks_is_refused(tmp_path, text):
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(InputError, match="holds no decisions"):
        read_decisions(str(tmp_path / "d.json"))
    with pytest.raises(InputError, match="cannot read the decisions"):
        read_decisions(str(tmp_path / "nowhere.json"))


@pytest.mark.slow
def test_rpd_curate_honours_the_marks_of_a_report(tmp_path, capsys):
    import datasets

    asked = ["curate", "sample", "--limit", "2", "--num-problems", "1", "--num-solutions", "2"]
    assert main([*asked, "-o", str(tmp_path / "first")]) == 0
    first = json.loads((tmp_path / "first" / "scores.jsonl").read_text().splitlines()[0])
    marks = {0: "reject", 1: "reject", 2: "keep", 3: "keep"}
    file = save(tmp_path / "d.json", marks, first["key"])
    second = json.loads((tmp_path / "first" / "scores.jsonl").read_text().splitlines()[1])
    content = json.loads(Path(file).read_text())
    content["decisions"] += [
        {"problem": second["key"], "solution": i, "decision": d} for i, d in marks.items()
    ]
    Path(file).write_text(json.dumps(content))
    assert main([*asked, "-o", str(tmp_path / "second"), "--decisions", file]) == 0
    row = datasets.load_dataset(str(tmp_path / "second"), split="train")[0]
    assert sorted(row["selected"]) == [2, 3]
    assert row["drop_reasons"][:2] == ["rejected_by_hand"] * 2
    manifest = (tmp_path / "second" / "manifest.json").read_text()
    assert '"decisions": "d.json"' in manifest
    assert str(tmp_path) not in manifest
    capsys.readouterr()
