"""What a run did in plain numbers and in words; every problem and solution is accounted for."""

import html
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rpd_datasets.account import FEW, NO, YES, better_line, outcome_lines
from rpd_datasets.cli import main
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.curated import curate_dataset, load_curated
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.outcome import better_than_random, counts, outcome
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.curation.summary import Choice, ProblemScore, RunSummary, evidence_of
from rpd_datasets.filters.answer_checks import CHECKS
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.problem import Problem
from rpd_metric.distance.distances import DISTANCES, TOGETHER, Distance
from rpd_metric.distance.measured import Calibration, EvidenceTable, Measurement
from rpd_metric.reasons import with_option

MATRIX = [
    [0.0, 0.2, 0.6, None],
    [0.2, 0.0, 0.4, None],
    [0.6, 0.4, 0.0, None],
    [None, None, None, None],
]


def a_run(**changes) -> RunSummary:
    scores = [ProblemScore(f"k{n}", f"r:{n}", 0.5, 0.3, 4, 3, 10.0) for n in range(3)]
    read = {"rows_read": 3, "problems_wanted": 4, "problems_read": 3}
    choices = [Choice(2, (0.6, 0.4)), Choice(2, (0.5, 0.4))]
    drops = Counter({("steps", "no_steps", "solution"): 3, ("filter", "duplicate", "solution"): 1})
    values = {
        "input": read,
        "scores": scores,
        "chosen": [0, 1],
        "choices": choices,
        "drops": drops,
        "candidates": Counter(right=9, wrong=1, not_checked=2, solutions=12),
        "chosen_known": Counter(right=3, wrong=2, solutions=6),
        "unread": ["5 smoots"],
        "steps": Counter(asked=12, accepted=9),
        "refused": ["no_steps: empty"],
        "marked_by": Counter(reference=3),
        "evidence": evidence_of(CurationConfig(), "minilm", "extractive"),
    }
    return RunSummary(**{**values, **changes})


def test_a_choice_is_measured_beside_all_that_could_have_been_chosen():
    marks = [True, None, False, True]
    steps = [["x", "y", "z"], ["x"], ["x", "y", "z", "w", "v"], []]
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [], marks=marks)
    scored = replace(scored, marked_by="reference")
    run = RunSummary()
    run.add_choice(scored, [2, 0], CurationConfig(), ["sums", "sums", "areas", "–"])
    (found,) = run.choices
    # Of the usable three two are drawn: in one of three draws both are sums.
    assert found.labelled == (2, pytest.approx(5 / 3))
    judged = outcome(replace(a_run(), choices=[found]), CurationConfig())["better_than_random"]
    assert judged["measure"] == "strategies named by the input"
    assert (found.num_chosen, found.distance) == (2, (0.6, pytest.approx(0.4)))
    assert [run.chosen_known[name] for name in CHECKS] == [1, 1, 0]
    assert (run.num_selected, run.selected_tokens) == (2, [1, 1])


def test_the_numbers_of_a_run_are_shown_in_lines():
    run = a_run()
    found = outcome(run, CurationConfig())
    sees = found["median"]["sees"]
    assert found["median"] == {
        "of": "rpd",
        "selected_by": "taught",
        "chosen": 0.55,
        "random": 0.4,
        "all_problems": 0.3,
        "means": None,
        "sees": sees,
    }
    assert found["answers"]["chosen"] == {"right": 3, "wrong": 2, "not_checked": 1}
    assert found["solutions_left_out"] == {"duplicate": 1, "no_steps": 3}
    lines = outcome_lines({"counts": counts(run), "outcome": found})
    named = dict(lines)
    assert [name for name, _ in lines[:2]] == ["Answers", "Better than random"]
    assert named["Answers"].startswith("3 right (50.0%), 2 wrong (33.3%), 1 could not be checked")
    assert named["Better than random"].startswith(f"{FEW} (2) for a verdict: mean RPD 0.550 among")
    assert named["Median RPD"] == (
        "0.550 between the chosen solutions of a problem, random 0.400, in all problems 0.300; "
        "selected by `taught`"
    )
    assert named["Distance"].startswith("`taught` measures ")
    # What judges the choice is worth what it was measured to see, no more.
    assert named["RPD"] == f"measures {sees}"
    assert "an AUROC of 0.808 [0.741, 0.869] on 82 natural problems" in sees
    assert (named["Steps"], named["Asked for"]) == ("asked 12, accepted 9", "problems 4")
    warned = [said for name, said in lines if name == "Warning"]
    assert len(warned) == 4
    assert warned[0].endswith("9 of 12 summaries could be used. no_steps: empty")
    assert "wrong more often" in warned[1]
    assert warned[3].startswith('2 of 12 answers could not be checked, e.g. "5 smoots". See')
    assert warned[2] == (
        "only 2 of 3 problems could be chosen; left out, each with its reason in rejects.jsonl: "
        "no_steps 3, duplicate 1 (--no-drop-duplicates)"
    )


def test_ones_own_evidence_is_on_ones_own_card(tmp_path):
    own = EvidenceTable(
        (Measurement("rpd", "st:another", "extractive", "en", 0.7, 0.6, 0.8, "20 problems of x"),),
        (Calibration("rpd", "st:another", "extractive", 50.0, 0.0, 9),),
    )
    (tmp_path / "own.json").write_text(json.dumps(own.as_dict()))
    config = CurationConfig(embedder="st:another", problems="rpd", solutions="rpd")
    for path, words in ((tmp_path / "own.json", "0.700 [0.600, 0.800] on 20"), (None, "not meas")):
        evidence = evidence_of(config, "st:another", "extractive", path)
        found = outcome(a_run(evidence=evidence), config)
        assert words in found["distance"]["sees"]
        # RPD judges what another distance selected, by the same evidence.
        by_pieces = replace(config, problems="pieces", solutions="pieces")
        assert words in outcome(a_run(evidence=evidence), by_pieces)["median"]["sees"]
        assert (found["median"]["means"] == "almost surely another method") == (path is not None)
    # It is about English texts.
    german = outcome(a_run(evidence=evidence, written=Counter(de=9)), config)
    assert (german["median"]["means"], "not measured" in german["distance"]["sees"]) == (None, True)


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
    run = RunSummary(curve=Calibration("pieces", "minilm", "", -6.0, 12.0, 10))
    steps, far = [["x"]] * 4, [[0.0, 2.0], [2.0, 0.0]]
    scored = Scored(steps, MATRIX, 0.5, ["", "", "", "no_steps"], [1] * 4, [])
    chances = [1 / (1 + np.exp(6 - 12 * distance)) for distance in (0.2, 0.6, 0.4)]
    expected = 9 / (3 + 2 * sum(1 - chance for chance in chances))
    assert run.strategies(scored) == pytest.approx(expected, abs=1e-4)
    two = Scored(steps[:2], [[None] * 2] * 2, None, ["", ""], [1] * 2, [], distances=far)
    assert run.strategies(two) == pytest.approx(2, abs=1e-3)
    assert RunSummary().strategies(scored) is None


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
    ("gain", "spread", "problems", "answer"),
    [
        (0.20, 0.05, 30, YES),
        (0.015, 0.01, 300, NO),  # surely larger than nothing, and hardly
        (0.0, 0.01, 300, NO),
        (-0.1, 0.05, 30, NO),
        (0.10, 0.40, 8, FEW),
        (0.20, 0.05, 1, FEW),
    ],
)
def test_a_choice_is_better_where_it_surely_and_clearly_beats_a_draw(
    gain, spread, problems, answer
):
    rng = np.random.default_rng(1)
    drawn = rng.uniform(0.3, 0.4, problems)
    noise = rng.normal(0, spread, problems)
    chosen = np.clip(drawn + gain + noise - noise.mean(), 0, 2)
    found = better_than_random(list(zip(chosen, drawn, strict=True)), "mean RPD")
    assert (found["answer"], found["problems"]) == (answer, problems)
    assert f"mean RPD {chosen.mean():.3f} among the chosen" in better_line(found)
    assert found["low"] - 5e-4 <= (chosen - drawn).mean() <= found["high"] + 5e-4
    if problems == 1:
        assert better_line(found).startswith("too few problems (1) for a verdict: ")


def test_what_selected_does_not_judge_and_nothing_to_compare_is_said():
    config = CurationConfig(problems="rpd", solutions="rpd")
    line = better_line(outcome(a_run(), config)["better_than_random"])
    assert line == "not measured (not independent: `rpd` also selected)"
    assert better_than_random([], "strategies")["answer"] == "not measured"
    assert better_than_random([(None, 0.2)], "mean RPD")["answer"] == "not measured"
    scores = [ProblemScore("k", "r:1", 0.5, 0.3, 20, 3, 10.0)]
    said = outcome(a_run(scores=scores), CurationConfig())["warnings"]
    assert "only 3 of 20 solutions could be used; left out: no_steps 3" in " ".join(said)


class Vowels:
    """The encoder of docs/extending.md: it counts vowels."""

    name = "letters"

    def encode(self, texts):
        return np.array([[text.count(vowel) for vowel in "aeiou"] for text in texts], np.float32)


def length(evidence):
    """How much two solutions differ in length."""
    sizes = np.array([sum(map(len, texts)) for texts in evidence.texts["text"]], dtype=float)
    return 1 - np.minimum.outer(sizes, sizes) / np.maximum.outer(sizes, sizes)


LENGTH = Distance("length", length, ("text",), "the difference in length", "the length of texts")


@pytest.mark.parametrize(
    ("encoder", "distance", "sees"),
    [
        ("letters", "pieces", f"{TOGETHER}; not measured with the encoder letters"),
        ("static", "pieces", f"{TOGETHER}; not measured with the encoder static"),
        ("minilm", "length", "the length of texts; not measured with the encoder minilm"),
        ("minilm", "pieces", f"{TOGETHER}; tells strategies apart with an AUROC of 0.859 [0.801, "),
    ],
)
def test_a_card_claims_what_was_measured_of_this_distance_and_encoder_and_nothing_else(
    encoder, distance, sees, tmp_path, monkeypatch
):
    monkeypatch.setitem(DISTANCES._ours, "length", LENGTH)
    embedder = "minilm" if encoder == "letters" else encoder
    config = CurationConfig(
        num_problems=3,
        num_solutions=2,
        embedder=embedder,
        problems=distance,
        solutions=distance,
    )
    models = load_models(config)
    if encoder == "letters":
        models = replace(models, embedder=Vowels())
    curated = curate_dataset("sample", tmp_path / "out", config, models=models)
    assert curated.manifest["outcome"]["distance"]["sees"].startswith(sees)
    card, page = curated.card.text, curated.report().page.read_text(encoding="utf-8")
    for text in (card, html.unescape(page).replace("\n", " ")):
        assert f"measures {sees}".split(" [")[0] in text.replace("`", "").replace("\\", "")
        # What judges the choice, RPD by the same encoder, has no other claim.
        assert ("AUROC" in text) == ("AUROC" in sees)
    # A warning is the first thing on the card.
    assert ("\n> **word vectors without a language model" in card) == (encoder == "static")


def test_terminal_page_and_report_have_one_median_of_a_folder(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["curate", "sample", "--limit", "8", "--num-problems", "4", "-o", str(out)]) == 0
    curated = load_curated(out)
    (median,) = re.findall(r"Median RPD +(0\.\d+)", printed := capsys.readouterr().out)
    assert float(median) == round(curated.manifest["outcome"]["median"]["chosen"], 3)
    assert main(["report", str(out)]) == 0
    again = capsys.readouterr().out
    page = (out / "report.html").read_text(encoding="utf-8")
    for text in (again, page, curated.card.text):
        found = re.findall(r"(?i)median rpd(?:</dt><dd>| \| | +)(\d\.\d+)", text)
        assert found == [median]
    # All lines are the same, in all three places.
    for name, said in outcome_lines(curated.manifest):
        words = " ".join(f"{name} {said}".split())
        assert words in " ".join(printed.split()), "the terminal"
        assert words in " ".join(again.split())
        assert said in html.unescape(page), "the page"


WAYS = (
    "We factor the sum and read the value off: {}.",
    "Counting every case by hand on a table gives {}.",
    "By symmetry both halves are equal, and together they make {}.",
    "Induction on the number of terms leads to {}.",
)


def row(name: str, *solutions: Any, **more: Any) -> str:
    return json.dumps({"problem": f"How large is {name}?", "solutions": solutions, **more})


def four(n: int) -> list[str]:
    return [way.format(n) for way in WAYS]


DEFECTS = {
    "not JSON": "{",
    "no object": "[1]",
    "no problem": json.dumps({"solutions": four(1)}),
    "a null problem": json.dumps({"problem": None, "solutions": four(1)}),
    "no solutions": row("nothing"),
    "solutions without text": row("air", None, " ", 7),
    "one without text": row("half", *four(2), None),
    "copies": row("two", four(2)[0], four(2)[0]),
    "cut off": row("long", *(f"{one} So it is $\\boxed{{3" for one in four(3))),
    "wrong": row(
        "false", *(f"{one} The answer is {n}." for n, one in enumerate(four(3))), answer=9
    ),
    "one solution": row("one", four(4)[0]),
    "in a benchmark": row("known", *four(5)),
    "two usable": row("few", *four(6)[:2], four(6)[0]),
}


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("problems", ["pieces", "random"])
def test_what_was_read_was_chosen_or_ranked_lower_or_left_out(least, problems, tmp_path):
    file = tmp_path / "rows.jsonl"
    good = [row(f"good {n}", *four(n)) for n in range(5)]
    file.write_text("\n".join([*good, *DEFECTS.values()]) + "\n")
    config = CurationConfig(
        problems=problems,
        num_problems=3,
        num_solutions=3,
        filters=FilterConfig(min_solutions=least),
    )
    known = Contamination({"bench": ["How large is known?"]})
    curated = curate_dataset(file, tmp_path / "out", config, contamination=known)
    counts, outcome = curated.manifest["counts"], curated.manifest["outcome"]
    lines = (curated.folder / "rejects.jsonl").read_text().splitlines()
    rejects = [json.loads(line) for line in lines]
    scores = [json.loads(line) for line in (curated.folder / "scores.jsonl").open()]

    unread = ("read", "group")
    gone = {one["where"] for one in rejects if one["solution_index"] is None}
    lost = {
        one["where"]
        for one in rejects
        if one["solution_index"] is None and one["stage"] not in unread
    }
    read = {one["where"] for one in scores} | lost
    assert counts["problems_read"] == len(read) == 12
    assert counts["problems_chosen"] == 3
    assert counts["problems_left_out"] == len(lost) == 6
    parts = ("problems_chosen", "problems_ranked_lower", "problems_left_out")
    assert counts["problems_read"] == sum(counts[part] for part in parts)
    # Every row was read as a problem, or is on the list.
    assert len(read | gone) == len(good) + len(DEFECTS)

    own = Counter(
        one["where"]
        for one in rejects
        if one["solution_index"] is not None and one["stage"] not in unread
    )
    for score in scores:
        left = score["num_solutions"] - own[score["where"]]
        assert score["num_usable"] == left or (score["where"] in gone and left >= 0)
    assert curated.summary is not None
    for unit in ("problem", "solution"):
        on_file = Counter(
            one["reason"]
            for one in rejects
            if (one["solution_index"] is None) == (unit == "problem")
        )
        assert outcome[f"{unit}s_left_out"] == dict(on_file)
    assert not [said for said in outcome["warnings"] if "could be chosen" in said]
    said = dict(outcome_lines(curated.manifest))["Problems left out"]
    assert "too_few_solutions 5 (--min-solutions)" in said
    assert "contaminated 1 (--decontaminate)" in said


def test_a_reason_names_the_option_that_brings_it_back():
    assert with_option("cut_off", 1000) == "cut_off 1,000 (--no-require-complete)"
    assert with_option("of another package", 2) == "of another package 2"
