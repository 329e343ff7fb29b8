"""The unit that everything after reading works on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.problem import Problem


def test_taking_solutions_keeps_the_lists_beside_them_in_step():
    extra = {
        "correct": [True, False, True],
        "meta": {"solvers": ["a", "b", "c"], "tags": ["sums"]},
        "level": 3,
    }
    taken = Problem("What is 2 + 2?", ("4", "5", "four"), extra, "rows.jsonl:1").take([2, 0])
    assert taken.solutions == ("four", "4")
    assert taken.extra == {
        "correct": [True, True],
        "meta": {"solvers": ["c", "a"], "tags": ["sums"]},
        "level": 3,
    }
    assert (taken.problem, taken.where) == ("What is 2 + 2?", "rows.jsonl:1")


@given(st.text(), st.lists(st.text(), min_size=1, max_size=5))
def test_the_key_depends_on_problem_and_solutions_alone(text, solutions):
    problem = Problem(text, tuple(solutions), {"level": 3}, "rows.jsonl:1")
    assert problem.key == Problem(text, tuple(solutions), {}, "other.jsonl:9").key
    assert problem.key != Problem(text, (*solutions, "one more")).key
    assert problem.key != Problem(text + "!", tuple(solutions)).key


def test_the_key_tells_apart_texts_that_only_join_to_the_same():
    assert Problem("a", ("bc", "d")).key != Problem("a", ("b", "cd")).key
    assert Problem("ab", ("c",)).key != Problem("a", ("bc",)).key
