"""Calibration: chances that fit their pairs, phrases, and the number of strategies they imply."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from rpd_metric.distance.calibration import (
    TOGETHER,
    Calibration,
    calibration,
    calibration_error,
    fit_curve,
    reading,
)
from rpd_metric.errors import InputError

CURVE = Calibration("own", "minilm", "", intercept=-6.0, slope=12.0, pairs=10)


def labelled_pairs(seed=0, size=2000):
    generator = np.random.default_rng(seed)
    distances = generator.random(size)
    return distances, generator.random(size) < 1 / (1 + np.exp(6 - 12 * distances))


def test_the_fit_is_that_of_logistic_regression():
    distances, different = labelled_pairs()
    known = LogisticRegression(C=1e6).fit(distances[:, None], different)
    found = fit_curve(np.r_[distances, np.nan], np.r_[different, True])
    assert found == pytest.approx((known.intercept_[0], known.coef_[0, 0]), rel=1e-2)


def test_a_fitted_curve_says_what_share_of_new_pairs_differs():
    fitted = Calibration("own", "minilm", "", *fit_curve(*labelled_pairs(0)), 2000)
    distances, different = labelled_pairs(1)
    assert calibration_error([fitted.chance(value) for value in distances], different) < 0.05
    assert calibration_error([0.9 for _ in distances], different) > 0.3


def test_the_effective_number_counts_strategies_by_their_chances():
    apart = np.full((3, 3), 2.0)
    np.fill_diagonal(apart, 0)
    assert CURVE.effective_strategies(apart) == pytest.approx(3)
    assert CURVE.effective_strategies(np.full((3, 3), -2.0)) == pytest.approx(1)
    apart[2] = apart[:, 2] = np.nan
    assert CURVE.effective_strategies(apart) == pytest.approx(2)


@pytest.mark.parametrize("distance", ["combined", "strategy", "rpd"])
def test_the_bundled_encoder_has_curves_that_rise_and_say_their_error(distance):
    curve = calibration(distance, "minilm", chat=True)
    assert curve.chance(0.1) < 0.1 < 0.8 < curve.chance(0.9)
    assert 0 < curve.error < 0.3
    assert calibration(distance, "st:another/encoder", chat=True) is None
    assert calibration(distance, "minilm", chat=True, truncate_dim=64) is None


def test_without_a_chat_model_nothing_is_said_of_methods_alone():
    for distance in ("pieces", "raw", "rpd"):
        assert calibration(distance, "minilm", chat=False) is None
    assert reading(0.4, None, chat=False) == TOGETHER
    assert "not known for this encoder" in reading(0.4, None, chat=True)


def test_what_compares_nothing_has_no_curve_and_a_curve_of_ones_own_replaces_the_packaged(tmp_path):
    assert (
        calibration("llm", "minilm", chat=False) is calibration(None, "minilm", chat=True) is None
    )
    file = tmp_path / "own.json"
    file.write_text(json.dumps([asdict(replace(CURVE, distance="pieces"))]))
    own = calibration("pieces", "minilm", chat=True, path=str(file))
    assert (own.intercept, own.in_words(0.5)) == (-6.0, "0.50: the same method or another")
    assert own.scale().startswith("the chance of another method at a distance of 0.1: 1%, 0.3: 8%")
    for text in ("[1]", "not JSON", '[{"a": 1}]'):
        file.write_text(text)
        with pytest.raises(InputError, match="has no curves"):
            calibration("pieces", "minilm", chat=True, path=str(file))
    with pytest.raises(InputError, match="cannot read the curves"):
        calibration("pieces", "minilm", chat=True, path=str(tmp_path / "gone"))
