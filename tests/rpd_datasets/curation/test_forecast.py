"""Forecasts of time: from a few problems of the input, and as many processes as fit."""

from itertools import count

import pytest

from parts.rows import write_rows
from rpd_datasets import CurationConfig, Problem
from rpd_datasets.cli import main
from rpd_datasets.curation.engines import FEW_PROBLEMS, Engine, EngineOptions
from rpd_datasets.curation.forecast import (
    TIMED,
    Draw,
    processes_that_fit,
    runs_on_cores,
    seconds_to_score,
)

SOLUTIONS = (
    "Two and three make five. So the answer is $5$.",
    "Count on from two: three, four, five. The answer is $5$.",
    "Put two coins beside three coins and count them all. The answer is $5$.",
)
STATIC = CurationConfig(embedder="static")


def a_draw(num_problems):
    draw = Draw()
    for number in range(num_problems):
        draw.add(Problem(f"Problem {number}?", SOLUTIONS))
    return draw


def test_a_draw_holds_a_few_problems_of_the_whole_input():
    draw = a_draw(1000)
    numbers = [int(problem.problem.split()[1].rstrip("?")) for problem in draw.problems]
    assert len(numbers) == TIMED + 1
    assert max(numbers) > 500  # the first ones alone may be short
    assert draw.characters == 1000 * sum(map(len, SOLUTIONS))


@pytest.mark.parametrize("num_problems", [1, 5, 90])
def test_the_time_of_the_timed_problems_is_scaled_by_characters(num_problems):
    """The clock ticks once around all timed problems, so that these take 10 seconds."""
    timed = min(TIMED, max(1, num_problems - 1))
    seconds = seconds_to_score(a_draw(num_problems), STATIC, count(step=10).__next__)
    assert seconds == pytest.approx(10 * num_problems / timed)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"embedder": "st:some/model"}, False),  # wants a GPU
        ({"embedder": "openai:http://localhost:1/v1#m"}, False),
        ({"summarizer": "tgi:http://localhost:1"}, False),
    ],
)
def test_several_processes_are_for_encoders_on_cores(options, expected):
    assert runs_on_cores(CurationConfig(**options)) is expected


def test_few_problems_stay_in_one_process(monkeypatch):
    monkeypatch.setattr("rpd_datasets.curation.engines.processes_that_fit", lambda: 2)
    engine = EngineOptions().load(STATIC)
    assert isinstance(engine, Engine)
    assert not engine.suits(range(FEW_PROBLEMS - 1))
    assert engine.suits(range(FEW_PROBLEMS))
    assert EngineOptions(num_proc=1).load(STATIC) is None
    assert processes_that_fit() >= 1


def test_a_plan_says_how_long_scoring_takes(tmp_path, capsys):
    rows = [{"problem": f"Problem {n}?", "solutions": list(SOLUTIONS)} for n in range(4)]
    write_rows(tmp_path / "rows.jsonl", rows)
    assert main(["plan", str(tmp_path / "rows.jsonl"), "--embedder", "static"]) == 0
    printed = capsys.readouterr().out
    assert "with static and --num-proc 1: under a minute, by 4 problems" in printed


@pytest.mark.slow
def test_the_default_number_of_processes_gives_the_bytes_of_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("rpd_datasets.curation.engines.processes_that_fit", lambda: 2)
    rows = [
        {"problem": f"Problem {n}?", "solutions": [f"{text} ({n})" for text in SOLUTIONS]}
        for n in range(FEW_PROBLEMS)
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    command = ["curate", str(tmp_path / "rows.jsonl"), "--embedder", "static"]
    for name, more in (("default", []), ("one", ["--num-proc", "1"])):
        assert main([*command, "--output", str(tmp_path / name), *more]) == 0
    assert "on 2 processes (--num-proc 1 keeps one)" in capsys.readouterr().err
    for file in (tmp_path / "one").rglob("*.*"):
        assert (
            file.read_bytes()
            == (tmp_path / "default" / file.relative_to(tmp_path / "one")).read_bytes()
        )
