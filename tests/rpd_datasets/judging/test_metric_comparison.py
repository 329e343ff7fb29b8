"""The bench: figures that can be worked out by hand."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from parts.scripted import SentenceSteps, WordCounts
from rpd_datasets.judging.auroc import (
    Estimate,
    count_wins,
    pooled_auroc,
    within_auroc,
)
from rpd_datasets.judging.metric_comparison import compare_metrics
from rpd_metric.distance.distances import Distance
from rpd_metric.errors import InputError
from rpd_metric.models.chat import ChatReply
from rpd_metric.steps.grouping import StrategyReader

LETTERS = WordCounts("abcdef")


def row(*solutions, a=None, b=None, **more):
    labels = {} if a is None else {"strategy_a": a, "strategy_b": a if b is None else b}
    return {
        "problem": "P",
        "solutions": list(solutions),
        "steps": [text.split(".") for text in solutions],
        **labels,
        **more,
    }


ROWS = [
    row("a.b", "a.bb", "c.d", "c.dd", a=[0, 0, 1, 1]),
    row("a.b", "aa.b", "a.bb", "e.f", a=[0, 0, 0, 1]),
    row("a.b", "a.b", a=[0, 0]),
]


def distance_by(function):
    def of_texts(evidence):
        return function([texts[0] for texts in evidence.texts["text"]])

    return Distance("own", of_texts, ("text",), "of one's own")


@st.composite
def scored_problems(draw):
    values = st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5])
    return draw(
        st.lists(st.lists(st.tuples(values, st.booleans()), max_size=8), min_size=1, max_size=6)
    )


def auroc(pairs):
    labels = [label for _, label in pairs]
    return roc_auc_score(labels, [s for s, _ in pairs]) if len(set(labels)) == 2 else np.nan


@given(problems=scored_problems(), data=st.data())
def test_weighted_counts_give_sklearns_auroc_of_the_resampled_problems(problems, data):
    size = len(problems)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)))
    wins = count_wins([[s for s, _ in p] for p in problems], [[y for _, y in p] for p in problems])
    # The sample that integer weights stand for, written out.
    drawn = [p for p, n in zip(problems, weights, strict=True) for _ in range(n)]
    pooled = auroc([pair for problem in drawn for pair in problem])
    single = [found for problem in drawn if not np.isnan(found := auroc(problem))]
    within = np.mean(single) if single else np.nan
    for measured, expected in ((pooled_auroc, pooled), (within_auroc, within)):
        found = measured(wins, weights[None].astype(float))[0]
        assert found == pytest.approx(expected, nan_ok=True)


def test_a_perfect_distance_wins_everywhere_and_a_constant_one_nowhere():
    strategy = [[0, 0, 1, 1], [0, 0, 0, 1], [0, 0]]
    order = {tuple(r["solutions"]): labels for r, labels in zip(ROWS, strategy, strict=True)}

    def truth(solutions):
        labels = np.array(order[tuple(solutions)])
        return (labels[:, None] != labels).astype(float)

    found = compare_metrics(ROWS, LETTERS, methods=[distance_by(truth)], num_bootstrap=50)
    perfect = next(result for result in found.results if result.distance == "own")
    assert perfect.figures["pooled"] == Estimate(1, 1, 1)
    assert perfect.figures["within"] == Estimate(1, 1, 1)
    assert perfect.figures["success"].value == pytest.approx(2 / 3) == found.possible
    assert perfect.figures["triples"].value == 1
    assert (found.different, found.same, found.disputed, found.num_triples) == (7, 6, 0, 1)

    flat = distance_by(lambda solutions: 1 - np.eye(len(solutions)))
    found = compare_metrics(ROWS, LETTERS, methods=[flat], num_bootstrap=50)
    constant = next(result for result in found.results if result.distance == "own")
    assert constant.figures["pooled"].value == 0.5
    assert constant.figures["success"].value == 0  # the first pair of each problem is the same


def test_an_extractors_steps_stand_beside_the_given_ones():
    found = compare_metrics(
        ROWS, LETTERS, SentenceSteps(), methods=["raw"], num_bootstrap=20
    )  # RPD, the reference, is added
    assert [(r.distance, r.steps) for r in found.results] == [
        ("rpd", "given"),
        ("rpd", "sentences"),
        ("raw", ""),
    ]
    # These sentences are the given steps.
    assert found.results[1].figures == found.results[0].figures
    assert found.results[1].differences["pooled"] == Estimate(0, 0, 0)
    raw, rpd = (found.results[place].figures["within"].value for place in (2, 0))
    assert found.results[2].differences["within"].value == pytest.approx(raw - rpd)


def test_solutions_without_steps_are_counted_and_never_crash():
    broken = row("a.b", "", "c.d", "c.dd", a=[0, 0, 1, 1])
    broken["steps"][1] = []
    found = compare_metrics([broken, *ROWS], LETTERS, num_bootstrap=20)
    counted = {result.distance: result.pairs_without_distance for result in found.results}
    assert counted["rpd"] == counted["strategy"] == counted["raw"] == 3
    assert counted["random"] == 0


def test_labelled_pairs_give_each_method_its_chances():
    found = compare_metrics(ROWS * 3, LETTERS, methods=["rpd", "raw"], num_bootstrap=10)
    curve = found.results[0].calibration
    assert (curve.distance, curve.embedder, curve.steps) == ("rpd", "word counts", "chat")
    assert curve.pairs == found.different + found.same
    assert curve.chance(0.0) < 0.5 < curve.chance(1.0)
    assert 0 <= curve.error <= 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"problem": "P"}], "row 0 has no list of solutions"),
        ([row("a.b")], "no row has two or more solutions"),
        ([row("a", "b", a=[0, 1, 2], problem_id="x7")], "row x7: 3 strategy labels for 2"),
        ([row("a", "b")], "row 0 has no strategy labels: rpd label"),
        ([ROWS[0], row("a", "b", a=[0, 1], steps=None)], "others have not"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(rows, message):
    with pytest.raises(InputError, match=message):
        compare_metrics(rows, LETTERS, methods=["rpd"])


class FirstLetter:
    """A chat model that sorts solutions by the first letter of their steps."""

    model = "first letter"

    async def __call__(self, request):
        shown = re.findall(r"^1\. (\w)", request.messages[1]["content"], re.MULTILINE)
        places = {letter: [n for n, x in enumerate(shown, 1) if x == letter] for letter in shown}
        return ChatReply(json.dumps({"strategies": places}), "stop")


def test_groups_are_measured_as_a_distance_and_by_name_only_where_nobody_sorts():
    reader = StrategyReader(FirstLetter())
    rows = [row("a.b", "a.bb", "c.d", "c.dd", a=[0, 0, 1, 1])] * 3
    found = compare_metrics(rows, LETTERS, reader=reader, num_bootstrap=20)
    figures = {result.distance: result.figures for result in found.results}
    assert figures["groups"]["pooled"] == Estimate(1, 1, 1)
    assert found.reader_auroc == figures["strategy"]["within"].value
    assert not {"growth", "combined"} & figures.keys()
    by_name = compare_metrics(rows, LETTERS, methods=["combined"], num_bootstrap=20)
    assert [result.distance for result in by_name.results] == ["rpd", "combined"]
    assert by_name.reader_auroc is None
    with pytest.raises(InputError, match="needs a chat model"):
        compare_metrics(rows, LETTERS, methods=["groups"])
