"""`evaluate.load("pass_at_k")`: pass@k with intervals, from verdicts or from texts."""

import evaluate
import pytest

from rpd_metric.errors import InputError


@pytest.fixture(scope="module")
def pass_at_k():
    return evaluate.load("pass_at_k")


def test_texts_are_graded_against_references_and_verdicts_counted_apart(pass_at_k):
    results = pass_at_k.compute(
        predictions=[[r"\boxed{1/2}", "I give up."], [r"\boxed{3}", r"\boxed{025}"]],
        references=["0.5", "25"],
    )
    assert results["pass@1"] == 0.5
    assert results["verdicts"] == {"correct": 2, "no_answer": 1, "wrong": 1}
    marks = pass_at_k.compute(predictions=[[True, False, 0, 0], [0, 0, 0, 0]], k=2)
    assert (marks["pass@2"], marks["mean@n"], marks["verdicts"]) == (0.25, 0.125, {})


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[1, 0], [1]], {}, "every one needs the same number"),
        ([[1, 0]], {"k": 3}, "k is above n"),
        ([["a text"]], {}, "need a reference answer"),
        ([[0.5]], {}, "must hold verdicts"),
        ([[1], ["a text"]], {"references": ["1", "2"]}, "use one form"),
        ([], {}, "predictions are missing"),
    ],
)
def test_what_cannot_be_estimated_is_refused(rows, options, message):
    fresh = evaluate.load("pass_at_k")
    with pytest.raises(InputError, match=message):
        fresh.compute(predictions=rows, **options)
