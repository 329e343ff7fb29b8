"""What a run did in plain numbers, and the block of words that it ends with."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from parts.kill_loop import write_problems
from rpd_datasets.account import outcome_lines
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.outcome import FEW, GOOD, HARDLY, UNKNOWN, counts, outcome, verdict
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.curation.summary import Choice, ProblemScore, RunSummary, curves
from rpd_datasets.filters.answer_checks import CHECKS
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.distance.calibration import Calibration
from rpd_metric.errors import InputError
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.chat_summarizer import ChatSummarizer

MATRIX = [
    [0.0, 0.2, 0.6, None],
    [0.2, 0.0, 0.4, None],
    [0.6, 0.4, 0.0, None],
    [None, None, None, None],
]


def a_run(**changes) -> RunSummary:
    scores = [ProblemScore(f"k{n}", f"r:{n}", 0.5, 0.3, 4, 3, 10.0) for n in range(3)]
    inputs = [{"rows_read": 3, "problems_wanted": 4, "problems_read": 3}]
    choices = [Choice(2, (0.6, 0.4)), Choice(2, (0.5, 0.4))]
    drops = Counter({("steps", "no_steps", "solution"): 3, ("filter", "duplicate", "solution"): 1})
    values = {
        "inputs": inputs,
        "scores": scores,
        "chosen": [0, 1],
        "choices": choices,
        "drops": drops,
        "candidates": Counter(right=9, wrong=1, not_checked=2, checkable=12),
        "chosen_known": Counter(right=3, wrong=2, checkable=5),
        "unread": ["5 smoots"],
        "steps": Counter(asked=12, accepted=9),
        "refused": ["no_steps: empty"],
        "curves": curves(CurationConfig(), "minilm"),
    }
    return RunSummary(**{**values, **changes})


def test_a_choice_is_measured_beside_all_that_could_have_been_chosen():
    marks = [True, None, False, True]
    steps = [["x", "y", "z"], ["x"], ["x", "y", "z", "w", "v"], []]
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [], marks=marks)
    scored = replace(scored, marked_by="reference")
    run = RunSummary()
    run.add_choice(scored, [2, 0], CurationConfig())
    (found,) = run.choices
    assert (found.num_chosen, found.distance) == (2, (0.6, pytest.approx(0.4)))
    assert [run.chosen_known[name] for name in (*CHECKS, "checkable")] == [1, 1, 0, 2]
    assert (run.num_selected, run.selected_tokens) == (2, [1, 1])


def test_the_numbers_of_a_run_are_shown_in_lines():
    run = a_run()
    found = outcome(run, CurationConfig())
    assert found["median_distance"] == {
        "by": "rpd",
        "selected_by": "taught",
        "chosen": 0.55,
        "random": 0.4,
        "all_problems": 0.3,
        "reading": "a difference in wording and method together",
    }
    assert (found["right"]["chosen"], found["right"]["candidates"]) == (0.6, 0.75)
    assert found["solutions_left_out"] == {"duplicate": 1, "no_steps": 3}
    lines = outcome_lines({"counts": counts(run), "outcome": found})
    assert ("Steps", "asked 12, accepted 9") in lines
    assert ("Wanted", "problems 4") in lines
    assert ("Right", "candidates 75 %, chosen 60 %") in lines
    assert ("Not checked", "candidates 16.7 %, chosen 0 %") in lines
    assert ("Answers", "right 9, wrong 1, not checked 2") in lines
    warned = [said for name, said in lines if name == "Warning"]
    assert len(warned) == 4
    assert warned[0].endswith("9 of 12 summaries could be used. no_steps: empty")
    assert "wrong more often" in warned[1]
    assert warned[3].startswith("2 of 12 answers could not be checked, e.g. 5 smoots. See --answer")
    assert warned[2] == (
        "only 2 of 3 problems could be chosen; left out, each with its reason in rejects.jsonl: "
        "no_steps 3, duplicate 1 (--no-drop-duplicates)"
    )


def test_a_file_of_curves_of_ones_own_takes_the_place_of_the_packaged_ones(tmp_path):
    own = [asdict(Calibration("pieces", "st:another", "", -6.0, 10.0, 99))]
    (tmp_path / "own.json").write_text(json.dumps(own))
    config = CurationConfig(embedder="st:another")
    found = curves(config, "st:another", str(tmp_path / "own.json"))
    assert (found["rpd"], found[""].chance(0.6), found[""].pairs) == (None, 0.5, 99)
    # What the run says in words is by that file, too.
    read = outcome(a_run(curves=found), config)["median_distance"]["reading"]
    assert read == "a difference in wording and method together"
    rpd = Calibration("rpd", "st:another", "extractive", 50.0, 0.0, 9)
    read = outcome(a_run(curves={**found, "rpd": rpd}), config)["median_distance"]["reading"]
    assert read.endswith(": almost surely another method")
    (tmp_path / "bad.json").write_text('[{"a": 1}]')
    for name in ("bad.json", "none.json"):
        with pytest.raises(InputError, match="curves"):
            curves(config, "st:another", str(tmp_path / name))


def test_an_english_encoder_on_another_language_is_said_with_one_that_reads_it():
    def warned(**options):
        config = CurationConfig(**options)
        said = outcome(a_run(written=Counter(en=3, zh=1, program=9)), config)["warnings"]
        return [one for one in said if "multilingual-e5-small" in one]

    (said,) = warned()
    assert said.startswith("minilm reads English, and 1 of 4 solutions")
    assert not warned(embedder="st:intfloat/multilingual-e5-small")
    assert not warned(summarizer="tgi:http://localhost:1")


def test_a_problem_counts_its_pairs_by_the_distance_that_chose():
    run = RunSummary(curves={"": Calibration("pieces", "minilm", "", -6.0, 12.0, 10)})
    steps, far = [["x"]] * 4, [[0.0, 2.0], [2.0, 0.0]]
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [])
    chances = [1 / (1 + np.exp(6 - 12 * distance)) for distance in (0.2, 0.6, 0.4)]
    expected = 9 / (3 + 2 * sum(1 - chance for chance in chances))
    assert run.strategies(scored) == pytest.approx(expected, abs=1e-4)
    two = Scored(steps[:2], [[None] * 2] * 2, None, ["", ""], [1] * 2, [], distances=far)
    assert run.strategies(two) == pytest.approx(2, abs=1e-3)
    assert RunSummary().strategies(scored) is None


def test_card_manifest_and_terminal_carry_the_health_of_a_run(tmp_path: Path) -> None:
    class Small:
        """Gives every second solution the same step three times, at every attempt."""

        model = "small"

        async def __call__(self, request):
            text = request.messages[1]["content"]
            words = sorted(set(text.split()), key=lambda word: (-len(word), word))[:9]
            steps = [" ".join(words[at : at + 3]) for at in (0, 3, 6)]
            if sum(map(ord, text)) % 2:
                steps = [steps[0]] * 3
            return ChatReply(json.dumps({"logical_steps": steps}), "stop")

    config = CurationConfig(
        summarizer="openai:http://unused/v1#small",
        problems="rpd",
        solutions="rpd",
        num_problems=2,
        num_solutions=2,
        filters=FilterConfig(min_solutions=2),
    )
    models = Models(
        ChatSummarizer(Flow(Small())), load_embedder("minilm"), token_counter("estimate")
    )
    curated = curate_dataset(
        write_problems(tmp_path / "rows.jsonl", 8), tmp_path / "out", config, models=models
    )
    steps = curated.manifest["outcome"]["steps"]
    assert curated.manifest["outcome"]["solutions_left_out"].keys() == {"repeated_steps"}
    assert steps["asked"] - steps["accepted"] == steps["asked_again"] > 10
    assert "> **this summarizer is not fit" in str(curated.card)


@pytest.mark.parametrize(
    ("served", "line", "warning"),
    [
        ({}, "", None),
        (
            {("m", "m", "", "api.x.ai"): 4, ("m", "", "", "10.1.2.3"): 1},
            "at a private host (1)",
            None,
        ),
        ({("gpt", "gpt-2026-08", "fp", "node7"): 4}, "gpt-2026-08, version fp, at a private", None),
        ({("/a/m", "/home/ada/n", "", ""): 4}, "n (4)", "m was asked, and n answered"),
        (
            {("m", "m", "a", "h"): 4, ("m", "m", "b", "h"): 2},
            "version b",
            "several versions: m, a, b",
        ),
        ({("m", "m", "a", "h"): 4, ("judge", "judge", "b", "h"): 2}, "judge, version b", None),
    ],
)
def test_who_answered_is_said_and_another_model_than_was_asked_is_one_warning(
    served, line, warning
):
    found = outcome(a_run(served=Counter(served)), CurationConfig())
    said = "".join(text for name, text in outcome_lines({"counts": {}, "outcome": found})[1:-1])
    assert line in said
    assert not {"10.1.2.3", "node7", "/home/ada"} & set(re.split(r"[ ,;()]+", said))
    warnings = [one for one in found["warnings"] if "answered" in one]
    assert len(warnings) == (warning is not None)
    assert warning is None or warning in warnings[0]


def test_steps_that_problems_share_are_counted_and_warned_of():
    problem = Problem("p", ("a", "b"))
    chat = CurationConfig(summarizer="openai:http://unused/v1#m", problems="rpd", solutions="rpd")
    for own, shared, distinct in ((False, 3, 2), (True, 0, 6)):
        run = a_run(scores=[], steps=Counter())
        for number in range(3):
            name = str(number) if own else ""
            steps = [[f"Count {name}", f"Compare {name}"], [f"compare  {name}"]]
            run.add(problem, Scored(steps, [[None] * 2] * 2, None, ["", ""], [1, 1], []))
        assert (run.steps["steps"], run.steps["distinct_steps"]) == (9, distinct)
        for config, warned in ((chat, not own), (CurationConfig(), False)):
            said = "; ".join(outcome(run, config)["warnings"])
            assert (f"{shared} of 3 problems share a step word for word" in said) == warned


@pytest.mark.parametrize(
    ("gain", "spread", "problems", "word"),
    [
        (0.20, 0.05, 30, GOOD),
        (0.015, 0.01, 300, HARDLY),  # surely larger than nothing, and next to nothing
        (0.0, 0.01, 300, HARDLY),
        (-0.1, 0.05, 30, HARDLY),
        (0.10, 0.40, 8, "too few problems to tell"),
        (0.20, 0.05, 1, "too few problems to tell"),
    ],
)
def test_a_choice_is_good_where_it_surely_and_clearly_beats_a_draw(gain, spread, problems, word):
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0.3, 0.4, problems)
    noise = rng.normal(0, spread, problems)
    chosen = np.clip(drawn + gain + noise - noise.mean(), 0, 2)
    found = verdict(list(zip(chosen, drawn, strict=True)), "rpd", usable=9, read=9)
    assert found["word"] == word
    assert f"{chosen.mean():.3f} rpd among the chosen" in found["reason"]
    low, high = map(float, found["reason"].partition("[")[2].rstrip("]").split(", "))
    assert low <= (chosen - drawn).mean() + 5e-4
    assert high >= (chosen - drawn).mean() - 5e-4


def test_warnings_too_few_solutions_and_nothing_to_compare_have_words_of_their_own():
    pairs = [(2.6, 2.0), (2.5, 2.1), (2.8, 2.0)] * 4
    assert verdict(pairs, "strategies", usable=5, read=9)["word"] == GOOD
    warned = verdict(pairs, "strategies", usable=5, read=9, warned=True)
    assert warned["word"] == "good, with warnings"
    few = verdict(pairs, "strategies", usable=4, read=9, left_out="no_steps (5)")
    assert few == {"word": FEW, "reason": "4 of 9 could be used; left out: no_steps (5)"}
    assert verdict([], "rpd", usable=9, read=9)["word"] == UNKNOWN
