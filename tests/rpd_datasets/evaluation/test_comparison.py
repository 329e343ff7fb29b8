"""Comparing models: what is said, for the whole table, and what is not compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rpd_datasets.evaluation.comparison import compare, comparison_text, plot
from rpd_datasets.evaluation.results import Results
from rpd_metric.errors import InputError
from rpd_metric.statistics.intervals import Interval

SETTINGS = {"temperature": 0.6, "solver": {"ask": {"template": "p"}}, "scorer": "math"}
CHANCES = np.linspace(0.05, 0.9, 60)
BETTER = np.minimum(CHANCES + 0.1, 1)


def model(name, chances, seed=0, *, drawn=64, benchmark="A"):
    right = np.random.default_rng(seed).binomial(drawn, chances)
    return Results(
        name=name,
        benchmark=benchmark,
        settings=SETTINGS,
        problems=[str(n) for n in range(len(right))],
        of_problems=len(right),
        correct=["1" * n + "0" * (drawn - n) for n in right],
        missing=0,
        runs=1,
        verdicts={},
        finish_reasons={},
        figures={"pass_at_k": {1: Interval(float(right.mean()) / drawn, 0, 1)}, "first_k": {}},
    )


WEAK, STRONG = model("weak", CHANCES), model("strong", BETTER, 1)


def test_a_better_model_is_told_apart_and_an_equal_one_is_not():
    results = [WEAK, model("again", CHANCES, 2), STRONG]
    found = compare(results)
    assert found[0].sentence == "The 60 problems of A cannot tell again from weak."
    assert found[1].sentence.startswith("On the 60 problems of A, strong is better than weak at pa")
    gap = found[1].gaps["pass@1"]
    assert gap.low > 0
    figures = [one.figures["pass_at_k"][1].value for one in (STRONG, WEAK)]
    assert gap.value == pytest.approx(figures[0] - figures[1])
    assert "weak is worse than strong at pass@1" in compare([STRONG, WEAK])[0].sentence
    text = comparison_text(results, found)
    assert found[1].sentence in text
    assert f"| A: strong − weak | pass@1 | {100 * gap.value:.2f} [" in " ".join(text.split())


def test_more_rows_in_a_table_make_it_harder_to_say_anything():
    alone = compare([WEAK, STRONG])[0].gaps["pass@1"].p
    noise = [model(f"equal {n}", CHANCES, 5 + n) for n in range(4)]
    others = [model(name, CHANCES, benchmark="B") for name in ("weak", "strong")]
    table = compare([WEAK, STRONG, *noise, *others])
    assert table[0].gaps["pass@1"].p == pytest.approx(6 * alone)


def test_k_goes_up_to_the_samples_that_every_problem_has():
    few = model("few", CHANCES, drawn=48)
    assert list(compare([WEAK, STRONG])[0].gaps) == [f"pass@{k}" for k in (1, 2, 4, 8, 16, 32, 64)]
    by_k = compare([WEAK, few])[0].gaps
    assert list(by_k)[-1] == "pass@48"
    shares = [np.mean([right / n for n, right in one.counts.values()]) for one in (few, WEAK)]
    assert by_k["pass@1"].value == pytest.approx(shares[0] - shares[1])


def test_fewer_samples_alone_do_not_make_a_model_different():
    """Near the ceiling pass@4 of 4 samples is 0 or 1, that of 64 nearly the same everywhere."""
    alarms = 0
    for seed in range(60):
        chances = np.random.default_rng(seed).beta(8, 0.3, 134)
        found = compare([model("a", chances, seed + 100), model("b", chances, seed + 200, drawn=4)])
        alarms += any(gap.p < 0.05 for gap in found[0].gaps.values())
    assert alarms <= 8  # three standard errors above 5 %; without thinning about 25


def test_the_plot_draws_bands_that_hold_for_all_k_at_once(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure
    kept = []
    save = figure.savefig
    monkeypatch.setattr(figure, "savefig", lambda *a, **k: (kept.append(a[0]), save(*a, **k)))
    results = [WEAK, STRONG]
    (difference,) = compare(results)
    plot(results, [difference], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    drawn = [axes.collections[-1].get_paths()[0].vertices for axes in kept[0].axes]
    of_gaps = {int(name[5:]): gap for name, gap in difference.gaps.items()}
    bands = [STRONG.figures["pass_at_k"], of_gaps]
    for corners, band in zip(drawn, bands, strict=True):
        ends = [(k, 100 * end) for k, gap in band.items() for end in (gap.low, gap.high)]
        assert all(np.isclose(corners, end).all(axis=1).any() for end in ends)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (model("b", CHANCES[:30]), "different problems of A"),
        (model("b", CHANCES, benchmark="B"), "no benchmark has results of two models"),
        (STRONG, "two results of A are called 'strong'"),
    ],
)
def test_what_cannot_be_compared_is_refused(other, says):
    with pytest.raises(InputError, match=says):
        compare([STRONG, other])


@pytest.mark.parametrize("name", ["temperature", "solver", "scorer", "grader"])
def test_other_settings_are_no_comparison_unless_one_says_so(name):
    other = replace(STRONG, settings={**SETTINGS, name: "another"})
    with pytest.raises(InputError, match=rf"with another {name} \(.* and another\)"):
        compare([WEAK, other])
    assert compare([WEAK, other], different_settings=True)
