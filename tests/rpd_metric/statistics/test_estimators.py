"""pass@k: closed forms, simulation, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import (
    cons_at_n,
    first_k_error,
    first_k_per_problem,
    mean_at_n,
    pass_at_k,
    pass_hat_k_per_problem,
    unbiased_per_problem,
)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 300))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_closed_form(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert pass_at_k(n, c, k) == pytest.approx(exact, abs=1e-12)


@given(counts())
def test_it_never_falls_when_k_or_c_grows(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    if k < n:
        assert pass_at_k(n, c, k + 1) >= pass_at_k(n, c, k)
    if c < n:
        assert pass_at_k(n, c + 1, k) >= pass_at_k(n, c, k)


@given(st.lists(counts(), min_size=1, max_size=20))
def test_arrays_give_what_scalars_give(rows: list[tuple[int, int, int]]) -> None:
    n, c, k = (list(column) for column in zip(*rows, strict=True))
    assert np.array_equal(pass_at_k(n, c, k), [pass_at_k(*row) for row in rows])


def test_it_agrees_with_drawing_k_of_n_samples() -> None:
    rng = np.random.default_rng(0)
    n, c, k = 16, 3, 4
    deck = np.arange(n) < c
    hits = np.mean([rng.permutation(deck)[:k].any() for _ in range(20_000)])
    # Four standard errors of 20 000 draws.
    assert pass_at_k(n, c, k) == pytest.approx(hits, abs=4 * math.sqrt(0.25 / 20_000))


def test_it_stays_exact_where_binomials_overflow() -> None:
    assert pass_at_k(10**9, 1, 2) == pytest.approx(2e-9, rel=1e-6)
    assert pass_at_k(10_000, 5_000, 10_000) == 1.0
    assert pass_at_k(10**9, 0, 3) == 0.0


@pytest.mark.parametrize(
    ("n", "c", "k", "says"),
    [
        (4, 1, 5, "k is above n"),
        (4, 5, 1, "c is above n"),
        (4, -1, 1, "c is negative"),
        (4, 1, 0, "k is below 1"),
        (0, 0, 1, "n is below 1"),
        (-2, 0, 1, "n is below 1"),
        (4, 1.0, 2, "c must hold integers"),
        (4, 1, 1.5, "k must hold integers"),
        ("4", 1, 1, "n must hold integers"),
        (True, True, True, "n must hold integers"),
        (4, [0, 1, 5], 1, "c is above n"),
        ([4, 4], [0, 1, 2], 1, "do not broadcast"),
    ],
)
def test_it_refuses_counts_that_make_no_sense(n: object, c: object, k: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        pass_at_k(n, c, k)  # type: ignore[call-overload]


def test_the_unbiased_estimator_pools_the_samples_of_all_runs() -> None:
    correct = [[[1, 0], [0, 0]], [[0, 0], [0, 0]]]
    assert unbiased_per_problem(correct, 2).tolist() == [pass_at_k(4, 1, 2), 0.0]
    assert unbiased_per_problem(correct, 4).tolist() == [1.0, 0.0]


def test_first_k_looks_at_the_first_k_of_each_run_only() -> None:
    correct = np.zeros((3, 4, 16), dtype=bool)
    correct[0, 0, 0] = correct[0, 1, 4] = correct[1, 2, 15] = True
    assert first_k_per_problem(correct, 1).tolist() == [0.25, 0, 0]
    assert first_k_per_problem(correct, 4).tolist() == [0.25, 0, 0]
    assert first_k_per_problem(correct, 16).tolist() == [0.5, 0.25, 0]


def test_first_k_gives_figures_of_the_papers_form() -> None:
    # 134 problems, 4 runs: 282 of the 536 cells solved is the paper's 52.61 %.
    solved = np.zeros(134 * 4, dtype=bool)
    solved[:282] = True
    figure = first_k_per_problem(solved.reshape(134, 4, 1), 1).mean()
    assert round(100 * figure, 2) == 52.61


def test_the_error_over_runs_is_that_of_their_mean() -> None:
    correct = np.zeros((10, 2, 1), dtype=bool)
    correct[:4, 0], correct[:6, 1] = True, True
    assert first_k_error(correct, 1) == pytest.approx(0.1)
    assert first_k_error(correct[:, :1], 1) is None


def test_both_estimators_have_the_same_expectation() -> None:
    rng = np.random.default_rng(1)
    correct = rng.random((400, 4, 8)) < rng.random((400, 1, 1)) ** 3
    for k in (1, 2, 4, 8):
        gap = first_k_per_problem(correct, k) - unbiased_per_problem(correct, k)
        assert abs(gap.mean()) < 0.03


def test_first_k_refuses_more_attempts_than_samples() -> None:
    for k in (0, 3, True, 1.0):
        with pytest.raises(InputError, match="k is"):
            first_k_per_problem([[1, 0]], k)  # type: ignore[arg-type]


def test_mean_at_n_is_the_share_of_right_samples() -> None:
    assert mean_at_n([[1, 0, 0, 0], [1, 1, 1, 1]]).tolist() == [0.25, 1.0]


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
def test_majority_vote_splits_ties_and_ignores_silence(
    correct: list[int], answers: list[str | None], share: float
) -> None:
    assert cons_at_n([correct], [answers]).tolist() == [pytest.approx(share)]


def test_majority_vote_averages_runs() -> None:
    votes = cons_at_n([[[1, 1], [0, 0]]], [[["2", "2"], ["3", "3"]]])
    assert votes.tolist() == [0.5]


def test_majority_vote_needs_an_answer_per_sample() -> None:
    with pytest.raises(InputError, match="one answer per sample"):
        cons_at_n([[1, 0]], [["2"]])
    with pytest.raises(InputError, match="right but its answer is None"):
        cons_at_n([[1, 0]], [[None, "3"]])


@pytest.mark.parametrize("correct", [[[1], [1, 0]], [], [1, 0], [[0.5]], [["yes"]], [[2]]])
def test_samples_must_be_a_full_array_of_truth_values(correct: object) -> None:
    with pytest.raises(InputError, match="correct"):
        mean_at_n(correct)  # type: ignore[arg-type]


def test_pass_hat_k_is_the_share_of_draws_in_which_all_are_right() -> None:
    correct = [[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert pass_hat_k_per_problem(correct, 1).tolist() == mean_at_n(correct).tolist()
    assert pass_hat_k_per_problem(correct, 2).tolist() == [0.5, 1, 0]  # 3 of 6 pairs
    assert pass_hat_k_per_problem(correct, 4).tolist() == [0, 1, 0]


def test_the_known_traps_of_other_estimators() -> None:
    # human-eval#35: nothing right and k above n gave a figure, 0, in the place of an error.
    with pytest.raises(InputError, match="k is above n"):
        pass_at_k(4, 0, 5)
    # lighteval divided by the samples asked for, when fewer had come.
    with pytest.raises(InputError, match="ragged"):
        unbiased_per_problem([[1, 0, 1], [1]], 1)
