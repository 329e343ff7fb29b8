"""What intervals and comparisons mean: known values, the edges, and coverage in simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel

from benchmarks.interval_coverage import POPULATIONS, coverage, false_alarms
from rpd_metric.errors import InputError
from rpd_metric.statistics import intervals
from rpd_metric.statistics.intervals import (
    mean_interval,
    paired_difference,
    percentile_ends,
    resample_weights,
)


def test_of_many_yes_or_no_problems_it_is_wilsons() -> None:
    values = (np.arange(2_000) % 5 == 0).astype(float)
    found = mean_interval(values)
    wilson = binomtest(400, 2_000).proportion_ci(0.95, method="wilson")
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(wilson.low, abs=1e-4)
    assert found.high == pytest.approx(wilson.high, abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_it_holds_the_figure_lies_inside_0_and_1_and_mirrors(values: list[float]) -> None:
    found = mean_interval(values)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    mirrored = mean_interval([1 - value for value in values])
    assert mirrored.low == pytest.approx(1 - found.high, abs=1e-9)
    assert mean_interval(values, level=0.5).high <= found.high


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("k", [1, 16])
def test_it_covers_the_truth_about_as_often_as_it_says(population: str, k: int) -> None:
    """Six kinds of benchmark, the edges among them; the page has more of each."""
    shares = coverage(population, problems=30, samples=64, k=k, repeats=300, seed=1)
    # Three standard errors of 300 trials below 95 %.
    assert shares["here"] >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 300)


@pytest.mark.parametrize("values", [[], [[0.1]], [float("nan")], [1.5]])
def test_an_interval_needs_shares(values: list[float]) -> None:
    with pytest.raises(InputError, match="per_problem"):
        mean_interval(values)


def test_resamples_depend_on_the_seed_and_not_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (whole,) = resample_weights(50, 2_000, seed=7)
    monkeypatch.setattr(intervals, "_BLOCK", 1_000)
    blocks = list(resample_weights(50, 2_000, seed=7))
    assert len(blocks) == 100
    assert np.array_equal(np.concatenate(blocks), whole)
    assert (whole.sum(axis=1) == 50).all()
    assert percentile_ends(np.arange(101.0), 0.9) == (5, 95)


def test_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(30), rng.random(30)
    found, reference = paired_difference(a, b), ttest_rel(a, b)
    ends = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.value == pytest.approx(a.mean() - b.mean())


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


def test_equal_models_are_rarely_told_apart_by_any_k() -> None:
    """Five k on 30 problems with 64 samples; the page has more."""
    rates = false_alarms(problems=30, samples=64, pairs=600, seed=3)
    error = np.sqrt(0.05 * 0.95 / 600)
    assert rates["here"] <= 0.05 + 3 * error
    # What was done before: any of five bootstrap intervals.
    assert rates["bootstrap"] >= 0.05 + 5 * error
