"""Rows as well-known datasets have them are read without an option."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.filters.answer_checks import AnswerChecker, marks_of, reference_of
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_datasets.inputs.understanding import Understood
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
DEEP_MATH = [
    {
        "question": PROBLEM,
        "final_answer": "5",
        "difficulty": 2.0,
        "topic": "Arithmetic",
        "r1_solution_1": ONE,
        "r1_solution_2": OTHER,
        "r1_solution_3": None,
    }
]
S1K = [
    {
        "question": PROBLEM,
        "solution": "5",
        "cot_type": "math",
        "source_type": "x",
        "metadata": "{}",
        "cot": None,
        "thinking_trajectories": ["Let me count."],
        "attempt": text,
    }
    for text in (ONE, OTHER)
]
S1K_11 = [
    {
        "question": PROBLEM,
        "solution": "5",
        "cot_type": "math",
        "gemini_thinking_trajectory": "Let me count.",
        "gemini_attempt": ONE,
        "deepseek_thinking_trajectory": "Let me count.",
        "deepseek_attempt": OTHER,
        "gemini_grade": "No",
        "gemini_grade_reason": "...",
        "deepseek_grade": "Yes",
        "deepseek_grade_reason": "...",
    }
]
MESSAGES = [
    {
        "messages": [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": PROBLEM},
            {"role": "assistant", "content": text},
        ]
    }
    for text in (ONE, OTHER)
]
PROMPT_COMPLETION = [{"prompt": PROBLEM, "completion": text} for text in (ONE, OTHER)]
CONVERSATIONAL = [
    {
        "prompt": [{"role": "user", "content": PROBLEM}],
        "completion": [{"role": "assistant", "content": text}],
    }
    for text in (ONE, OTHER)
]
OPEN_THOUGHTS = [
    {
        "difficulty": 8,
        "source": "x",
        "domain": "math",
        "conversations": [
            {"from": "human", "value": PROBLEM},
            {"from": "gpt", "value": text},
        ],
    }
    for text in (ONE, OTHER)
]
# Named as docs/inputs.md names them.
LAYOUTS = {
    "OpenR1-Math": OPEN_R1,
    "OpenMathReasoning": OPEN_MATH,
    "DeepMath": DEEP_MATH,
    "LIMO": LIMO,
    "AceReason": ACE,
    "NuminaMath": NUMINA,
    "OpenThoughts3": OPEN_THOUGHTS,
    "TRL messages": MESSAGES,
    "TRL prompt-completion": PROMPT_COMPLETION,
    "conversational": CONVERSATIONAL,
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def problems(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> list[Any]:
    file = write(tmp_path / "rows.jsonl", rows)
    spec = InputSpec(**options)
    return list(open_source(file, spec, scratch=tmp_path / "scratch", on_reject=print))


@pytest.mark.parametrize("rows", LAYOUTS.values(), ids=LAYOUTS)
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


@pytest.mark.parametrize("rows", [S1K, S1K_11], ids=["s1K", "s1K-1.1"])
def test_thoughts_and_attempts_of_s1k_are_solutions_with_think_blocks(tmp_path, rows):
    (problem,) = problems(tmp_path, rows)
    assert problem.solutions == tuple(
        f"<think>\nLet me count.\n</think>\n\n{text}" for text in (ONE, OTHER)
    )
    assert problem.extra["solution"] == "5"


def test_the_grades_of_s1k_are_marks(tmp_path):
    (problem,) = problems(tmp_path, S1K_11)
    assert marks_of(problem) == (False, True)
    assert problem.extra["gemini_grade"] == "No"


def test_what_is_left_of_deepmath_is_carried_along(tmp_path):
    (problem,) = problems(tmp_path, DEEP_MATH)
    assert problem.extra == {"final_answer": "5", "difficulty": 2.0, "topic": "Arithmetic"}
    assert reference_of(problem) == "5"


def test_the_marks_of_openr1_are_taken_without_an_option(tmp_path):
    (problem,) = problems(tmp_path, OPEN_R1)
    assert marks_of(problem) == (True, False)


def test_a_prompt_of_several_questions_costs_its_row(tmp_path):
    two = {"role": "user", "content": PROBLEM}
    rows = [{**CONVERSATIONAL[0], "prompt": [two, two]}, CONVERSATIONAL[1]]
    (problem,) = problems(tmp_path, rows)
    assert problem.solutions == (OTHER,)


def test_what_a_manifest_says_of_the_columns_reads_them_again(tmp_path):
    file = write(tmp_path / "rows.jsonl", OPEN_R1)
    first = open_source(file, scratch=tmp_path / "a", on_reject=print)
    again = InputSpec(columns=first.columns, layout=first.layout)
    (problem,) = open_source(file, again, scratch=tmp_path / "b", on_reject=print)
    assert problem.solutions == (ONE, OTHER)


def test_every_rule_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "inputs.md").read_text(encoding="utf-8")
    for known in WELL_KNOWN:
        assert f"| {known.names} |" in page
        for column in known.needs:
            assert f"`{column}`" in page, (known.names, column)


def test_rows_of_one_problem_are_put_together_where_the_first_one_stands(tmp_path):
    rows = [
        {"problem": PROBLEM, "solutions": [ONE, None], "correct": [True, False], "id": "a"},
        {"problem": "What is 1 + 1?", "solutions": ["2"], "correct": [True], "id": "b"},
        {
            "problem": f" {PROBLEM}\n",
            "solutions": [OTHER, "6"],
            "correct": [True, False],
            "id": "c",
        },
        {"problem": PROBLEM, "solutions": ["five"], "correct": None, "id": "d"},
    ]
    file = write(tmp_path / "rows.jsonl", rows)
    rejects: list[Any] = []
    source = open_source(file, scratch=tmp_path / "scratch", on_reject=rejects.append)
    for _ in range(2):  # a source is read more than once
        both, other = list(source)
        assert both.solutions == (ONE, OTHER, "6", "five")
        assert both.extra == {"correct": [True, True, False, None], "id": "a"}
        assert both.where == "rows.jsonl:1 and 2 more"
        assert (other.problem, other.extra["id"]) == ("What is 1 + 1?", "b")
    assert [one.reason for one in rejects] == ["null_solution"]
    assert source.rows_read == 4


def test_a_limit_ends_reading_and_merging_alike(tmp_path):
    rows = [{"problem": f"What is 2 + {n % 3}?", "solutions": [f"{n}"]} for n in range(9)]
    file = write(tmp_path / "rows.jsonl", rows)
    spec = InputSpec(limit=2)
    found = list(open_source(file, spec, scratch=tmp_path / "scratch", on_reject=print))
    assert [one.solutions for one in found] == [("0",), ("1",)]


def test_what_was_understood_is_counted_and_shown(tmp_path):
    file = write(tmp_path / "rows.jsonl", DEEP_MATH)
    source = open_source(file, scratch=tmp_path / "scratch", on_reject=print)
    understood = Understood(source)
    for problem in source:
        understood.add(problem, AnswerChecker().check(problem))
    found = understood.as_dict()
    assert (found["known_as"], found["problems"], found["solutions"]) == ("DeepMath", 1, 2)
    assert found["correctness"] == {"reference in the column final_answer": 1}
    lines = dict(understood.lines())
    assert "as DeepMath" in lines["Rows"]
    assert lines["Found"] == "1 problems with 2 solutions, 2 each"
    assert lines["Example"] == PROBLEM
