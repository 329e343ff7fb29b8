"""The power of a comparison, against the comparison itself."""

import json

import numpy as np
import pytest

from rpd_datasets.cli import main
from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import paired_differences
from rpd_metric.statistics.power import draw_models, gain_deviation, power, problems_for


def test_power_is_how_often_comparisons_find_a_gain():
    problems, samples, gain, pairs = 30, 64, 0.055, 100
    table = np.array([pass_at_k(samples, np.arange(samples + 1), 2**n) for n in range(7)]).T
    rng, found = np.random.default_rng(1), 0
    chances = draw_models(gain, 1.0, rng, (problems, pairs))
    base, better = (rng.binomial(samples, each) for each in chances)
    for pair in range(pairs):
        gaps = paired_differences(table[better[:, pair]], table[base[:, pair]])
        found += min(gap.p for gap in gaps) < 0.05
    # The case of the issue: about a third. Three standard errors of both.
    assert found / pairs == pytest.approx(power(problems, samples, gain, repeats=400), abs=0.16)


def test_samples_do_not_replace_problems_where_gains_vary():
    assert power(30, 64, 0.04, spread=0) > 0.7
    assert power(30, 64, 0.04) < 0.3
    assert power(30, 1024, 0.04, repeats=100) < 0.3
    assert power(500, 16, 0.04) > 0.9
    assert gain_deviation(0.04) == pytest.approx(0.17, abs=0.01)
    base, better = draw_models(0.04, 1.0, np.random.default_rng(0), (1_000, 100))
    assert (better - base).mean() == pytest.approx(0.04, abs=0.003)
    assert problems_for(0.8, 64, 0.04, spread=0) == 40
    assert problems_for(0.8, 4, 0.001) is None
    with pytest.raises(InputError, match=r"a gain between 0 and 0\.5"):
        power(30, 64, 0.6)


def test_plan_says_how_many_problems_it_takes(capsys):
    assert main(["plan", "--evaluation", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = [row for row in told["power"] if (row["problems"], row["samples"]) == (30, 64)]
    assert row["power_same_gain"] > 0.7 > 0.3 > row["power_varying_gain"]
    same, varying = told["needed"]["64"]
    assert varying > 4 * same
    assert main(["plan", "--evaluation", "8"]) == 0
    out = capsys.readouterr().out
    assert "Chance to tell +8 points of pass@1 apart" in out
    assert "gains vary by 17 points" in out
    assert main(["plan", "--evaluation", "60"]) == 1
    assert "--evaluation takes 0 to 50 points, got 60" in capsys.readouterr().err
