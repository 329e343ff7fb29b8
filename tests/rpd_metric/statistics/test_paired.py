"""When two models are told apart: known values, and how often equal ones are."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from scipy.stats import ttest_rel

from benchmarks.interval_coverage import false_alarms
from rpd_metric.errors import InputError
from rpd_metric.statistics.intervals import mean_interval
from rpd_metric.statistics.paired import Needed, holm, needed, paired_difference


def test_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(30)
    found, reference = paired_difference(a, b), ttest_rel(a, b)
    ends = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.value == pytest.approx(a.mean() - b.mean())


def test_pairing_sees_what_two_intervals_miss() -> None:
    rng = np.random.default_rng(2)
    hard = rng.random(80) * 0.9
    a, b = hard + 0.02, hard + rng.normal(0, 0.001, 80).clip(0)
    assert mean_interval(a).low < mean_interval(b).high
    assert paired_difference(a, b).p < 0.001
    assert paired_difference(a, b).excludes_zero


def test_models_that_no_problem_tells_apart_may_differ_on_others() -> None:
    values = np.random.default_rng(0).random(30)
    found = paired_difference(values, values)
    assert (found.value, found.p) == (0, 1)
    assert found.low == -found.high < 0
    assert paired_difference([0.2], [0.7]).p == 1  # one problem tells nothing


def test_a_comparison_needs_the_same_problems() -> None:
    with pytest.raises(InputError, match="same problems"):
        paired_difference([0.1, 0.2], [0.1])
    with pytest.raises(InputError, match="level"):
        paired_difference([0.1, 0.2], [0.1, 0.3], level=0)


def test_holm_multiplies_by_what_is_left() -> None:
    assert holm([0.01]) == [0.01]
    assert holm([0.04, 0.01, 0.6, 0.02]) == pytest.approx([0.08, 0.04, 0.6, 0.06])
    assert holm([0.9, 0.9]) == [1, 1]


def test_equal_models_are_rarely_told_apart_by_any_k() -> None:
    """Five k on 30 problems with 64 samples; the page has more."""
    rates = false_alarms(problems=30, samples=64, pairs=600, seed=3)
    error = np.sqrt(0.05 * 0.95 / 600)
    assert rates["here"] <= 0.05 + 3 * error
    # What was done before: any of five bootstrap intervals.
    assert rates["bootstrap"] >= 0.05 + 5 * error


def sampled(chances: np.ndarray, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((len(chances), n)) < chances[:, None]


def test_as_many_problems_as_are_said_to_be_needed_do_show_the_difference() -> None:
    rng = np.random.default_rng(4)
    chances = rng.beta(1, 1, 4_000) * 0.9
    a, b = sampled(chances + 0.03, 16, 1), sampled(chances, 16, 2)
    found = needed(a, b, 1)
    assert found.problems is not None
    assert 100 < found.problems < 400
    seen = [
        paired_difference(a[part].mean(axis=1), b[part].mean(axis=1)).p < 0.05
        for part in (rng.choice(4_000, found.problems, replace=False) for _ in range(200))
    ]
    assert 0.65 < np.mean(seen) < 0.92  # 0.8, and the noise of 200 draws and of the estimate


def test_more_samples_help_where_the_models_differ_alike_everywhere() -> None:
    chances = np.full(200, 0.3)
    few = needed(sampled(chances + 0.06, 4, 5), sampled(chances, 4, 6), 1)
    assert few.samples is not None
    assert 2 <= few.samples <= 32  # (0.25 + 0.23) / (0.06 / 2.8) ** 2 / 200 is 5
    # Half of the problems gain what the other half loses: no number of samples helps.
    rng = np.random.default_rng(7)
    a, b = (sampled(rng.random(60), 16, seed) for seed in (8, 9))
    assert needed(a, b, 1).samples is None


def test_without_a_difference_or_a_sample_to_spare_nothing_is_promised() -> None:
    a = sampled(np.full(30, 0.5), 8, 1)
    assert needed(a, a, 1) == Needed(None, None)
    assert needed(a, sampled(np.full(30, 0.4), 8, 2), 8).samples is None


def test_the_examples_in_the_docstrings_run() -> None:
    outcome = doctest.testmod(paired)
    assert outcome.attempted > 0
    assert outcome.failed == 0
