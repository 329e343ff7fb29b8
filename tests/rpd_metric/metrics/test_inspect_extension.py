"""What Inspect gets from this package: a scorer, metrics over epochs, models by their specs."""

import math

import pytest

from parts.fake_tgi import FakeTGI

pytest.importorskip("inspect_ai")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model
from inspect_ai.scorer import SampleScore, Score

from rpd_metric.errors import InputError
from rpd_metric.metrics.inspect_extension import pass_at_k, rpd, strategies


def scores(marks: dict[str, str], texts: tuple[str, ...] = ()) -> list[SampleScore]:
    return [
        SampleScore(
            score=Score(value=mark, explanation=(*texts, "x")[n % (len(texts) or 1)]),
            sample_id=name,
        )
        for name, each in marks.items()
        for n, mark in enumerate(each)
    ]


def test_pass_at_k_is_unbiased_and_no_figure_where_epochs_are_missing():
    figures = pass_at_k()(scores({"a": "CIII", "b": "CCCC"}))
    assert figures["pass@1"] == pytest.approx(0.625)
    assert figures["pass@2"] == pytest.approx((0.5 + 1) / 2)
    assert figures["pass@4"] == 1
    assert figures["pass@1_low"] < figures["pass@1"] < figures["pass@1_high"]
    lacking = pass_at_k()(scores({"a": "CII", "b": "CCCC"}))
    assert lacking["missing"] == 1
    assert all(math.isnan(lacking[f"pass@{k}"]) for k in (1, 2, 4))


def test_scores_on_a_scale_of_their_own_need_a_threshold():
    judged = [
        SampleScore(score=Score(value=value), sample_id=name)
        for name, values in {"a": (8, 3), "b": (9, 9)}.items()
        for value in values
    ]
    assert pass_at_k(right_score="8")(judged)["pass@1"] == 0.75
    with pytest.raises(InputError, match=r"\(8, 3, 9\) are neither right or wrong nor shares"):
        pass_at_k()(judged)


def test_strategies_are_counted_by_labels_of_the_scores():
    labelled = [
        SampleScore(score=Score(value=mark, metadata={"strategy": label}), sample_id=name)
        for name in "ab"
        for mark, label in zip("CCIC", ("sums", "areas", "lines", "sums"), strict=True)
    ]
    figures = strategies()(labelled)
    assert figures["effective_strategies"] == pytest.approx(1.8)
    assert figures["coverage@2"] == pytest.approx(5 / 3)
    assert figures["distinct@4"] == figures["distinct@4_high"] == 2
    assert math.isnan(strategies(label="way")(labelled)["effective_strategies"])


def test_rpd_is_of_the_right_solutions_of_each_problem():
    texts = ("Factor the equation and read off both roots.", "Draw the curve and measure it.")
    assert rpd()(scores({"a": "CC"}, texts)) > 0.2
    assert math.isnan(rpd()(scores({"a": "CI", "b": "I"}, texts)))


async def test_a_spec_is_a_model_whose_thoughts_and_seeds_are_kept():
    with FakeTGI(reply=lambda body: f"seed {body['seed']}") as server:
        model = get_model(f"rpd/tgi:{server.url}")
        asked = [ChatMessageUser(content="A number?")]
        output = await model.generate(asked, config=GenerateConfig(seed=7, max_tokens=9))
        assert (output.completion, output.stop_reason) == ("seed 7", "stop")
        assert server.requests[0].body["max_tokens"] == 9
