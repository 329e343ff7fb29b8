"""pass@k: closed forms, simulation, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import cons_at_n, first_k_per_problem, pass_at_k


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 300))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_closed_form(nck):
    n, c, k = nck
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert pass_at_k(n, c, k) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "c", "k", "says"),
    [
        (4, 1, 5, "k is above n"),
        (4, 5, 1, "c is above n"),
        (4, 1, 0, "k is below 1"),
        (0, 0, 1, "n is below 1"),
        (4, 1.0, 2, "c must hold integers"),
        (True, True, True, "n must hold integers"),
        ([4, 4], [0, 1, 2], 1, "do not broadcast"),
    ],
)
def test_it_refuses_counts_that_make_no_sense(n, c, k, says):
    with pytest.raises(InputError, match=says):
        pass_at_k(n, c, k)  # type: ignore[call-overload]


def test_first_k_looks_at_the_first_k_of_each_run_only():
    correct = np.zeros((3, 4, 16), dtype=bool)
    correct[0, 0, 0] = correct[0, 1, 4] = correct[1, 2, 15] = True
    assert first_k_per_problem(correct, 1).tolist() == [0.25, 0, 0]
    assert first_k_per_problem(correct, 4).tolist() == [0.25, 0, 0]
    assert first_k_per_problem(correct, 16).tolist() == [0.5, 0.25, 0]


@pytest.mark.parametrize(
    ("correct", "answers", "share"),
    [
        ([1, 1, 0], ["2", "2", "3"], 1.0),
        ([1, 0, 0], ["2", "3", "3"], 0.0),
        ([1, 0, 0], ["2", "3", "4"], 1 / 3),
        ([1, 0, 0], ["2", None, None], 1.0),
        ([0, 0, 0], [None, None, None], 0.0),
        ([0, 0, 0], ["1", "2", None], 0.0),
        ([1, 1, 0, 0, 0], ["1/2", "0.5", "3", "3", "4"], 0.5),
    ],
)
def test_majority_vote_splits_ties_and_ignores_silence(correct, answers, share):
    assert cons_at_n([correct], [answers]).tolist() == [pytest.approx(share)]


@pytest.mark.parametrize("correct", [[[1], [1, 0]], [], [1, 0], [[0.5]], [["yes"]], [[2]]])
def test_samples_must_be_a_full_array_of_truth_values(correct):
    with pytest.raises(InputError, match="correct"):
        first_k_per_problem(correct, 1)  # type: ignore[arg-type]
