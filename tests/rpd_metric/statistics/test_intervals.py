"""What the intervals mean, and when two models are told apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rpd_metric.errors import InputError
from rpd_metric.statistics import bootstrap
from rpd_metric.statistics.intervals import bootstrap_interval, paired_difference


def test_the_interval_is_the_normal_one_for_many_problems() -> None:
    values = (np.arange(2_000) % 5 == 0).astype(float)
    interval = bootstrap_interval(values, seed=3)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert interval.value == pytest.approx(0.2)
    assert interval.low == pytest.approx(0.2 - half, abs=1.5e-3)
    assert interval.high == pytest.approx(0.2 + half, abs=1.5e-3)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(300):
        interval = bootstrap_interval(rng.random(60), resamples=600, seed=trial)
        covered += interval.low <= 0.5 <= interval.high
    assert 0.90 <= covered / 300 <= 0.99


def test_the_same_seed_gives_the_same_interval_and_blocks_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(0).random(50)
    whole = bootstrap_interval(values, resamples=2_000, seed=7)
    monkeypatch.setattr(bootstrap, "_BLOCK", 1_000)
    assert bootstrap_interval(values, resamples=2_000, seed=7) == whole
    assert bootstrap_interval(values, resamples=2_000, seed=8) != whole


def test_pairing_sees_what_two_intervals_miss() -> None:
    rng = np.random.default_rng(2)
    hard = rng.random(80)
    a, b = hard + 0.02, hard + rng.normal(0, 0.005, 80)
    apart = paired_difference(a, b)
    assert bootstrap_interval(a).low < bootstrap_interval(b).high
    assert apart.excludes_zero
    assert apart.value == pytest.approx(0.02, abs=0.005)


def test_equal_models_are_not_told_apart() -> None:
    values = np.random.default_rng(0).random(30)
    difference = paired_difference(values, values)
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)
    assert not difference.excludes_zero


def test_a_comparison_needs_the_same_problems() -> None:
    with pytest.raises(InputError, match="same problems"):
        paired_difference([0.1, 0.2], [0.1])


@pytest.mark.parametrize("values", [[], [[0.1]], [float("nan")]])
def test_an_interval_needs_finite_values(values: list[float]) -> None:
    with pytest.raises(InputError, match="per_problem"):
        bootstrap_interval(values)


def test_an_interval_needs_a_sensible_level_and_size() -> None:
    with pytest.raises(InputError, match="level"):
        bootstrap_interval([0.5], level=95)
    with pytest.raises(InputError, match="resamples"):
        bootstrap_interval([0.5], resamples=0)
