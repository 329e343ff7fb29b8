"""Row layouts: which one it is, and how each row is taken apart."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from rpd_datasets.inputs.grouping import FlatRow
from rpd_datasets.inputs.known_layouts import LAYOUTS, Layout, check_columns, check_only
from rpd_datasets.inputs.layouts import (
    Columns,
    conversation_row,
    flat_row,
    grouped_items,
    kept_names,
)
from rpd_datasets.inputs.raw_rows import Place, Row
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

COLUMNS = Columns()
NAN = float("nan")


def row(**values: Any) -> Row:
    return Row(Place("a.jsonl", 7), values)


def check(
    there: dict[str, Any], layout: Any = "auto", columns: Columns = COLUMNS, **only: str
) -> str:
    check_only([there], "a.jsonl", only)
    return check_columns([there], "a.jsonl", columns, layout)


def reasons(values: dict[str, Any]) -> list[tuple[str, int | None]]:
    items = grouped_items(Row(Place("a.jsonl", 7), values), COLUMNS)
    return [(item.reason, item.solution_index) for item in items if isinstance(item, Rejected)]


def conversation(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": role, "value": value} for role, value in turns]


@pytest.mark.parametrize(
    ("there", "layout"),
    [
        ({"problem": "p", "solutions": ["s"], "solution": "s", "conversations": []}, "grouped"),
        ({"problem": "p", "solution": "s", "conversations": []}, "flat"),
        ({"conversations": [], "problem": "p"}, "openthoughts"),
    ],
)
def test_the_layout_is_the_first_whose_columns_are_there(
    there: dict[str, Any], layout: str
) -> None:
    assert check(there) == layout


def test_columns_of_later_rows_count_as_well() -> None:
    samples = [{"problem": "p"}, {"problem": "p", "solutions": ["s"]}]

    assert check_columns(samples, "a.jsonl", COLUMNS, "auto") == "grouped"


def test_a_missing_column_is_one_error_with_the_columns_there_are_and_a_suggestion() -> None:
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
        ({"problm": "p", "solution": "s"}, "auto", 'Columns\\(problem="problm"\\)'),
        ({"Problem": "p", "solutions": ["s"]}, "grouped", "--problem-column Problem"),
        ({"problem": "p", "solutions": ["s"]}, "flat", "no column 'solution'"),
        ({"messages": []}, "openthoughts", 'Columns\\(conversations="messages"\\)'),
        ({"x": 1, "y": 2}, "auto", 'Name it with Columns\\(problem="...", solutions="..."\\)'),
        ({}, "grouped", "Its columns are: none"),
    ],
)
def test_the_suggestion_fits_what_is_missing(
    there: dict[str, Any], layout: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check(there, layout)


def test_a_column_of_text_is_not_taken_for_a_list_of_solutions() -> None:
    with pytest.raises(InputError, match=r"holds one text a row.*--solution-column solutions"):
        check({"problem": "p", "solutions": "s"})
    assert check({"problem": "p", "solutions": None}) == "grouped"


def test_an_unknown_layout_and_a_missing_filter_column_are_errors() -> None:
    with pytest.raises(InputError, match="layout must be auto, grouped, flat, openthoughts"):
        check({"problem": "p", "solutions": ["s"]}, "chat")
    with pytest.raises(InputError, match=r"no column 'domain' for the option only"):
        check({"problem": "p", "solutions": ["s"]}, domain="math")


def test_a_grouped_row_becomes_a_problem_with_its_other_columns() -> None:
    values = {"question": "p", "answers": ["s", "t"], "level": 3, "correct": [True, False]}
    items = list(grouped_items(row(**values), Columns(problem="question", solutions="answers")))

    extra = {"level": 3, "correct": [True, False]}
    assert items == [Problem("p", ("s", "t"), extra, "a.jsonl:7")]


def test_bad_solutions_are_dropped_by_index_and_lists_beside_them_stay_aligned() -> None:
    solutions = ["good", None, 3, "  ", "\ud800", "x\0y", ["list"]]
    items = list(
        grouped_items(
            row(problem="p", solutions=solutions, correct=[1, 2, 3, 4, 5, 6, 7], tags=["a"]),
            COLUMNS,
        )
    )

    assert items[-1] == Problem(
        "p", ("good", "x\0y"), {"correct": [1, 6], "tags": ["a"]}, "a.jsonl:7"
    )
    assert [(item.reason, item.solution_index) for item in items[:-1]] == [
        ("null_solution", 1),
        ("solution_not_text", 2),
        ("empty_solution", 3),
        ("not_unicode", 4),
        ("solution_not_text", 6),
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"solutions": ["s"]}, "missing_column"),
        ({"problem": None, "solutions": ["s"]}, "null_problem"),
        ({"problem": 3, "solutions": ["s"]}, "problem_not_text"),
        ({"problem": "\n", "solutions": ["s"]}, "empty_problem"),
        ({"problem": "p\udc00", "solutions": ["s"]}, "not_unicode"),
        ({"problem": "p"}, "missing_column"),
        ({"problem": "p", "solutions": None}, "null_group"),
        ({"problem": "p", "solutions": "s"}, "not_a_list"),
        ({"problem": "p", "solutions": []}, "empty_group"),
        ({"problem": "p", "solutions": ["s"], "meta": {"by": ["\ud800"]}}, "not_unicode"),
        ({"problem": "p", "solutions": ["s"], "\ud800": 1}, "not_unicode"),
    ],
)
def test_a_row_without_a_usable_problem_is_left_out(values: dict[str, Any], reason: str) -> None:
    assert reasons(values) == [(reason, None)]


def test_a_row_with_bad_solutions_only_is_left_out_too() -> None:
    assert reasons({"problem": "p", "solutions": [None, ""]}) == [
        ("null_solution", 0),
        ("empty_solution", 1),
        ("no_usable_solution", None),
    ]


def test_what_is_said_about_a_bad_row_can_itself_be_written() -> None:
    for values in ({"problem": "\ud800"}, {"problem": "p", "solutions": ["s"], "\ud800": 1}):
        for item in grouped_items(row(**values), COLUMNS):
            assert isinstance(item, Rejected)
            str(item.as_row()).encode("utf-8")


def test_a_flat_row_is_one_solution() -> None:
    assert flat_row(row(problem="p", solution="s", by="a"), COLUMNS) == FlatRow(
        Place("a.jsonl", 7), "p", "s", {"by": "a"}
    )


@pytest.mark.parametrize(
    ("values", "reason", "problem"),
    [
        ({"problem": None, "solution": "s"}, "null_problem", None),
        ({"problem": "p", "solution": None}, "null_solution", "p"),
        ({"problem": "p"}, "null_solution", "p"),
        ({"problem": "p", "solution": ["s"]}, "solution_not_text", "p"),
        ({"problem": "p", "solution": "\ud800"}, "not_unicode", "p"),
    ],
)
def test_a_bad_flat_row_is_left_out(
    values: dict[str, Any], reason: str, problem: str | None
) -> None:
    item = flat_row(row(**values), COLUMNS)

    assert isinstance(item, Rejected)
    assert (item.reason, item.where, item.problem) == (reason, "a.jsonl:7", problem)


def test_a_conversation_gives_question_answer_and_the_other_columns() -> None:
    answer = "<think>\nLet me see.\n</think>\nIt is $\\boxed{4}$."
    turns = conversation(("system", "Be brief."), ("human", "2 + 2?"), ("gpt", answer))

    item = conversation_row(row(conversations=turns, difficulty=6, domain="math"), COLUMNS)

    assert item == FlatRow(
        Place("a.jsonl", 7), "2 + 2?", answer, {"difficulty": 6, "domain": "math"}
    )


def test_conversations_in_other_spellings_are_read_as_well() -> None:
    expected = FlatRow(Place("a.jsonl", 7), "p", "s", {})
    roles = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "s"}]
    columns = {"from": ["human", "gpt"], "value": ["p", "s"]}

    assert conversation_row(row(conversations=roles), COLUMNS) == expected
    assert conversation_row(row(conversations=columns), COLUMNS) == expected


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (None, "null_group"),
        ([], "empty_group"),
        ("human: p", "not_a_list"),
        (conversation(("human", "p")), "not_one_exchange"),
        (
            conversation(("human", "p"), ("gpt", "s"), ("human", "q"), ("gpt", "t")),
            "not_one_exchange",
        ),
        (["p", "s"], "not_one_exchange"),
        (conversation(("human", None), ("gpt", "s")), "null_problem"),
        (conversation(("human", "p"), ("gpt", 4)), "solution_not_text"),
    ],
)
def test_a_conversation_that_is_not_one_exchange_is_left_out(turns: Any, reason: str) -> None:
    item = conversation_row(row(conversations=turns), COLUMNS)

    assert isinstance(item, Rejected)
    assert (item.reason, item.where) == (reason, "a.jsonl:7")


def test_other_columns_never_take_the_names_that_later_stages_use() -> None:
    assert kept_names({"problem": 1, "solutions": 2, "solution": 3}) == {
        "original_problem": 1,
        "original_solutions": 2,
        "solution": 3,
    }


def test_every_layout_has_a_name_for_the_options_and_one_way_to_read_it() -> None:
    assert {"auto", *LAYOUTS} == set(get_args(Layout))
    for layout in LAYOUTS.values():
        assert set(layout.needs) <= set(Columns.__dataclass_fields__)
        assert (layout.problem is None) != (layout.solution is None)
