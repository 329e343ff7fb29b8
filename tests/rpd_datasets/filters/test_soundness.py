"""Signs of a failed argument: what the rules find, and how well on solutions read by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpd_datasets.cli import main
from rpd_datasets.filters.pipeline import FilterConfig, filter_problem
from rpd_datasets.filters.soundness import signs_of_floundering
from rpd_datasets.presets import PRESETS
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
CANDIDATES = ROOT.parent / "shared/data/multi_solution/candidates.jsonl"

FAILED = [
    "So b = 4.5. People are whole, so there must be a mistake in our reasoning. Take b = 4.",
    "The sum is 1065. However, this does not match 812, but the answer is 10.",
    "This leaves -1 marbles, which is impossible. The largest possible number is 8.",
    "x is 7.2. The closest even number that satisfies our equations is 8.",
    "That gives 12474. This result seems incorrect, so we list all cases and find 180.",
    "We get a = 10, which fails. By trial and error or further analysis the values are 1 and 2.",
]
SOUND = [
    "If x = 2 then 32 < 25, which is impossible. So x = 1.",
    "This counts each pair twice, so we divide by 2 and get 28.",
    "Suppose p is even. Then 4 divides 2, which is a contradiction. So p is odd.",
    "Graph E falls. This does not match the description. So it is graph A.",
    "<think>I made a mistake. Let me reconsider.</think> Add both equations. The answer is 4.",
]


@pytest.mark.parametrize("solution", FAILED)
def test_words_that_admit_a_failure_are_signs(solution):
    assert signs_of_floundering(solution)


@pytest.mark.parametrize("solution", SOUND)
def test_cases_that_are_ruled_out_and_thoughts_are_none(solution):
    assert signs_of_floundering(solution) == []


def test_the_filter_is_off_until_asked_for_and_names_the_words():
    problem = Problem("p", (FAILED[0], SOUND[0]))
    config = FilterConfig(min_solutions=1, require_complete=False)
    count = token_counter("estimate")
    assert filter_problem(problem, config, count).kept == (0, 1)
    config = FilterConfig(min_solutions=1, require_complete=False, soundness="rules")
    found = filter_problem(problem, config, count)
    assert (found.kept, found.reasons[0]) == ((1,), "floundering")
    assert "mistake" in found.details[0]
    assert {preset.filters.soundness for preset in PRESETS.values()} == {"off"}
    with pytest.raises(InputError, match="off, rules"):
        FilterConfig(soundness="maybe")  # type: ignore[arg-type]


@pytest.mark.skipif(not CANDIDATES.is_file(), reason="../shared/data is not here")
def test_precision_and_recall_on_solutions_read_after_the_rules_were_written():
    labels = json.loads((ROOT / "benchmarks/floundering_labels.json").read_text())["held_out"]
    texts = {
        f"{row['problem_id']}/{index}": text
        for row in map(json.loads, CANDIDATES.open())
        for index, text in enumerate(row["solutions"])
    }
    found, alarms = (
        sum(bool(signs_of_floundering(texts[name])) for name in labels[label])
        for label in ("floundering", "sound")
    )
    assert (found, len(labels["floundering"])) == (12, 17)  # as docs/inputs.md says
    assert (alarms, len(labels["sound"])) == (1, 32)


def test_signs_are_reported_with_the_filter_off_and_on(tmp_path, capsys):
    solutions = [f"{text} The answer is $8$." for text in (*FAILED[:2], *SOUND[:4])]
    file = tmp_path / "rows.jsonl"
    rows = [{"problem": f"Which of {n}?", "solutions": solutions} for n in (1, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["curate", str(file), "--num-problems", "2", "--num-solutions", "3"]
    for options, left_out in (([], 0), (["--soundness", "rules"], 4)):
        out = tmp_path / f"out{left_out}"
        assert main([*command, *options, "--output", str(out)]) == 0
        found = json.loads((out / "manifest.json").read_text())["outcome"]["floundering"]
        assert (found["candidates"], found["candidate_solutions"]) == (4, 12)
        assert found["left_out"] == left_out
        said = " ".join(capsys.readouterr().out.split())
        assert "signs of a failed argument in" in said
        assert "33.3% of all" in said
    assert found["chosen"] == 0
