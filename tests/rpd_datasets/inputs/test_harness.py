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

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from parts.report_page import embedded
from rpd_datasets.cli import main
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.rejects import Rejected

RECORDED = Path(__file__).parent / "harness"
LM_EVAL = RECORDED / "samples_sums.jsonl"
LIGHTEVAL = RECORDED / "details_sums.parquet"
QUESTIONS = {
    "What is 17 + 25?": "42",
    "How many sides has a hexagon?": "6",
    "What is 9 times 8?": "72",
}


def rows(path: Path) -> list[dict]:
    found = list(LocalRows(path, name=path.name))
    assert not [row for row in found if isinstance(row, Rejected)]
    return [row.values for row in found if isinstance(row, Row)]


@pytest.mark.parametrize(("path", "repeats"), [(LM_EVAL, 3), (LIGHTEVAL, 4)])
def test_repeats_are_solutions_with_the_reference(path: Path, repeats: int) -> None:
    found = rows(path)
    assert {row["problem"]: row["answer"] for row in found} == QUESTIONS
    assert all(len(row["solutions"]) == repeats for row in found)
    assert all(text.strip() for row in found for text in row["solutions"])


def test_the_scores_of_all_filters_are_in_one_row() -> None:
    found = {row["problem"]: row for row in rows(LM_EVAL)}
    # `first` and `majority` score one answer; `every` keeps three, and their mean.
    hexagon = found["How many sides has a hexagon?"]
    assert hexagon["score_exact_match_first"] == hexagon["score_exact_match_majority"] == 1.0
    assert hexagon["correct"] == hexagon["correct_exact_match_every"] == [True, True, False]
    assert "score_exact_match_every" not in hexagon
    assert found["What is 17 + 25?"]["correct"] == [False, False, False]


def test_a_mean_that_does_not_come_of_exact_matches_marks_nothing(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in LM_EVAL.read_text(encoding="utf-8").splitlines()]
    lines = [line | {"exact_match": 0.5} for line in lines if line["filter"] == "every"]
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert all("correct" not in row for row in rows(path))
    assert all(row["score_exact_match_every"] == 0.5 for row in rows(path))


def test_lighteval_scores_are_kept() -> None:
    for row in rows(LIGHTEVAL):
        assert 0 <= row["score_avg@n:n=4"] == row["score_pass@k:k=1&n=4"] <= 1
        # Of the whole problem: it says of no solution whether it is right.
        assert "correct" not in row


def test_one_score_for_each_solution_is_a_mark(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in LM_EVAL.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["filter"] == "first"]
    for line in lines:
        line["exact_match"] = [1.0, 0.0, float("nan")]
    lines[-1]["resps"], lines[-1]["exact_match"] = [["It is 72."]], 1.0
    path = tmp_path / "made.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = rows(path)
    assert found[0]["correct"] == found[0]["correct_exact_match_first"] == [True, False, None]
    assert found[-1]["correct"] == [True]


def test_what_is_not_of_the_harness_is_named_and_costs_itself(tmp_path: Path) -> None:
    lines = LM_EVAL.read_text(encoding="utf-8").splitlines()
    likelihood = json.loads(lines[1])
    likelihood["arguments"] = {"gen_args_0": {"arg_0": "x", "arg_1": " y"}}
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join([lines[0], json.dumps(likelihood), '{"doc_id": 7}', "{", lines[2]]))
    found = list(LocalRows(path, name="damaged"))
    assert [row.reason for row in found if isinstance(row, Rejected)] == [
        "no_texts",
        "not_of_the_harness",
        "malformed_json",
    ]
    assert len([row for row in found if isinstance(row, Row)]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("path", "shown"), [(LM_EVAL, 1), (LIGHTEVAL, 3)])
def test_they_go_through_curate_and_report(
    path: Path, shown: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(path, tmp_path))
    options = ["--num-solutions", "2", "--no-require-complete", "--no-drop-duplicates"]
    out = tmp_path / "out"
    assert main(["curate", str(path), "-o", str(out), *options, "--keep-wrong", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["chosen"]) == 3
    # A report of the file itself shows the right ones, beside it.
    assert main(["report", str(path), "--no-figures", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems_shown"] == shown
    page = (tmp_path / f"{path.stem}-report.html").read_text(encoding="utf-8")
    assert "How many sides has a hexagon?" in json.dumps(embedded(page)[1])
