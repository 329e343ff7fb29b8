"""Signs of a failed argument: what the rules find, and how well on solutions read by hand."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.fake_judge import kind_of
from parts.fake_tgi import FakeTGI, Fault
from parts.rows import read_lines, write_rows
from rpd_datasets.cli import main
from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.filters.soundness import SHOWN, SIGNS, WORDS, argument_of, signs_of_floundering
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError

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


def test_words_that_admit_a_failure_are_signs_and_ruled_out_cases_or_thoughts_none():
    assert all(map(signs_of_floundering, FAILED))
    assert not any(map(signs_of_floundering, SOUND))


def by_patterns(solution):
    """The signs by their patterns alone, without a look for words first."""
    spoken = " ".join(argument_of(solution).split())
    matches = {name: re.search(sign, spoken, re.IGNORECASE) for name, sign in SIGNS.items()}
    return [(name, match.group()[:SHOWN]) for name, match in matches.items() if match]


# What the patterns are made of, in any order, so that all of their branches are met.
PARTS = [
    *re.findall(r"[\w']{2,}", " ".join(SIGNS.values())),
    *(words for each in WORDS.values() for words in each),
    *" ".join((*FAILED, *SOUND)).split(),
    *("this result is wrong", "WRONG", "12.", "REEVALUATE", "mi\u017ftake"),
]


@given(st.lists(st.sampled_from(PARTS), max_size=14).map(" ".join))
def test_looking_for_words_first_changes_nothing(text):
    assert signs_of_floundering(text) == by_patterns(text)


def test_rules_or_a_judge_leave_out_what_failed_and_nobody_does_until_asked():
    problem = Problem("p", (FAILED[0], SOUND[0], SOUND[1]))
    count = token_counter("estimate")
    off, rules, llm = (
        FilterConfig(min_solutions=1, require_complete=False, soundness=rule)
        for rule in ("off", "rules", "llm")
    )
    assert filter_problem(problem, off, count).remaining == (0, 1, 2)
    found = filter_problem(problem, rules, count)
    assert found.reasons == ("admits_mistake", "", "")
    assert "mistake" in found.details[0]
    with pytest.raises(InputError, match="asks a chat model about each solution"):
        filter_problem(problem, llm, count)

    def judged(text):
        return ("unsound", "why") if "twice" in text else None

    assert filter_problem(problem, llm, count, unsound=judged).reasons == ("", "", "unsound")


def verdict(body):
    """A judge that takes one word for a failure, and is silent about another."""
    assert kind_of(body) == "judge_sound"
    user = body["messages"][-1]["content"]
    if "twice" in user:
        return "I cannot tell."
    return 'It says "mistake".\n//boxed{1}' if "mistake" in user else "Fine.\n//boxed{2}"


@pytest.mark.slow
def test_a_judge_reads_what_is_left_and_what_failed_goes_with_its_reasons(tmp_path, capsys):
    solutions = [FAILED[0], SOUND[0], SOUND[1], SOUND[2], SOUND[4], SOUND[4]]
    answered = [f"{text} The answer is $8$." for text in solutions]
    cut_off = "<think>So we divide by"  # nobody is asked about it, nor about a copy
    rows = [{"problem": f"Which of {n}?", "solutions": [*answered, cut_off]} for n in (1, 2)]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    command = [str(file), "--soundness", "llm", "--num-solutions", "2"]
    command += ["--store", str(tmp_path / "replies.sqlite")]
    out = tmp_path / "out"
    # A request that failed is made again by the next run; what was answered comes from the store.
    with FakeTGI(reply=verdict, faults=[Fault.status(422)]) as server:
        command += ["--judge", f"tgi:{server.url}"]
        assert main(["plan", *command, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert (plan["judge_requests"], plan["judge_requests_missing"]) == (10, 10)
        assert server.requests == []
        for requests in (10, 11, 11):
            options = ["--num-problems", "2", "--output", str(out)]
            assert main(["curate", *command, *options, "--overwrite"]) == 0
            assert len(server.requests) == requests
    # What was thought before the answer is not judged.
    assert all("reconsider" not in str(received.body) for received in server.requests)
    details = {row["reason"]: row["detail"] for row in read_lines(out / "rejects.jsonl")}
    assert details["unsound"] == 'The judge: It says "mistake".'
    assert details["no_envelope"].startswith("no verdict on its argument: ")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["outcome"]["soundness"] == {"no_verdict": 2, "sound": 6, "unsound": 2}
