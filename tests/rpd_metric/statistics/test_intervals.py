"""What the intervals mean: known values, the edges, and coverage in simulation."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from benchmarks.interval_coverage import POPULATIONS, coverage
from rpd_metric.errors import InputError
from rpd_metric.statistics import bootstrap, intervals
from rpd_metric.statistics.bootstrap import percentile_ends, resample_weights
from rpd_metric.statistics.intervals import mean_interval


def test_of_many_yes_or_no_problems_it_is_wilsons() -> None:
    values = (np.arange(2_000) % 5 == 0).astype(float)
    found = mean_interval(values)
    wilson = binomtest(400, 2_000).proportion_ci(0.95, method="wilson")
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(wilson.low, abs=1e-4)
    assert found.high == pytest.approx(wilson.high, abs=1e-4)


def test_nothing_solved_does_not_mean_that_nothing_can_be() -> None:
    none, all_ = mean_interval(np.zeros(240)), mean_interval(np.ones(240))
    assert (none.value, none.low) == (0, 0)
    assert none.high == pytest.approx(0.0159, abs=1e-4)
    assert (all_.value, all_.high) == (1, 1)
    assert all_.low == pytest.approx(1 - none.high)


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


def test_a_bootstrap_does_not_near_the_ceiling() -> None:
    shares = coverage("near the ceiling", problems=30, samples=64, k=16, repeats=300, seed=1)
    assert shares["bootstrap"] < 0.5


@pytest.mark.parametrize("values", [[], [[0.1]], [float("nan")], [1.5], [-0.1]])
def test_an_interval_needs_shares(values: list[float]) -> None:
    with pytest.raises(InputError, match="per_problem"):
        mean_interval(values)


def test_an_interval_needs_a_sensible_level() -> None:
    with pytest.raises(InputError, match="level"):
        mean_interval([0.5], level=95)


def test_resamples_depend_on_the_seed_and_not_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (whole,) = resample_weights(50, 2_000, seed=7)
    monkeypatch.setattr(bootstrap, "_BLOCK", 1_000)
    blocks = list(resample_weights(50, 2_000, seed=7))
    assert len(blocks) == 100
    assert np.array_equal(np.concatenate(blocks), whole)
    assert (whole.sum(axis=1) == 50).all()
    assert percentile_ends(np.arange(101.0), 0.9) == (5, 95)


def test_the_examples_in_the_docstrings_run() -> None:
    outcome = doctest.testmod(intervals)
    assert outcome.attempted > 0
    assert outcome.failed == 0
