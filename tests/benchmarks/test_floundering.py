"""benchmarks/floundering.py: the rules and a judge on the same labels, side by side."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from parts.fake_tgi import FakeTGI
from rpd_datasets.filters.soundness import signs_of_floundering

ROOT = Path(__file__).resolve().parents[2]
CANDIDATES = ROOT.parent / "shared/data/multi_solution/candidates.jsonl"


@pytest.mark.skipif(not CANDIDATES.is_file(), reason="../shared/data is not here")
def test_one_command_measures_a_judge_beside_the_rules(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    floundering = importlib.import_module("floundering")

    def reply(body):
        """A judge that goes by the rules, but is silent about triangles."""
        solution = body["messages"][-1]["content"].partition("The solution:")[2]
        if "triangle" in solution:
            return "I cannot tell."
        return f"//boxed{{{1 if signs_of_floundering(solution) else 2}}}"

    with FakeTGI(reply=reply) as server:
        store = ["--store", str(tmp_path / "replies.sqlite")]
        command = ["--judge", f"tgi:{server.url}", *store, "--parts", "held_out"]
        floundering.main(command)
        assert len(server.requests) == 49
        first = capsys.readouterr().out
        floundering.main(command)
        assert len(server.requests) == 49  # the rest came from the store
    assert capsys.readouterr().out == first
    rules, judge = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in first.splitlines()[2:]
    )
    assert rules == ["rules", "held out", "49", "12 of 13", "12 of 17", "0"]
    assert judge[0] == "Qwen/Qwen3-14B"
    silent = int(judge[5])
    found, flagged = map(int, judge[3].split(" of "))
    assert silent > 0
    assert 12 - silent <= found <= 12
    assert found <= flagged <= 13
