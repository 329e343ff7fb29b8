"""What intervals and comparisons mean: known values, the edges, and coverage in simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel

from benchmarks.interval_coverage import (
    EQUAL_MODELS,
    KS,
    POPULATIONS,
    alarms,
    better_by,
    coverage,
    table_alarms,
)
from rpd_metric.errors import InputError
from rpd_metric.statistics import intervals
from rpd_metric.statistics.intervals import (
    mean_band,
    mean_interval,
    paired_differences,
    percentile_ends,
    resample_weights,
)


def error_of(share: float, repeats: int) -> float:
    """Three standard errors of a share in simulation."""
    return 3 * float(np.sqrt(share * (1 - share) / repeats))


@pytest.mark.parametrize("right", [0, 1, 27, 30])
def test_of_yes_or_no_problems_it_is_clopper_and_pearsons(right):
    found = mean_interval([1.0] * right + [0.0] * (30 - right))
    exact = binomtest(right, 30).proportion_ci(0.95, method="exact")
    assert found.value == pytest.approx(right / 30)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.008)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_it_holds_the_figure_lies_inside_0_and_1_and_mirrors(values):
    found = mean_interval(values)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high
    mirrored = mean_interval([1 - value for value in values])
    assert mirrored.low == pytest.approx(1 - found.high, abs=0.02)
    assert mean_interval(values[::-1]) == found


@pytest.mark.parametrize("population", POPULATIONS)
def test_it_covers_the_truth_as_often_as_it_says_for_every_k(population):
    """A few hopeless problems among easy ones included; the page has more of each."""
    shares = coverage(population, problems=30, repeats=100)
    assert shares["here"].min() >= 0.95 - error_of(0.95, 100)
    assert shares["band"] >= 0.95 - error_of(0.95, 100)


def test_a_band_is_wider_than_each_interval_alone():
    values = np.random.default_rng(0).random((30, 3))
    for column, band in zip(values.T, mean_band(values), strict=True):
        alone = mean_interval(column)
        assert band.low < alone.low
        assert band.high > alone.high


@pytest.mark.parametrize("values", [[], [[0.1]], [float("nan")], [1.5]])
def test_an_interval_needs_shares(values):
    with pytest.raises(InputError, match="per_problem"):
        mean_interval(values)


def test_resamples_depend_on_the_seed_and_not_on_the_blocks(monkeypatch):
    values = np.random.default_rng(0).random((50, 2))
    (whole,) = resample_weights(50, 2_000, seed=7)
    before = mean_band(values), paired_differences(values, values[::-1])
    monkeypatch.setattr(intervals, "_BLOCK", 1_000)
    blocks = list(resample_weights(50, 2_000, seed=7))
    assert len(blocks) == 100
    assert np.array_equal(np.concatenate(blocks), whole)
    assert (whole.sum(axis=1) == 50).all()
    assert percentile_ends(np.arange(101.0), 0.9) == (5, 95)
    after = mean_band(values), paired_differences(values, values[::-1])
    assert [found.high for found in after[0]] == pytest.approx([f.high for f in before[0]])
    assert [found.p for found in after[1]] == pytest.approx([f.p for f in before[1]])


def test_of_one_figure_it_is_nearly_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.random((100, 1)), rng.random((100, 1))
    (found,), reference = paired_differences(a, b), ttest_rel(a[:, 0], b[:, 0])
    ends = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue, abs=0.02)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=0.005)
    assert found.value == pytest.approx(a.mean() - b.mean())


def test_models_that_no_problem_tells_apart_may_differ_on_others():
    values = np.random.default_rng(0).random((30, 1))
    (found,) = paired_differences(values, values)
    assert (found.value, found.p) == (0, 1)
    assert found.low == -found.high < 0
    (one,) = paired_differences([[0.2]], [[0.7]])
    assert one.p == 1  # one problem tells nothing
    assert one.low == -1 < 0 < one.high


def test_a_comparison_needs_the_same_problems():
    with pytest.raises(InputError, match="same problems"):
        paired_differences([[0.1], [0.2]], [[0.1]])


@pytest.mark.parametrize("samples", [(64, 64), (4, 64)])
@pytest.mark.parametrize("models", list(EQUAL_MODELS)[:-1])
def test_equal_models_are_rarely_told_apart_by_any_k(models, samples):
    pair, ks = EQUAL_MODELS[models]
    _, here = alarms(pair, ks, problems=30, samples=samples, repeats=400)
    assert here <= 0.05 + error_of(0.05, 400)


def test_a_table_of_equal_models_rarely_says_anything():
    assert table_alarms(problems=30, repeats=200) <= 0.05 + error_of(0.05, 200)


def test_it_finds_what_is_there_more_often_than_holms_method_over_every_k():
    holm, here = alarms(better_by(0.04), KS, problems=30, samples=(64, 64), repeats=300)
    assert here > holm + 0.05
