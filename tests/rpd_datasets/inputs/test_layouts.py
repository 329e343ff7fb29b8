"""How a row of each layout is taken apart."""

from __future__ import annotations

from typing import Any

import pytest

from rpd_datasets.inputs.layouts import Columns, conversation_row, flat_row, grouped_items
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected

COLUMNS = Columns()


def row(**values: Any) -> Row:
    return Row("a.jsonl:7", values)


def rejects(items: Any) -> list[tuple[str, int | None]]:
    return [(one.reason, one.solution_index) for one in items if isinstance(one, Rejected)]


def conversation(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": role, "value": value} for role, value in turns]


def test_a_grouped_row_becomes_a_problem_with_its_other_columns() -> None:
    values = {"question": "p", "answers": ["s", "t"], "level": 3, "problem": 17}
    items = list(grouped_items(row(**values), Columns(problem="question", solutions="answers")))

    # No other column takes a name that later stages use.
    assert items == [Problem("p", ("s", "t"), {"level": 3, "original_problem": 17}, "a.jsonl:7")]


def test_bad_solutions_are_dropped_by_index_and_lists_beside_them_stay_aligned() -> None:
    solutions = ["good", None, 3, "  ", "\ud800", "x\0y", ["list"]]
    given = row(problem="p", solutions=solutions, correct=[1, 2, 3, 4, 5, 6, 7], tags=["a"])
    items = list(grouped_items(given, COLUMNS))

    assert items[-1] == Problem(
        "p", ("good", "x\0y"), {"correct": [1, 6], "tags": ["a"]}, "a.jsonl:7"
    )
    assert rejects(items) == [
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
    (item,) = grouped_items(row(**values), COLUMNS)
    assert rejects([item]) == [(reason, None)]
    assert isinstance(item, Rejected)
    str(item.as_row()).encode("utf-8")  # what is said about it can itself be written


def test_a_row_with_bad_solutions_only_is_left_out_too() -> None:
    assert rejects(grouped_items(row(problem="p", solutions=[None, ""]), COLUMNS)) == [
        ("null_solution", 0),
        ("empty_solution", 1),
        ("no_usable_solution", None),
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"problem": "p", "solution": "s", "by": "a"}, None),
        ({"solution": "s"}, ("missing_column", None)),
        ({"problem": None, "solution": "s"}, ("null_problem", None)),
        ({"problem": "p", "solution": None}, ("null_solution", "p")),
        ({"problem": "p"}, ("null_solution", "p")),
        ({"problem": "p", "solution": ["s"]}, ("solution_not_text", "p")),
        ({"problem": "p", "solution": "\ud800"}, ("not_unicode", "p")),
    ],
)
def test_a_flat_row_is_one_solution_or_left_out(
    values: dict[str, Any], expected: tuple[str, str | None] | None
) -> None:
    (item,) = flat_row(row(**values), COLUMNS)
    if isinstance(item, Rejected):
        assert (item.reason, item.problem, item.where) == (*(expected or ()), "a.jsonl:7")
    else:
        assert (item, expected) == (Problem("p", ("s",), {"by": "a"}, "a.jsonl:7"), None)


@pytest.mark.parametrize(
    "turns",
    [
        conversation(("system", "Be brief."), ("human", "p"), ("gpt", "<think>\n</think>\ns")),
        [
            {"role": "user", "content": "p"},
            {"role": "assistant", "content": "<think>\n</think>\ns"},
        ],
        {"from": ["human", "gpt"], "value": ["p", "<think>\n</think>\ns"]},
    ],
)
def test_a_conversation_in_any_spelling_gives_question_and_answer(turns: Any) -> None:
    (item,) = conversation_row(row(conversations=turns, difficulty=6), COLUMNS)
    assert item == Problem("p", ("<think>\n</think>\ns",), {"difficulty": 6}, "a.jsonl:7")


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
    assert rejects(conversation_row(row(conversations=turns), COLUMNS)) == [(reason, None)]
