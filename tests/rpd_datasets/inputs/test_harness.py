"""What evaluation harnesses write is read as problems: files made by the harnesses themselves.

`harness/` holds three questions answered by SmolLM2-135M-Instruct, as written by lm-eval 0.4.13

    lm_eval run --model hf --model_args pretrained=FOLDER,dtype=float32 --device cpu \\
        --include_path . --tasks sums --apply_chat_template --log_samples --output_path OUT --seed 1

of a task with `repeats: 3` and the filters `first`, `majority` and `every`, and by lighteval 0.13.0

    lighteval accelerate "model_name=FOLDER,dtype=float32,device=cpu,generation_parameters=..." \\
        "sums|0" --custom-tasks le_task.py --output-dir OUT --save-details

of one with the metrics `avg@n:n=4` and `pass@k:k=1&n=4`, with `do_sample` in the model's
generation_config.json. Both pin other versions of packages than this project does (lighteval ran
with xxhash 3, without two of its tasks' modules), so that they do not run in the tests.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from parts.rows import write_rows
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import open_source
from rpd_datasets.problem import Rejected

RECORDED = Path(__file__).parent / "harness"
LM_EVAL = RECORDED / "samples_sums.jsonl"
LIGHTEVAL = RECORDED / "details_sums.parquet"
HEXAGON = "How many sides has a hexagon?"
QUESTIONS = {"What is 17 + 25?": "42", HEXAGON: "6", "What is 9 times 8?": "72"}


def rows(path: Path) -> list[dict[str, Any]]:
    return [row.values for row in LocalRows(path, name=path.name) if isinstance(row, Row)]


def lines(scored_by: str) -> list[dict[str, Any]]:
    """What lm-eval wrote for one of its filters."""
    found = map(json.loads, LM_EVAL.read_text(encoding="utf-8").splitlines())
    return [line for line in found if line["filter"] == scored_by]


@pytest.mark.parametrize(("path", "repeats"), [(LM_EVAL, 3), (LIGHTEVAL, 4)])
def test_repeats_are_solutions_with_the_reference(path, repeats, tmp_path):
    found = list(open_source(path, scratch=tmp_path, on_reject=pytest.fail))
    assert {problem.problem: problem.extra["answer"] for problem in found} == QUESTIONS
    assert all(len(problem.solutions) == repeats for problem in found)


def test_the_scores_of_all_filters_are_in_one_row():
    found = {row["problem"]: row for row in rows(LM_EVAL)}
    # `first` and `majority` score one answer; `every` keeps three, and their mean.
    hexagon = found[HEXAGON]
    assert hexagon["correct"] == hexagon["correct_exact_match_every"] == [True, True, False]
    assert not [name for name in hexagon if name.startswith("score_")]
    assert found["What is 17 + 25?"]["correct"] == [False, False, False]


def test_a_score_of_the_whole_problem_marks_nothing(tmp_path):
    # A mean that does not come of exact matches.
    made = [line | {"exact_match": 0.5} for line in lines("every")]
    for path in (write_rows(tmp_path / "made.jsonl", made), LIGHTEVAL):
        assert {name for row in rows(path) for name in row} == {
            *("problem", "solutions", "answer", "id")
        }


def test_thoughts_that_stand_apart_are_part_of_the_solution(tmp_path):
    thoughtful = {"text": ["It is 5."], "reasonings": ["2 + 3"]}
    made = [{"doc": {"query": "2 + 3?", "id": "1"}, "metric": {}, "model_response": thoughtful}]
    whole = "<think>\n2 + 3\n</think>\n\nIt is 5."
    assert rows(write_rows(tmp_path / "made.jsonl", made))[0]["solutions"] == [whole]


def test_one_score_for_each_solution_is_a_mark(tmp_path):
    made = [line | {"exact_match": [1.0, 0.0, float("nan")]} for line in lines("first")]
    made[-1] |= {"resps": [["It is 72."]], "exact_match": 1.0}
    found = rows(write_rows(tmp_path / "made.jsonl", made))
    assert found[0]["correct"] == found[0]["correct_exact_match_first"] == [True, False, None]
    assert found[-1]["correct"] == [True]


def test_what_is_not_of_the_harness_is_named_and_costs_itself(tmp_path):
    good, likelihood, other = lines("first")
    likelihood["arguments"] = {"gen_args_0": {"arg_0": "x", "arg_1": " y"}}
    path = write_rows(tmp_path / "damaged.jsonl", [good, likelihood, {"doc_id": 7}, [], other])
    found = list(LocalRows(path, name="damaged"))
    assert [(row.reason, row.where) for row in found if isinstance(row, Rejected)] == [
        ("no_texts", "damaged.jsonl:2"),
        ("not_of_the_harness", "damaged.jsonl:3"),
        ("not_an_object", "damaged.jsonl:4"),
    ]
    assert len([row for row in found if isinstance(row, Row)]) == 2
