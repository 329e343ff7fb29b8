"""Calibration: chances that fit their pairs, phrases, and the number of strategies they imply."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from rpd_metric.distance.distances import DISTANCES
from rpd_metric.distance.measured import (
    CHAT,
    Calibration,
    EvidenceTable,
    Measurement,
    calibration_error,
    fit_curve,
    read_evidence,
)
from rpd_metric.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
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
    table = read_evidence()
    curve = table.about([distance], "minilm", CHAT).curve(distance, "en")
    assert curve.chance(0.1) < 0.1 < 0.8 < curve.chance(0.9)
    assert 0 < curve.error < 0.3
    for made in (("st:another/encoder", CHAT), ("static", CHAT)):
        assert table.about([distance], *made) == EvidenceTable((), (), *made)
    assert table.about([distance], "minilm", "extractive").curves == ()


def test_a_table_of_ones_own_is_above_the_packaged_and_must_be_one(tmp_path):
    figures = Measurement("pieces", "minilm", "", "en", 0.6, 0.5, 0.7, "9 problems of mine")
    file = tmp_path / "own.json"
    file.write_text(json.dumps(EvidenceTable((figures,), (CURVE,)).as_dict()))
    own = read_evidence(file)
    assert (own.measured[0], own.curve("own")) == (figures, CURVE)
    assert "0.600 [0.500, 0.700] on 9" in own.about(["pieces"], "minilm", "").describe(
        "pieces", "en"
    )
    assert CURVE.phrase(0.5) == "the same method or another"
    assert CURVE.scale().startswith(
        "the chance of another method at a distance of 0.1: 1%, 0.3: 8%"
    )
    for text in ("[1]", "not JSON", '{"measured": [{"a": 1}], "curves": []}', "{}"):
        file.write_text(text)
        with pytest.raises(InputError, match="has no evidence; rpd compare-metrics"):
            read_evidence(file)
    with pytest.raises(InputError, match="cannot read the evidence"):
        read_evidence(tmp_path / "gone")


def test_figures_count_for_the_texts_that_they_were_measured_on():
    table = read_evidence().about(["pieces", "strategy"], "minilm", "sentences")
    assert "0.859" in table.describe("pieces", "en")
    assert "0.552 [0.483, 0.619] on 48 problems whose wording misleads" in table.describe(
        "pieces", "en"
    )
    assert "0.457" in table.describe("pieces", "program")
    assert table.describe("pieces", "de").endswith("not measured on texts in 'de'")
    assert table.describe("strategy", "en").endswith(
        "not measured with the encoder minilm and with steps by sentences"
    )


def test_every_distance_says_what_it_sees():
    said = {name: distance.measures(chat=False) for name, distance in DISTANCES.items()}
    assert "what its author does not say" not in said.values()
    assert said["rpd"] == said["pieces"] == "wording and method together"
    assert DISTANCES["rpd"].measures(chat=True) != said["rpd"]


@pytest.mark.parametrize("page", ["README.md", "docs/distances.md"])
def test_the_tables_of_the_docs_are_rows_of_the_table_of_evidence(page):
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    figures = re.compile(r"(\d\.\d{3})\**(?: \[(\d\.\d{3}), (\d\.\d{3})\])?")
    start = next(n for n, line in enumerate(lines) if "misleads" in line and line.startswith("|"))
    known = {(row.auroc, row.low, row.high) for row in read_evidence().measured}
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :]))
    assert len(rows) >= 5
    for line in rows:
        cells = [cell for cell in map(figures.search, line.split("|")) if cell]
        assert len(cells) == 3
        for figure, low, high in (cell.groups() for cell in cells):
            assert (float(figure), float(low or figure), float(high or figure)) in known, line
