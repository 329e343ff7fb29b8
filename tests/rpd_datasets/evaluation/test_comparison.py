"""Comparing models: what is said, for the whole table, and what is not compared."""

from __future__ import annotations

import numpy as np
import pytest

from rpd_datasets.evaluation.comparison import (
    compare,
    comparison_json,
    comparison_text,
)
from rpd_metric.errors import InputError


def counts(chances, drawn=64, seed=0):
    right = np.random.default_rng(seed).binomial(drawn, chances)
    return np.stack([np.full(len(right), drawn), right], axis=1)


CHANCES = np.linspace(0.05, 0.9, 60)
WEAK, STRONG = counts(CHANCES), counts(np.minimum(CHANCES + 0.1, 1), seed=1)


def test_a_better_model_is_told_apart_and_an_equal_one_is_not():
    found = compare({"AIME": {"weak": WEAK, "again": counts(CHANCES, seed=2), "strong": STRONG}})
    said = [difference.sentence for difference in found.differences]
    assert said[0] == "The 60 problems of AIME cannot tell again from weak."
    assert said[1].startswith("On the 60 problems of AIME, strong is better than weak at pass@1")
    gap = found.differences[1].by_k[1]
    assert gap.low > 0
    figures = found.figures["AIME"]
    assert gap.value == pytest.approx(figures["strong"][1].value - figures["weak"][1].value)
    swapped = compare({"AIME": {"strong": STRONG, "weak": WEAK}}).differences[0]
    assert "weak is worse than strong at pass@1" in swapped.sentence
    assert said[1] in comparison_text(found)
    assert comparison_json(found)["differences"][1]["sentence"] == said[1]


def test_more_rows_in_a_table_make_it_harder_to_say_anything():
    alone = compare({"A": {"a": WEAK, "b": STRONG}}).differences[0].by_k[1].p
    noise = {f"equal {n}": counts(CHANCES, seed=5 + n) for n in range(4)}
    table = compare({"A": {"a": WEAK, "b": STRONG, **noise}, "B": {"a": WEAK, "b": WEAK}})
    assert table.differences[0].by_k[1].p == pytest.approx(6 * alone)


def test_k_goes_up_to_the_samples_that_every_problem_has():
    few = counts(CHANCES, drawn=48)
    assert list(compare({"A": {"a": WEAK, "b": WEAK}}).differences[0].by_k) == [
        *(1, 2, 4, 8, 16, 32, 64)
    ]
    by_k = compare({"A": {"a": WEAK, "few": few}}).differences[0].by_k
    assert list(by_k) == [1, 2, 4, 8, 16, 32, 48]
    assert by_k[1].value == pytest.approx((few[:, 1] / 48).mean() - (WEAK[:, 1] / 64).mean())


def test_fewer_samples_alone_do_not_make_a_model_different():
    """Near the ceiling pass@4 of 4 samples is 0 or 1, that of 64 nearly the same everywhere."""
    alarms = 0
    for seed in range(60):
        chances = np.random.default_rng(seed).beta(8, 0.3, 134)
        tables = {"a": counts(chances, seed=seed + 100), "b": counts(chances, 4, seed=seed + 200)}
        gaps = compare({"A": tables}).differences[0].by_k.values()
        alarms += any(gap.p < 0.05 for gap in gaps)
    assert alarms <= 8  # three standard errors above 5 %; without thinning about 25


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"A": {"a": WEAK, "b": WEAK[:30]}}, "b on 30; compare on the same problems"),
        ({"A": {"a": WEAK}, "B": {"b": WEAK}}, "no benchmark has results of two models"),
    ],
)
def test_what_cannot_be_compared_is_refused(table, says):
    with pytest.raises(InputError, match=says):
        compare(table)
