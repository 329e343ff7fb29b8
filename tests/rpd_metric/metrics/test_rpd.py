"""The `evaluate` metric: three forms of input, one clear error for anything else."""

import json
from pathlib import Path

import evaluate
import numpy as np
import pytest

import rpd_metric
from rpd_metric.errors import InputError
from rpd_metric.models.spec import load_embedder

EXPAND = ["Expand both products.", "Collect like terms.", "Read off the constant term."]
EXPAND_AGAIN = ["Multiply out the two products.", "Add the like terms.", "Take the constant term."]
SHORTCUT = ["Set the variable to zero.", "Evaluate what remains."]
GROUPS = [[EXPAND, EXPAND_AGAIN, SHORTCUT], [EXPAND, EXPAND]]
TEXT_A = "We expand both products term by term. Then we collect like terms. The constant is 3."
TEXT_B = "Substitute x = 0 into the expression. Every other term vanishes. The value is 3."


@pytest.fixture
def rpd(tmp_path):
    return evaluate.load("rpd", cache_dir=str(tmp_path))


def direct(group):
    embedder = load_embedder("minilm")
    return rpd_metric.rpd_matrix([embedder.encode(steps) for steps in group])


def test_step_lists_give_the_mean_over_problems_of_the_mean_pairwise_distance(rpd):
    result = rpd.compute(predictions=GROUPS)
    matrices = [direct(group) for group in GROUPS]
    assert result["rpd_per_problem"] == pytest.approx(
        [m[np.triu_indices(len(m), 1)].mean() for m in matrices], abs=1e-6
    )
    assert result["rpd"] == pytest.approx(np.mean(result["rpd_per_problem"]))
    assert result["problem_score"][0] == pytest.approx(max(matrices[0].sum(axis=1)) / 2, abs=1e-6)
    assert result["rpd_per_problem"][1] == 0
    assert (result["num_problems"], result["num_solutions"]) == (2, 5)


def test_the_result_is_plain_json_and_evaluate_saves_it(rpd, tmp_path):
    result = rpd.compute(predictions=GROUPS, return_matrices=True)
    assert json.loads(json.dumps(result)) == result
    path = evaluate.save(tmp_path, **result)
    assert json.loads(Path(path).read_text())["rpd"] == result["rpd"]
    assert np.array(result["matrices"][0]) == pytest.approx(direct(GROUPS[0]), abs=1e-6)


def test_ties_first_is_algorithm_3(tmp_path):
    a, b = ["Factor the quadratic.", "Factor it."], ["Factor the quadratic.", "Draw a circle."]
    first = evaluate.load("rpd", ties="first", cache_dir=str(tmp_path))
    assert first.compute(predictions=[[a, b]])["rpd"] != first.compute(predictions=[[b, a]])["rpd"]


def test_solutions_without_steps_are_left_out_and_counted(rpd):
    result = rpd.compute(
        predictions=[[EXPAND, [], SHORTCUT, ["  "]], [EXPAND, []]], return_matrices=True
    )
    assert result["num_unsummarized"] == 3
    assert result["unsummarized_reasons"] == {"no_steps": 3}
    assert result["rpd_per_problem"][0] == pytest.approx(direct([EXPAND, SHORTCUT])[0, 1], abs=1e-6)
    assert result["rpd_per_problem"][1] is None
    assert result["problem_score"][1] is None
    assert result["matrices"][0][1] == [None] * 4


def test_add_and_add_batch_gather_rows_in_order(rpd):
    rpd.add(prediction=GROUPS[0])
    rpd.add_batch(predictions=[GROUPS[1]], references=["a problem"])
    gathered = rpd.compute()
    assert gathered["rpd_per_problem"] == rpd.compute(predictions=GROUPS)["rpd_per_problem"]


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], None, "predictions are empty"),
        (None, None, "predictions are of the type NoneType"),
        ([TEXT_A], None, "flat solution texts need references"),
        ([[TEXT_A, TEXT_B], TEXT_A], ["", ""], r"predictions\[1\] has the form 'pair'"),
        ([[EXPAND], [TEXT_A]], None, r"predictions\[1\] has the form 'solutions'"),
        ([[EXPAND, TEXT_A]], None, r"predictions\[0\] is \[\[.*a row is a list of"),
        ([[EXPAND, ["a", 3]]], None, r"predictions\[0\] is .*a list of lists of steps"),
        ([{"a": 1}], None, r"predictions\[0\] is {"),
        ([[EXPAND]], ["p", "q"], "1 predictions need a list of as many references"),
        ([[EXPAND], [["\ud800"]]], None, "row 1 holds the lone surrogate"),
    ],
)
def test_a_wrong_shape_in_any_row_is_one_clear_error(rpd, predictions, references, message):
    with pytest.raises(InputError, match=message):
        rpd.add_batch(predictions=predictions, references=references)


def test_a_refused_batch_leaves_earlier_rows_untouched(rpd):
    rpd.add_batch(predictions=GROUPS)
    with pytest.raises(InputError, match="earlier ones of the form 'steps'"):
        rpd.add_batch(predictions=[TEXT_A], references=[TEXT_B])
    assert rpd.compute()["num_problems"] == 2
