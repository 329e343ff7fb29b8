"""Rows of every layout: which one an input has, and that what is bad in a row costs only itself."""

from pathlib import Path
from typing import Any

import pytest

from parts.rows import write_rows
from rpd_datasets.filters.answer_checks import AnswerChecker, marks_of, reference_of
from rpd_datasets.inputs.layouts import (
    Columns,
    RowLayout,
    conversation_row,
    find_layout,
    flat_row,
    grouped_items,
)
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, Source, open_source
from rpd_datasets.inputs.understanding import Understood
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError

P = "What is 2 + 3?"
ONE, OTHER = "We count on from two. The answer is 5.", "Add the ones. The answer is 6."
HUMAN, GPT = {"role": "user", "content": P}, "assistant"
DEEP_MATH = {"question": P, "final_answer": "5", "difficulty": 2.0, "topic": "Arithmetic"}
DEEP_MATH |= {"r1_solution_1": ONE, "r1_solution_2": OTHER, "r1_solution_3": None}
TURNS = [{"role": "system", "content": "Think."}, HUMAN]


def each(row: Any) -> list[dict[str, Any]]:
    return [row(ONE), row(OTHER)]


def said(text: str) -> dict[str, str]:
    return {"role": GPT, "content": text}


# Rows as a dataset or a tool has them; all hold one problem with both solutions.
ROWS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "ours": ("grouped", [{"problem": P, "solutions": [ONE, OTHER]}]),
    "OpenR1-Math": (
        "grouped",
        [
            {"problem": P, "solution": "A reference text: 5.", "answer": "5", "uuid": "a"}
            | {"generations": [ONE, None, OTHER], "correctness_math_verify": [True, None, False]}
        ],
    ),
    "OpenMathReasoning": (
        "flat",
        each(lambda text: {"problem": P, "generated_solution": text, "expected_answer": "5"}),
    ),
    "NuminaMath": ("flat", each(lambda text: {"source": "x", "problem": P, "solution": text})),
    "OpenThoughts3": (
        "openthoughts",
        each(
            lambda text: {
                "difficulty": 8,
                "conversations": [{"from": "human", "value": P}, {"from": "gpt", "value": text}],
            }
        ),
    ),
    "a list of older datasets": (
        "openthoughts",
        each(lambda text: {"conversations": {"from": ["human", "gpt"], "value": [P, text]}}),
    ),
    "DeepMath": ("deepmath", [DEEP_MATH]),
    "AceReason": ("flat", each(lambda text: {"category": "math", "input": P, "output": text})),
    "TRL": (
        "flat",
        [
            {"prompt": P, "completion": ONE},
            {"prompt": [HUMAN], "completion": [said(OTHER)]},
            {"prompt": [HUMAN], "completion": [HUMAN]},  # no answer costs its row
        ],
    ),
    "TRL, messages": ("openthoughts", each(lambda text: {"messages": [*TURNS, said(text)]})),
    "question and response": ("flat", each(lambda text: {"question": P, "response": text})),
    "question and responses": (
        "grouped",
        [{"question": P, "solution": "A reference text: 5.", "response": [ONE, OTHER]}],
    ),
    # vars() of vLLM 0.32's RequestOutput.
    "vLLM": (
        "grouped",
        [
            {"request_id": "0", "prompt": P, "prompt_token_ids": [1], "finished": True}
            | {
                "outputs": [
                    {"index": 0, "text": text, "token_ids": [4], "finish_reason": "stop"}
                    for text in (ONE, OTHER)
                ]
            }
        ],
    ),
    "chat completions": (
        "grouped",
        [
            {"messages": TURNS}
            | {"choices": [{"index": 0, "message": said(text)} for text in (ONE, OTHER)]}
        ],
    ),
    "HumanEval samples": ("grouped", [{"prompt": P, "samples": [ONE, OTHER]}]),
}


def opened(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Source:
    file = write_rows(tmp_path / "rows.jsonl", rows)
    spec = InputSpec(**options)
    return open_source(file, spec, scratch=tmp_path / "scratch", on_reject=print)


# What is kept beside the solutions, in step with them: marks, the reference, other columns.
BESIDE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "OpenR1-Math": ((True, False), "5", {"solution": "A reference text: 5.", "uuid": "a"}),
    "DeepMath": (None, "5", {"difficulty": 2.0, "topic": "Arithmetic"}),
    "vLLM": (None, None, {"finish_reason": ["stop", "stop"]}),
}


@pytest.mark.parametrize("dataset", ROWS)
def test_rows_of_a_well_known_shape_need_no_option(tmp_path, dataset):
    layout, rows = ROWS[dataset]
    source = opened(tmp_path, rows)
    (problem,) = source
    assert (source.layout, problem.problem, problem.solutions) == (layout, P, (ONE, OTHER))
    if dataset in BESIDE:
        marks, reference, kept = BESIDE[dataset]
        assert (marks_of(problem), reference_of(problem)) == (marks, reference)
        assert kept.items() <= problem.extra.items()
    # What a manifest says of layout and columns reads them again.
    again = opened(tmp_path, rows, columns=source.columns, layout=layout)
    assert list(again) == [problem]


BODY = {"model": "m", "messages": TURNS}
REQUESTS = [{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}]
CHOICES = [{"index": n, "message": said(text)} for n, text in enumerate((ONE, OTHER))]
# As the client writes them: chat completions, and messages beside thoughts of /v1/responses.
OUTPUT = [
    {"type": "reasoning", "summary": []},
    {"type": "message", "role": GPT, "content": [{"type": "output_text", "text": ONE}]},
]


@pytest.mark.parametrize(("body", "texts"), [({"choices": CHOICES}, 2), ({"output": OUTPUT}, 1)])
def test_results_of_a_batch_are_read_with_their_requests(tmp_path, body, texts):
    result = {"id": "b1", "custom_id": "a", "error": None}
    result |= {"response": {"status_code": 200, "request_id": "r", "body": body}}
    expired = {"id": "b2", "custom_id": "a", "response": None, "error": {"code": "batch_expired"}}
    with pytest.raises(InputError, match=r"by the same custom_id, name it: --prompts FILE"):
        opened(tmp_path, [result, expired])
    prompts = write_rows(tmp_path / "requests.jsonl", REQUESTS)
    rejected: list[Rejected] = []
    file = write_rows(tmp_path / "rows.jsonl", [result, expired])
    spec = InputSpec(prompts=str(prompts))
    source = open_source(file, spec, scratch=tmp_path, on_reject=rejected.append)
    (problem,) = source
    assert (problem.problem, problem.solutions) == (P, (ONE, OTHER)[:texts])
    assert [(one.reason, "batch_expired" in one.detail) for one in rejected] == [
        ("model_error", True)
    ]
    assert source.fingerprint != opened(tmp_path, ROWS["ours"][1]).fingerprint


def test_completions_find_the_problem_of_their_id_in_another_file(tmp_path):
    rows = [{"task_id": "HumanEval/0", "completion": text} for text in (ONE, OTHER)]
    with pytest.raises(InputError, match=r"no column 'problem'.*task_id, name it: --prompts FILE"):
        opened(tmp_path, rows)
    prompts = write_rows(tmp_path / "he.jsonl", [{"task_id": "HumanEval/0", "prompt": P}])
    (problem,) = opened(tmp_path, rows, prompts=str(prompts))
    assert (problem.problem, problem.solutions) == (P, (ONE, OTHER))
    nothing = write_rows(tmp_path / "none.jsonl", [{"task_id": "HumanEval/0"}])
    with pytest.raises(InputError, match=r"none\.jsonl has no prompts"):
        opened(tmp_path, rows, prompts=str(nothing))


def test_of_several_turns_all_answers_are_read_or_the_one_named(tmp_path):
    again = {"role": "user", "content": "Another way?"}
    rows = [{"messages": [*TURNS, said(ONE), again, said(OTHER)]}]
    (whole,) = opened(tmp_path, rows)
    assert (whole.problem, whole.solutions) == (P, (f"{ONE}\n\n{OTHER}",))
    # Where a second sample says the same first, the prompt is longer.
    (both,) = opened(tmp_path, [*rows, {"messages": [*rows[0]["messages"][:-1], said(ONE)]}])
    asked = f"User: {P}\n\nAssistant: {ONE}\n\nUser: Another way?"
    assert (both.problem, both.solutions) == (asked, (OTHER, ONE))
    (second,) = opened(tmp_path, rows, turn=2)
    assert (second.problem, second.solutions) == (asked, (OTHER,))
    (first,) = opened(tmp_path, rows, turn=1)
    assert (first.problem, first.solutions) == (P, (ONE,))
    with pytest.raises(InputError, match="not_one_exchange"):
        list(opened(tmp_path, rows, turn=3))
    with pytest.raises(InputError, match="turn is for rows with a conversation"):
        opened(tmp_path, ROWS["ours"][1], turn=1)


@pytest.mark.parametrize(
    ("samples", "layout"),
    [
        ([{"problem": "p", "solutions": [], "solution": "s", "conversations": []}], "grouped"),
        ([{"problem": "p", "solution": "s", "conversations": []}], "flat"),
        ([{"problem": "p"}, {"problem": "p", "solutions": ["s"]}], "grouped"),
        ([{"question": "p", "conversations": [], "response": "s"}], "openthoughts"),
        ([{"problem": "p", "solutions": "s"}], "flat"),
    ],
)
def test_the_layout_is_the_first_whose_columns_are_there(samples, layout):
    assert find_layout(samples, "a.jsonl", Columns())[0] == layout
    # What the options name is never overruled.
    rows = ROWS["OpenR1-Math"][1]
    layout, columns = find_layout(rows, "a.jsonl", Columns(solution="answer"))
    assert (layout, columns.solution) == ("flat", "answer")


@pytest.mark.parametrize(
    ("there", "layout", "message"),
    [
        (
            {"instruction": "p", "answers": ["s"], "level": 3},
            "auto",
            r"a.jsonl has no columns 'problem' and 'solutions'. Its columns are: instruction, "
            r"answers, level. .*--problem-column instruction --solutions-column answers \(a list "
            r"of solutions per row\) or --solution-column answers \(one per row\), in Python",
        ),
        ({"aufgabe": "p", "response": "s"}, "auto", r"no column 'problem'\. .*--problem-column"),
        ({"Problem": "p", "solutions": ["s"]}, "grouped", "--problem-column Problem"),
        ({"question": "p"}, "deepmath", "no column 'r1_solution_1'.*The layout deepmath has it"),
    ],
)
def test_an_error_names_what_is_missing_and_what_fits(there, layout, message):
    with pytest.raises(InputError, match=message):
        find_layout([there], "a.jsonl", Columns(), layout)
    with pytest.raises(InputError, match=r"no column 'domain'.*The option only asks for it"):
        find_layout(ROWS["ours"][1], "a.jsonl", Columns(), only=["domain"])


def test_one_text_per_row_under_the_option_for_lists_names_the_other_option():
    rows = [{"asked": "p", "said": "s"}] * 2
    with pytest.raises(InputError, match='holds one text per row: use solution_column="said"'):
        find_layout(rows, "rows", Columns(problem="asked", solutions="said"))
    # A single one is left out of the rows, as others that are bad.
    assert find_layout(rows[:1], "rows", Columns(problem="asked", solutions="said"))[0] == "grouped"


def test_what_was_understood_is_counted_and_shown(tmp_path):
    source = opened(tmp_path, ROWS["DeepMath"][1])
    understood = Understood(source)
    for problem in source:
        understood.add(problem, AnswerChecker().check(problem))
    found = understood.as_dict()
    assert (found["layout"], found["problems"], found["solutions"]) == ("deepmath", 1, 2)
    assert found["correctness"] == {"reference in the column final_answer": 1}
    assert (found["right"], found["marked"]) == (1, 2)
    lines = dict(understood.lines())
    assert lines["A problem"] == P
    assert lines["Found"] == "1 problem, 2 solutions, 2 each"
    assert lines["Correctness"].startswith("reference in the column final_answer (1 problem); ")


def row(**values: Any) -> Row:
    return Row("a.jsonl:7", values)


def rejects(items: Any) -> list[tuple[str, int | None]]:
    found = [one for one in items if isinstance(one, Rejected)]
    assert all(one.where == "a.jsonl:7" and one.stage == "read" for one in found)
    return [(one.reason, one.solution_index) for one in found]


def turns(*each: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": role, "value": value} for role, value in each]


def test_a_grouped_row_becomes_a_problem_with_its_other_columns():
    values = {"question": "p", "answers": ["s", "t"], "level": 3, "problem": 17}
    items = list(grouped_items(row(**values), Columns(problem="question", solutions="answers")))
    # No other column takes a name that later stages use.
    assert items == [Problem("p", ("s", "t"), {"level": 3, "original_problem": 17}, "a.jsonl:7")]


def test_bad_solutions_are_dropped_by_index_and_lists_beside_them_stay_aligned():
    solutions = ["good", None, 3, "  ", "\ud800", "x\0y", ["list"]]
    given = row(problem="p", solutions=solutions, correct=[1, 2, 3, 4, 5, 6, 7], tags=["a"])
    *left_out, problem = grouped_items(given, Columns())
    extra = {"correct": [1, 6], "tags": ["a"]}
    assert problem == Problem("p", ("good", "x\0y"), extra, "a.jsonl:7")
    assert rejects(left_out) == [
        ("null_solution", 1),
        ("solution_not_text", 2),
        ("empty_solution", 3),
        ("not_unicode", 4),
        ("solution_not_text", 6),
    ]
    *_, last = rejects(grouped_items(row(problem="p", solutions=[None, ""]), Columns()))
    assert last == ("no_usable_solution", None)


TALK = turns(("human", "p"), ("gpt", "s"))
BAD = [
    (grouped_items, {"solutions": ["s"]}, "missing_column"),
    (grouped_items, {"problem": None, "solutions": ["s"]}, "null_problem"),
    (grouped_items, {"problem": 3, "solutions": ["s"]}, "problem_not_text"),
    (grouped_items, {"problem": "\n", "solutions": ["s"]}, "empty_problem"),
    (grouped_items, {"problem": "p\udc00", "solutions": ["s"]}, "not_unicode"),
    (grouped_items, {"problem": "p"}, "missing_column"),
    (grouped_items, {"problem": "p", "solutions": None}, "null_group"),
    (grouped_items, {"problem": "p", "solutions": "s"}, "not_a_list"),
    (grouped_items, {"problem": "p", "solutions": []}, "empty_group"),
    (grouped_items, {"problem": "p", "solutions": ["s"], "meta": ["\ud800"]}, "not_unicode"),
    (grouped_items, {"problem": "p", "solutions": ["s"], "\ud800": 1}, "not_unicode"),
    (flat_row, {"solution": "s"}, "missing_column"),
    (flat_row, {"problem": "p"}, "null_solution"),
    (flat_row, {"problem": {"from": "x", "value": "p"}, "solution": "s"}, "problem_not_text"),
    (flat_row, {"problem": "p", "solution": ["s"]}, "solution_not_text"),
    (conversation_row, {"conversations": "human: p"}, "not_a_list"),
    (conversation_row, {"conversations": TALK[:1]}, "not_one_exchange"),
    (conversation_row, {"conversations": turns(("human", "p"), ("gpt", 4))}, "solution_not_text"),
    (conversation_row, {"conversations": [HUMAN, {"role": GPT, "tool_calls": 5}]}, "null_solution"),
    # A turn that nobody could train on is not left out of its conversation.
    (conversation_row, {"conversations": [HUMAN, None, said("s")]}, "not_one_exchange"),
    (conversation_row, {"conversations": [*turns(("x", "s")), *TALK]}, "not_one_exchange"),
    (
        conversation_row,
        {"conversations": [HUMAN, {"role": GPT, "tool_calls": [{"function": {}}]}]},
        "solution_not_text",
    ),
    (
        grouped_items,
        {"problem": turns(("x", "s"), ("gpt", "p")), "solutions": ["s"]},
        "problem_not_text",
    ),
]


@pytest.mark.parametrize(("read", "values", "reason"), BAD)
def test_a_row_without_a_usable_problem_is_left_out(read, values, reason):
    (item,) = RowLayout("rows", read).items(row(**values), Columns())
    assert rejects([item]) == [(reason, None)]
    str(item.as_row()).encode("utf-8")  # what is said about it can itself be written
