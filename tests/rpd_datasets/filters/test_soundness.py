"""Signs of a failed argument: what the rules find, and how well on solutions read by hand."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.filters.candidates import FilterConfig
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.filters.soundness import SHOWN, SIGNS, WORDS, argument_of, signs_of_floundering
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import token_counter

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


def test_rules_leave_out_what_failed_and_nobody_does_until_asked():
    problem = Problem("p", (FAILED[0], SOUND[0], SOUND[1]))
    count, off = token_counter("estimate"), FilterConfig(min_solutions=1, require_complete=False)
    assert filter_problem(problem, off, count).remaining == (0, 1, 2)
    found = filter_problem(problem, replace(off, soundness="rules"), count)
    assert found.reasons == ("admits_mistake", "", "")
    assert "mistake" in found.details[0]
