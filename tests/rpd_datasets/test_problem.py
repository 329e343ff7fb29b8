"""The unit that everything after reading works on."""

from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.problem import Problem


@given(st.text(), st.lists(st.text(), min_size=1, max_size=5))
def test_the_key_depends_on_problem_and_solutions_alone(text, solutions):
    problem = Problem(text, tuple(solutions), {"level": 3}, "rows.jsonl:1")
    assert problem.key == Problem(text, tuple(solutions), {}, "other.jsonl:9").key
    assert problem.key != Problem(text, (*solutions, "one more")).key
    assert problem.key != Problem(text + "!", tuple(solutions)).key


def test_the_key_tells_apart_texts_that_only_join_to_the_same():
    assert Problem("a", ("bc", "d")).key != Problem("a", ("b", "cd")).key
    assert Problem("ab", ("c",)).key != Problem("a", ("bc",)).key
