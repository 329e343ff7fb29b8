"""The `evaluate` metric: three forms of input, one clear error for anything else."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import evaluate
import numpy as np
import pytest

import rpd_metric
from rpd_metric.errors import InputError, RPDError
from rpd_metric.models.kinds import load_embedder

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
    assert (result["num_problems"], result["num_solutions"], result["num_unsummarized"]) == (
        2,
        5,
        0,
    )


def test_the_result_is_plain_json_and_evaluate_saves_it(rpd, tmp_path):
    result = rpd.compute(predictions=GROUPS, return_matrices=True)
    assert json.loads(json.dumps(result)) == result
    path = evaluate.save(tmp_path, **result)
    assert json.loads(Path(path).read_text())["rpd"] == result["rpd"]
    assert np.array(result["matrices"][0]) == pytest.approx(direct(GROUPS[0]), abs=1e-6)


def test_solution_texts_are_summarised_first(rpd):
    result = rpd.compute(predictions=[[TEXT_A, TEXT_B, TEXT_A]], references=["Find the constant."])
    assert 0 < result["rpd"] < 1
    assert result["num_solutions"] == 3


def test_two_flat_lists_of_texts_are_one_pair_per_row(rpd):
    result = rpd.compute(predictions=[TEXT_A, TEXT_A], references=[TEXT_B, TEXT_A])
    assert result["rpd_per_problem"][0] > 0.1
    assert result["rpd_per_problem"][1] == 0
    assert result["num_solutions"] == 4


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


def test_an_empty_solution_text_has_its_reason(rpd):
    result = rpd.compute(predictions=[[TEXT_A, TEXT_B, "  "]])
    assert result["num_unsummarized"] == 1
    assert list(result["unsummarized_reasons"]) == ["empty_solution"]


def test_nothing_measurable_gives_none(rpd):
    result = rpd.compute(predictions=[[EXPAND], []])
    assert result["rpd"] is None
    assert result["rpd_per_problem"] == [None, None]


def test_add_and_add_batch_gather_rows_in_order(rpd):
    rpd.add(prediction=GROUPS[0])
    rpd.add_batch(predictions=[GROUPS[1]], references=["a problem"])
    gathered = rpd.compute()
    assert gathered["rpd_per_problem"] == rpd.compute(predictions=GROUPS)["rpd_per_problem"]


def test_tuples_and_arrays_are_lists(rpd):
    as_arrays = [tuple(np.array(steps, dtype=object) for steps in group) for group in GROUPS]
    assert rpd.compute(predictions=as_arrays) == rpd.compute(predictions=GROUPS)


def test_batches_are_split_before_arrow_overflows(rpd, monkeypatch):
    whole = rpd.compute(predictions=GROUPS)
    calls = []
    base = evaluate.Metric.add_batch
    monkeypatch.setattr(
        evaluate.EvaluationModule,
        "add_batch",
        lambda self, **kw: calls.append(len(kw["predictions"])) or base(self, **kw),
    )
    monkeypatch.setitem(type(rpd).add_batch.__globals__, "_BATCH_CHARACTERS", 20)
    assert rpd.compute(predictions=GROUPS) == whole
    assert calls == [1, 1]


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], None, "predictions are empty"),
        (None, None, "predictions are missing"),
        ("text", None, "predictions are a list of groups, not str"),
        ([TEXT_A], None, "flat solution texts need references"),
        ([[TEXT_A, TEXT_B], TEXT_A], ["", ""], r"predictions\[1\] has the form 'pair'"),
        ([[EXPAND], [TEXT_A]], None, r"predictions\[1\] has the form 'solutions'"),
        ([[EXPAND, TEXT_A]], None, r"predictions\[0\] mixes or holds list, str"),
        ([[TEXT_A, TEXT_B], [TEXT_A, None]], None, r"predictions\[1\] mixes or holds NoneType"),
        ([[EXPAND, ["a", 3]]], None, r"predictions\[0\], solution 1: a step is a text, not int"),
        ([[EXPAND, SHORTCUT], [EXPAND, [["a"]]]], None, r"predictions\[1\], solution 1: a step"),
        ([{"a": 1}], None, r"predictions\[0\] is dict"),
        ([[1.0, 2.0]], None, r"predictions\[0\] mixes or holds float"),
        ([[EXPAND]], ["p", "q"], "1 predictions need as many references, not 2"),
        ([[EXPAND], [EXPAND]], ["p", 5], r"references\[1\] is a text, not int"),
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embeder": "minilm"}, "has no option embeder"),
        ({"ties": "last"}, "ties is 'last'"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        evaluate.load("rpd", **options)


@pytest.mark.parametrize("option", [{"embedder": "nope"}, {"summarizer": "nope"}])
def test_unknown_models_are_one_clear_error(option, tmp_path):
    with pytest.raises(RPDError, match="nope"):
        evaluate.load("rpd", cache_dir=str(tmp_path), **option).compute(
            predictions=[[TEXT_A, TEXT_B]]
        )


def test_combine_runs_it_beside_another_metric(tmp_path):
    half = tmp_path / "count" / "count.py"
    half.parent.mkdir()
    half.write_text(
        "import datasets\nimport evaluate\n"
        "class Count(evaluate.Metric):\n"
        "    def _info(self):\n"
        "        return evaluate.MetricInfo(description='', citation='', inputs_description='',\n"
        "            features=datasets.Features({'predictions': datasets.Value('string'),\n"
        "                                        'references': datasets.Value('string')}))\n"
        "    def _compute(self, predictions, references):\n"
        "        return {'count': len(predictions)}\n"
    )
    both = evaluate.combine([evaluate.load("rpd"), evaluate.load(str(half))])
    both.add(prediction=TEXT_A, reference=TEXT_B)
    both.add_batch(predictions=[TEXT_A], references=[TEXT_A])
    result = both.compute()
    assert result["count"] == 2
    assert result["rpd_per_problem"][1] == 0


def _one_of_two(rank, folder, queue):
    rpd = evaluate.load(
        "rpd", num_process=2, process_id=rank, experiment_id="pair", cache_dir=folder
    )
    queue.put((rank, rpd.compute(predictions=[GROUPS[rank]])))


@pytest.mark.slow
def test_two_processes_share_one_experiment(tmp_path, rpd):
    expected = rpd.compute(predictions=GROUPS)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=_one_of_two, args=(rank, str(tmp_path / "shared"), queue))
        for rank in (0, 1)
    ]
    for worker in workers:
        worker.start()
    results = dict(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert results[1] is None
    assert results[0] == expected
