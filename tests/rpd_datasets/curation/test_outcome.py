"""The block that a run ends with: its numbers, and what it says of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.outcome import (
    count_marks,
    effective_number,
    measure_choice,
    outcome,
    outcome_lines,
)
from rpd_datasets.curation.run_summary import Choice, InputInfo, ProblemScore, RunSummary
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.curation.strategies import count_strategies, curve_of, own_curves
from rpd_metric.distance.calibration import Calibration
from rpd_metric.errors import InputError

MATRIX = [
    [0.0, 0.2, 0.6, None],
    [0.2, 0.0, 0.4, None],
    [0.6, 0.4, 0.0, None],
    [None, None, None, None],
]
NAMES = ["Difference", "Right answers", "Left out", "Steps", "Next"]


def a_run(**changes) -> RunSummary:
    scores = [ProblemScore(f"k{n}", f"r:{n}", 0.5, 0.3, 4, 3, 10.0) for n in range(3)]
    inputs = [InputInfo("rows", "grouped", "f", 3, 3, 2, 2)]
    choices = [Choice(2, 0.6, 0.4, 1, 2, 4.0), Choice(2, 0.5, 0.4, 2, 2, 3.0)]
    drops = Counter({("steps", "no_steps", "solution"): 3, ("filter", "duplicate", "solution"): 1})
    values = {
        "inputs": inputs,
        "scores": scores,
        "chosen": [0, 1],
        "choices": choices,
        "drops": drops,
        "candidates_right": 9,
        "candidates_marked": 12,
    }
    return RunSummary(**{"embedder": "minilm", **values, **changes})


def said(run: RunSummary, config: CurationConfig | None = None) -> dict[str, str]:
    lines = outcome_lines(outcome(run, config or CurationConfig()), "extractive")
    assert [name for name, _ in lines] == NAMES
    return dict(lines)


def test_a_choice_is_measured_beside_all_that_could_have_been_chosen():
    marks = [True, None, False, True]
    steps = [["x", "y", "z"], ["x"], ["x", "y", "z", "w", "v"], []]
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [], marks=marks)
    found = measure_choice(scored, [2, 0], CurationConfig())
    assert (found.chosen, found.num_chosen, found.steps_per_solution) == (0.6, 2, 4.0)
    assert found.random == pytest.approx(0.4)
    assert (found.right, found.marked) == (1, 2)
    assert count_marks(marks) == (2, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 16])
def test_the_effective_number_lies_between_one_and_all(size):
    assert effective_number(0.0, size) == 1
    assert effective_number(1.0, size) == pytest.approx(size)
    assert effective_number(1.7, size) == pytest.approx(size)  # a cosine distance may exceed 1


def test_the_lines_hold_the_numbers():
    lines = said(a_run())
    assert "median RPD 0.550 among the chosen, 0.400 among as many at random" in lines["Difference"]
    assert "0.300 over all problems" in lines["Difference"]
    assert lines["Difference"].endswith("By labelled pairs 0.55: the same method or another")
    assert lines["Right answers"].startswith("75.0% of the chosen, 75.0% of all candidates")
    assert lines["Left out"] == "4 solutions (3 no steps, 1 duplicate)"
    assert lines["Steps"] == "extractive gave 9 of 12 solutions (75.0%) steps, 3.5 each (median)"
    assert "no steps" in lines["Next"]


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"candidates_right": 12}, "wrong more often"),
        ({"drops": Counter(), "choices": [Choice(2, 0.3, 0.4)]}, "no more than a random one"),
        ({"drops": Counter()}, "side by side"),
        ({"drops": Counter(), "chosen": [0]}, "only 1 of the 2 problems"),
    ],
)
def test_the_last_line_says_where_to_look(changes, advice):
    assert advice in said(a_run(**changes))["Next"]


def test_what_cannot_be_known_is_said_to_be_unknown():
    config = CurationConfig(problems="random", solutions="random")
    run = a_run(candidates_marked=0, choices=[Choice(2, None, None)], drops=Counter())
    lines = said(run, config)
    assert lines["Right answers"] == (
        "not known: the input has neither marks nor reference answers"
    )
    assert lines["Difference"].startswith("not measured")
    assert lines["Steps"] == "none were needed"
    assert lines["Left out"] == "nothing"


def test_strategies_are_counted_where_labelled_pairs_of_the_encoder_are_known():
    curve = Calibration("pieces", "minilm", "", intercept=-6.0, slope=12.0, pairs=4500)
    scores = [
        ProblemScore(f"k{n}", f"r:{n}", 0.5, 0.3, 4, 3, 10.0, strategies=number)
        for n, number in enumerate((1.0, 1.0, 1.9, None))
    ]
    choices = [Choice(2, 0.6, 0.4, strategies=1.9), Choice(1, None, 0.4, strategies=1.0)]
    run = a_run(scores=scores, choices=choices, calibration=curve)
    assert outcome(run, CurationConfig())["strategies"] == {
        "distance": "pieces",
        "embedder": "minilm",
        "labelled_pairs": 4500,
        "candidates": 1.0,
        "middle_half": [1.0, 1.45],
        "chosen": 1.9,
    }
    line = said(run)["Difference"]
    assert "1.00 among a problem's candidates (median; half of the problems 1.00 to 1.45)" in line
    assert "1.90 among the chosen, by chances from 4,500 labelled pairs" in line
    assert "valid for `pieces` with the encoder minilm only" in line


def test_with_another_encoder_no_strategies_are_counted():
    config = CurationConfig(embedder="st:another")
    assert curve_of("pieces", CurationConfig(), "minilm") is not None
    assert curve_of("pieces", config, "st:another") is None
    assert curve_of("pieces", replace(config, truncate_dim=64), "minilm") is None
    run = a_run(embedder="st:another")
    assert outcome(run, config)["strategies"] is None
    line = said(run, config)["Difference"]
    assert "effective number of strategies not known" in line
    assert "compare-metrics --calibrate" in line


def test_a_file_of_curves_of_ones_own_takes_the_place_of_the_packaged_ones(tmp_path):
    own = [asdict(Calibration("pieces", "st:another", "", -6.0, 10.0, 99))]
    (tmp_path / "own.json").write_text(json.dumps(own))
    config = CurationConfig(embedder="st:another")
    curve = curve_of("pieces", config, "st:another", str(tmp_path / "own.json"))
    assert curve is not None
    assert (curve.chance(0.6), curve.pairs) == (0.5, 99)
    # What the run says in words is by that file, too.
    found = own_curves(config, "st:another", str(tmp_path / "own.json"))
    assert found == (curve,)
    assert own_curves(config, "st:another", None) is None
    rpd = Calibration("rpd", "st:another", "extractive", 50.0, 0.0, 9)
    read = outcome(a_run(own_curves=(*found, rpd)), config)["reading"]
    assert read.endswith(": almost surely another method")
    assert outcome(a_run(embedder="minilm", own_curves=found), config)["reading"] is None
    (tmp_path / "bad.json").write_text('[{"a": 1}]')
    for name in ("bad.json", "none.json"):
        with pytest.raises(InputError, match="curves"):
            curve_of("pieces", config, "st:another", str(tmp_path / name))


def test_a_problem_counts_its_pairs_by_their_chances():
    curve = Calibration("pieces", "minilm", "", -6.0, 12.0, 10)
    steps = [["x"]] * 4
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [])
    chances = [1 / (1 + np.exp(6 - 12 * distance)) for distance in (0.2, 0.6, 0.4)]
    expected = 9 / (3 + 2 * sum(1 - chance for chance in chances))
    assert count_strategies(scored, curve) == pytest.approx(expected, abs=1e-4)
    # Another distance that chose is the one that counts.
    far = [[0.0, 2.0], [2.0, 0.0]]
    two = Scored(steps[:2], [[None] * 2] * 2, None, ["", ""], [1] * 2, [], distances=far)
    assert count_strategies(two, curve) == pytest.approx(2, abs=1e-3)
    assert count_strategies(scored, None) is None
    assert count_strategies(scored, curve, among=[0]) == 1
    assert count_strategies(scored, curve, among=[3]) is None
