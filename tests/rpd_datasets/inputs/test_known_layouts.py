"""Which layout an input has: rows of well-known datasets need no option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rpd_datasets.filters.answer_checks import AnswerChecker, marks_of, reference_of
from rpd_datasets.inputs.known_layouts import LAYOUTS, check_only, find_layout
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
# By the layout that they have.
ROWS = [
    ("openr1-math", OPEN_R1),
    ("openmathreasoning", OPEN_MATH),
    ("deepmath", DEEP_MATH),
    ("limo", LIMO),
    ("acereason", ACE),
    ("flat", NUMINA),
    ("openthoughts", OPEN_THOUGHTS),
    ("messages", MESSAGES),
    ("prompt-completion", PROMPT_COMPLETION),
    ("prompt-completion", CONVERSATIONAL),
]


def opened(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Any:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = InputSpec(**options)
    return open_source(file, spec, scratch=tmp_path / "scratch", on_reject=print)


def problems(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> list[Any]:
    return list(opened(tmp_path, rows, **options))


@pytest.mark.parametrize(("layout", "rows"), ROWS)
def test_rows_of_a_well_known_dataset_need_no_option(tmp_path, layout, rows):
    source = opened(tmp_path, rows)
    (problem,) = source
    assert (problem.problem, problem.solutions) == (PROBLEM, (ONE, OTHER))
    assert source.layout == layout
    # What a manifest says of layout and columns reads them again.
    assert problems(tmp_path, rows, columns=source.columns, layout=layout) == [problem]


@pytest.mark.parametrize(("layout", "rows"), [("s1k", S1K), ("s1k-1.1", S1K_11)])
def test_thoughts_and_attempts_of_s1k_are_solutions_with_think_blocks(tmp_path, layout, rows):
    source = opened(tmp_path, rows)
    (problem,) = source
    assert source.layout == layout
    assert problem.solutions == tuple(
        f"<think>\nLet me count.\n</think>\n\n{text}" for text in (ONE, OTHER)
    )
    assert problem.extra["solution"] == "5"
    if layout == "s1k-1.1":  # its grades are marks
        assert marks_of(problem) == (False, True)
        assert problem.extra["gemini_grade"] == "No"


def test_what_stands_beside_the_solutions_is_kept_in_step_with_them(tmp_path):
    rows = [{**OPEN_R1[0], "generations": [ONE, None, OTHER]}]
    rows[0]["correctness_math_verify"] = [True, None, False]
    (problem,) = problems(tmp_path, rows)
    assert marks_of(problem) == (True, False)
    assert problem.extra["solution"] == "A reference text: 5."
    (problem,) = problems(tmp_path, DEEP_MATH)
    assert problem.extra == {"final_answer": "5", "difficulty": 2.0, "topic": "Arithmetic"}
    assert reference_of(problem) == "5"


def test_columns_that_the_options_name_are_never_overruled(tmp_path):
    (problem,) = problems(tmp_path, OPEN_R1, columns=Columns(solution="answer"))
    assert problem.solutions == ("5",)


def test_a_prompt_of_several_questions_costs_its_row(tmp_path):
    two = {"role": "user", "content": PROBLEM}
    rows = [{**CONVERSATIONAL[0], "prompt": [two, two]}, CONVERSATIONAL[1]]
    (problem,) = problems(tmp_path, rows)
    assert problem.solutions == (OTHER,)


def test_every_layout_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "inputs.md").read_text(encoding="utf-8")
    for name, layout in LAYOUTS.items():
        assert f"| `{name}` |" in page
        assert all(f"`{column}`" in page for column in (*layout.columns.values(), *layout.told_by))


def check(there: dict[str, Any], layout: str = "auto") -> str:
    return find_layout([there], "a.jsonl", Columns(), layout)


@pytest.mark.parametrize(
    ("there", "layout"),
    [
        ({"problem": "p", "solutions": ["s"], "solution": "s", "conversations": []}, "grouped"),
        ({"problem": "p", "solution": "s", "conversations": []}, "flat"),
        ({"conversations": [], "problem": "p"}, "openthoughts"),
        ({"problem": "p", "solutions": None}, "grouped"),
    ],
)
def test_the_layout_is_the_first_whose_columns_are_there(there, layout):
    assert check(there) == layout


def test_columns_of_later_rows_count_as_well():
    samples = [{"problem": "p"}, {"problem": "p", "solutions": ["s"]}]
    assert find_layout(samples, "a.jsonl", Columns()) == "grouped"


def test_a_missing_column_is_one_error_with_the_columns_there_are_and_a_suggestion():
    with pytest.raises(InputError) as caught:
        check({"question": "p", "responses": ["s"], "level": 3})
    assert str(caught.value) == (
        "a.jsonl has no column 'problem' and 'solutions'. Its columns are: question, responses, "
        "level. Perhaps 'question' and 'responses': name it with Columns(problem=\"question\", "
        'solutions="responses"), on the command line --problem-column question '
        "--solutions-column responses."
    )


@pytest.mark.parametrize(
    ("there", "layout", "message"),
    [
        ({"problm": "p", "solution": "s"}, "auto", r'Columns\(problem="problm"\)'),
        ({"Problem": "p", "solutions": ["s"]}, "grouped", "--problem-column Problem"),
        ({"problem": "p", "solutions": ["s"]}, "flat", "no column 'solution'"),
        ({"messages": []}, "openthoughts", r'Columns\(conversations="messages"\)'),
        ({"x": 1, "y": 2}, "auto", r'Name it with Columns\(problem="...", solutions="..."\)'),
        ({}, "grouped", "Its columns are: none"),
        ({"question": "p"}, "deepmath", "no column 'r1_solution_1', which the layout deepmath"),
        ({"problem": "p", "solutions": "s"}, "auto", "holds one text a row.*--solution-column"),
        ({"problem": "p"}, "grupped", "unknown layout 'grupped'; did you mean 'grouped'"),
    ],
)
def test_an_error_names_what_is_missing_and_what_fits(there, layout, message):
    with pytest.raises(InputError, match=message):
        check(there, layout)


def test_rows_are_picked_only_by_columns_that_are_there():
    with pytest.raises(InputError, match=r"no column 'domain' for the option only.*--only Domain="):
        check_only([{"Domain": "math"}], "a.jsonl", {"domain": "math"})


def test_what_was_understood_is_counted_and_shown(tmp_path):
    source = opened(tmp_path, DEEP_MATH)
    understood = Understood(source)
    for problem in source:
        understood.add(problem, AnswerChecker().check(problem))
    found = understood.as_dict()
    assert (found["layout"], found["problems"], found["solutions"]) == ("deepmath", 1, 2)
    assert found["correctness"] == {"reference in the column final_answer": 1}
    lines = dict(understood.lines())
    assert "as DeepMath" in lines["Rows"]
    assert lines["Found"] == "1 problems with 2 solutions, 2 each"
    assert lines["Example"] == PROBLEM
