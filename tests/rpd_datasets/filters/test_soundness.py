"""Signs of a failed argument: what the rules find, and how well on solutions read by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.fake_judge import kind_of
from parts.fake_tgi import FakeTGI, Fault
from rpd_datasets.cli import main
from rpd_datasets.config import CurationConfig
from rpd_datasets.filters.pipeline import FilterConfig, filter_problem
from rpd_datasets.filters.soundness import SHOWN, SIGNS, argument_of, signs_of_floundering
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


def by_patterns(solution):
    """The signs by their patterns alone, without a look for words first."""
    spoken = " ".join(argument_of(solution).split())
    matches = {name: re.search(one, spoken, re.IGNORECASE) for name, one in SIGNS.items()}
    return [(name, match.group()[:SHOWN]) for name, match in matches.items() if match]


# What the patterns are made of, in any order, so that all of their branches are met.
PARTS = [part for text in (*FAILED, *SOUND) for part in text.split()] + [
    *("made", "a", "MISTAKE", "errors", "miscalculation", "Misunderstanding", "inconsistency"),
    *("in", "our", "working", "we", "missed", "a step", "made an incorrect assumption", "this"),
    *("result", "is", "wrong", "not correct", "Inconsistent", "doesn't match", "12.", "let's"),
    *("re-evaluate", "REEVALUATE", "reconsider", "reassess", "rethink", "must adjust", "nearest"),
    *("integer", "satisfying", "after manually enumerating", "reasonable guess", "most plausible"),
    *("without further confusion", "further analysis, we find", "is impossible.", "The", "answer"),
    *("this is a contradiction.", "So the", "smallest", "mi\u017ftake"),
]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(" ".join))
def test_looking_for_words_first_changes_nothing(text):
    assert signs_of_floundering(text) == by_patterns(text)


def test_the_filter_is_off_until_asked_for_and_names_the_words():
    problem = Problem("p", (FAILED[0], SOUND[0]))
    config = FilterConfig(min_solutions=1, require_complete=False)
    count = token_counter("estimate")
    assert filter_problem(problem, config, count).kept == (0, 1)
    config = FilterConfig(min_solutions=1, require_complete=False, soundness="rules")
    found = filter_problem(problem, config, count)
    assert (found.kept, found.reasons[0]) == ((1,), "floundering")
    assert "mistake" in found.details[0]


def test_a_judge_must_be_named_and_its_verdicts_looked_up():
    config = FilterConfig(min_solutions=1, require_complete=False, soundness="llm")
    with pytest.raises(InputError, match="asks a chat model, and none is named"):
        CurationConfig(filters=config)
    problem = Problem("p", (SOUND[0], SOUND[1]))
    count = token_counter("estimate")
    with pytest.raises(InputError, match="asks a chat model about each solution"):
        filter_problem(problem, config, count)
    found = filter_problem(
        problem, config, count, judged=lambda text: ("unsound", "why") if "twice" in text else None
    )
    assert (found.kept, found.reasons) == ((0,), ("", "unsound"))


def verdict(body):
    """A judge that takes one word for a failure, and is silent about another."""
    assert kind_of(body) == "judge_sound"
    user = body["messages"][-1]["content"]
    if "twice" in user:
        return "I cannot tell."
    return 'It says "mistake".\n//boxed{1}' if "mistake" in user else "Fine.\n//boxed{2}"


@pytest.mark.slow
def test_a_judge_reads_what_is_left_and_what_failed_goes_with_its_reasons(tmp_path, capsys):
    solutions = [FAILED[0], SOUND[0], SOUND[1], SOUND[2], SOUND[4], SOUND[4], "We stop here and"]
    answered = [f"{text} The answer is $8$." for text in solutions]
    rows = [{"problem": f"Which of {n}?", "solutions": list(answered)} for n in (1, 2)]
    rows[0]["solutions"][-1] = "<think>So we divide by"  # cut off: nobody is asked about it
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeTGI(reply=verdict) as server:
        judged = ["--soundness", "llm", "--judge", f"tgi:{server.url}"]
        judged += ["--store", str(tmp_path / "replies.sqlite"), "--num-solutions", "2"]
        command = ["curate", str(file), *judged, "--num-problems", "2"]

        def planned():
            assert main(["plan", str(file), *judged, "--json"]) == 0
            return json.loads(capsys.readouterr().out)

        plan = planned()
        assert (plan["judge_requests"], plan["judge_requests_missing"]) == (11, 11)
        assert plan["prompt_tokens"] > 11 * 300
        assert server.requests == []
        assert main([*command, "--output", str(tmp_path / "out")]) == 0
        assert len(server.requests) == 11  # a copy is not asked about, nor what was cut off
        said = " ".join(capsys.readouterr().out.split())
        assert "a judge read 11 solutions: the argument of 22.2% has failed, 2 without" in said
        assert planned()["judge_requests_missing"] == 0
        # From the store, and the same bytes.
        assert main([*command, "--output", str(tmp_path / "again")]) == 0
        assert len(server.requests) == 11
    # What was thought before the answer is not judged.
    assert all("reconsider" not in str(received.body) for received in server.requests)
    out, again = tmp_path / "out", tmp_path / "again"
    for name in ("manifest.json", "rejects.jsonl", "README.md"):
        assert (out / name).read_bytes() == (again / name).read_bytes()
    rejects = [json.loads(line) for line in (out / "rejects.jsonl").open()]
    details = {row["reason"]: row["detail"] for row in rejects}
    assert details["unsound"] == 'The judge: It says "mistake".'
    assert details["no_envelope"].startswith("no verdict on its argument: ")
    assert [row["reason"] for row in rejects].count("unsound") == 2
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["outcome"]["soundness"] == {"no_verdict": 2, "sound": 7, "unsound": 2}
    assert list(manifest["judge"]["prompts"]) == ["soundness"]
    assert "gave no verdict on 2 arguments" in (out / "README.md").read_text()


@pytest.mark.slow
def test_a_judge_that_failed_is_asked_again_by_the_next_run(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    solutions = [f"{text} The answer is $8$." for text in SOUND[:3]]
    file.write_text(json.dumps({"problem": "Which?", "solutions": solutions}) + "\n")
    command = ["curate", str(file), "--soundness", "llm", "--num-solutions", "2"]
    command += ["--store", str(tmp_path / "replies.sqlite"), "--output", str(tmp_path / "out")]
    faults = [Fault.status(422)] * 2
    with FakeTGI(reply=lambda body: "//boxed{2}", faults=faults) as server:
        command += ["--judge", f"tgi:{server.url}"]
        assert main(command) == 1
        assert "too_few_solutions" in capsys.readouterr().err
        assert main(command) == 0
        assert len(server.requests) == 5  # the verdict that came was kept


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


@pytest.mark.slow
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
