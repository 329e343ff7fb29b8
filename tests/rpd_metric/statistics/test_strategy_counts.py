"""Counts of strategies: closed forms, all draws, and simulations of what they estimate."""

import itertools

import numpy as np
import pytest

from rpd_metric import (
    coverage_at_n,
    distinct_at_k,
    effective_number,
    rare_advantage,
    strategy_counts,
)
from rpd_metric.errors import InputError
from rpd_metric.statistics.intervals import bootstrap_interval

LABELS = ["a", "a", "a", "b", "b", "c", None]
CHANCES = np.array([0.6, 0.3, 0.1])


def test_coverage_is_the_mean_over_all_draws():
    for n in range(1, len(LABELS) + 1):
        draws = [len(set(draw) - {None}) for draw in itertools.combinations(LABELS, n)]
        assert coverage_at_n(LABELS, n) == pytest.approx(np.mean(draws))
    with pytest.raises(InputError, match="k is above n"):
        coverage_at_n([None, None], 3)


def test_coverage_is_unbiased_for_the_chances_of_the_strategies():
    samples = np.random.default_rng(0).choice(3, size=(4_000, 8), p=CHANCES)
    estimates = [coverage_at_n(sample.tolist(), 4) for sample in samples]
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx((1 - (1 - CHANCES) ** 4).sum(), abs=4 * error)


def test_pairs_tie_coverage_to_the_chance_that_two_samples_differ():
    """Without replacement; the effective number draws with replacement."""
    labels = [label for label in LABELS if label]
    pairs = list(itertools.combinations(labels, 2))
    assert coverage_at_n(labels, 2) == pytest.approx(1 + np.mean([a != b for a, b in pairs]))
    shares = np.array([3, 2, 1]) / 6
    assert effective_number(LABELS) == pytest.approx(1 / (shares**2).sum())
    assert effective_number(["a"] * 5) == 1
    assert effective_number("abcde") == 5


def test_wrong_samples_are_draws_that_show_no_strategy():
    right = [label for label in LABELS if label]
    for k in range(1, 10):
        whole = coverage_at_n([*right, None, None, None], k)
        assert distinct_at_k(right, 9, 6, k) == pytest.approx(whole)
        assert distinct_at_k([], 9, 0, k) == 0
    # Some labels of the right samples, drawn at random, give the same on average.
    some = [distinct_at_k(part, 9, 6, 3) for part in itertools.combinations(right, 4)]
    assert np.mean(some) == pytest.approx(coverage_at_n([*right, None, None, None], 3))
    for bad in ((["a"], 4, 5, 1), (["a"] * 3, 4, 2, 1), (["a"], 4, 1, 5)):
        with pytest.raises(InputError):
            distinct_at_k(*bad)
    with pytest.raises(InputError, match="above n"):
        distinct_at_k(["a"], 4, 3, 3)


def test_figures_are_means_over_the_problems_that_have_enough_samples():
    labels = [["a", "b", "a", "b"], ["a", "a", None], ["a", None, None, None], [None, None]]
    right = [[True] * 4, [True, True, False], [True, True, False, None], [False, False]]
    counts = {count.figure: count for count in strategy_counts(labels, right)}
    assert [*counts] == ["effective_strategies", "coverage@2", *(f"distinct@{k}" for k in (1, 2))]
    assert counts["effective_strategies"].value == pytest.approx((2 + 1 + 1) / 3)
    # Of one right solution two cannot be drawn.
    assert (counts["coverage@2"].value, counts["coverage@2"].problems) == (pytest.approx(4 / 3), 2)
    # A right sample without a label, or an unknown mark: that problem does not count.
    distinct = counts["distinct@2"]
    assert (distinct.value, distinct.problems) == (pytest.approx((5 / 3 + 1 + 0) / 3), 3)
    assert distinct.low < distinct.value < distinct.high
    assert [count.figure[:4] for count in strategy_counts(labels)] == ["effe", "cove"]
    assert strategy_counts([[None], []]) == []
    with pytest.raises(InputError, match="differ in shape"):
        strategy_counts([["a"]], [[True, False]])


def test_rare_strategies_are_compared_with_the_usual_one_of_their_problem():
    labels = [["a", "a", "a", "b"], ["a", "b", "b", None], ["c"] * 4, ["a", "a", "b", "b"]]
    right = [[True, False, False, True], [True] * 4, [True] * 4, [True, True, False, None]]
    advantage = rare_advantage(labels, right)
    assert advantage is not None
    assert (advantage.value, advantage.problems) == (pytest.approx((2 / 3 + 0 - 1) / 3), 3)
    assert advantage.low < advantage.value < advantage.high
    assert rare_advantage([["a", "a"]], [[True, False]]) is None


def test_an_interval_holds_the_mean_of_all_problems_about_as_often_as_it_says():
    """Problems have one to three strategies; what varies between them is resampled."""
    rng = np.random.default_rng(0)
    truth = np.mean([n * (1 - (1 - 1 / n) ** 4) for n in (1, 2, 3)])
    held = 0
    for _ in range(200):
        labels = [rng.integers(0, n, 8).tolist() for n in rng.integers(1, 4, 40)]
        interval = bootstrap_interval([coverage_at_n(row, 4) for row in labels])
        held += interval.low <= truth <= interval.high
    assert held / 200 == pytest.approx(0.95, abs=0.04)
