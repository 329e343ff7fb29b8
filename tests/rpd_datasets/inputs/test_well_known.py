"""Rows as well-known datasets have them are read without an option."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import open_source
from rpd_datasets.inputs.spec import InputSpec
from rpd_metric.errors import InputError

PROBLEM = "What is 2 + 3?"
ONE, OTHER = "We count on from two. So it is 5.", "Add the ones. The sum is 5."

OPEN_R1 = [
    {
        "problem": PROBLEM,
        "solution": "A reference text: 5.",
        "answer": "5",
        "generations": [ONE, OTHER],
        "correctness_math_verify": [True, False],
        "uuid": "a",
    }
]
OPEN_MATH = [
    {"problem": PROBLEM, "generated_solution": text, "expected_answer": "5"}
    for text in (ONE, OTHER)
]
LIMO = [{"question": PROBLEM, "solution": text, "answer": "5"} for text in (ONE, OTHER)]
ACE = [{"category": "math", "input": PROBLEM, "output": text} for text in (ONE, OTHER)]
NUMINA = [{"source": "x", "problem": PROBLEM, "solution": text} for text in (ONE, OTHER)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def problems(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> list[Any]:
    file = write(tmp_path / "rows.jsonl", rows)
    spec = InputSpec(**options)
    return list(open_source(file, spec, scratch=tmp_path / "scratch", on_reject=print))


@pytest.mark.parametrize(
    "rows", [OPEN_R1, OPEN_MATH, LIMO, ACE, NUMINA], ids=["r1", "math", "limo", "ace", "numina"]
)
def test_rows_of_a_well_known_dataset_need_no_option(tmp_path, rows):
    (problem,) = problems(tmp_path, rows)
    assert (problem.problem, problem.solutions) == (PROBLEM, (ONE, OTHER))


def test_what_stands_beside_the_generations_is_kept_in_step_with_them(tmp_path):
    rows = [{**OPEN_R1[0], "generations": [ONE, None, OTHER]}]
    rows[0]["correctness_math_verify"] = [True, None, False]
    (problem,) = problems(tmp_path, rows)
    assert problem.extra["correctness_math_verify"] == [True, False]
    assert problem.extra["solution"] == "A reference text: 5."


def test_columns_that_the_options_name_are_never_overruled(tmp_path):
    (problem,) = problems(tmp_path, OPEN_R1, columns=Columns(solution="answer"), layout="flat")
    assert problem.solutions == ("5",)


def test_other_names_are_still_asked_about(tmp_path):
    rows = [{"question": PROBLEM, "responses": [ONE, OTHER]}]
    with pytest.raises(InputError, match="--problem-column question --solutions-column responses"):
        problems(tmp_path, rows)


def test_csv_and_zstandard_files_give_the_same_problems(tmp_path):
    import pyarrow as pa

    long = ONE + " And then we check it." * 10_000
    rows = [{"problem": PROBLEM, "solution": text} for text in (long, OTHER + '\n"Done", so 5.')]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["problem", "solution"])
        writer.writeheader()
        writer.writerows(rows)
    with pa.CompressedOutputStream(str(tmp_path / "rows.jsonl.zst"), "zstd") as packed:
        packed.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    expected = tuple(row["solution"] for row in rows)
    for name in ("rows.csv", "rows.jsonl.zst"):
        scratch = tmp_path / f"scratch-{name}"
        (problem,) = open_source(tmp_path / name, scratch=scratch, on_reject=print)
        assert (problem.problem, problem.solutions) == (PROBLEM, expected), name


def test_a_row_of_a_csv_file_with_a_cell_too_few_costs_only_itself(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(f"problem,solution\n{PROBLEM},{OTHER}\n{PROBLEM}\n{PROBLEM},So it is 5.\n")
    rejects: list[Any] = []
    (problem,) = open_source(file, scratch=tmp_path / "scratch", on_reject=rejects.append)
    assert problem.solutions == (OTHER, "So it is 5.")
    assert [(one.reason, one.where) for one in rejects] == [("malformed_csv", "rows.csv:2")]
