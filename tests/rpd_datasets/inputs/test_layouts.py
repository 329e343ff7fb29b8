"""How a row of each layout is taken apart: what is bad costs itself, with its reason and place."""

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
    found = [one for one in items if isinstance(one, Rejected)]
    assert all(one.where == "a.jsonl:7" and one.stage == "read" for one in found)
    return [(one.reason, one.solution_index) for one in found]


def turns(*each: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": role, "value": value} for role, value in each]


def test_a_grouped_row_becomes_a_problem_with_its_other_columns() -> None:
    values = {"question": "p", "answers": ["s", "t"], "level": 3, "problem": 17}
    items = list(grouped_items(row(**values), Columns(problem="question", solutions="answers")))
    # No other column takes a name that later stages use.
    assert items == [Problem("p", ("s", "t"), {"level": 3, "original_problem": 17}, "a.jsonl:7")]


def test_bad_solutions_are_dropped_by_index_and_lists_beside_them_stay_aligned() -> None:
    solutions = ["good", None, 3, "  ", "\ud800", "x\0y", ["list"]]
    given = row(problem="p", solutions=solutions, correct=[1, 2, 3, 4, 5, 6, 7], tags=["a"])
    *left_out, problem = grouped_items(given, COLUMNS)
    extra = {"correct": [1, 6], "tags": ["a"]}
    assert problem == Problem("p", ("good", "x\0y"), extra, "a.jsonl:7")
    assert rejects(left_out) == [
        ("null_solution", 1),
        ("solution_not_text", 2),
        ("empty_solution", 3),
        ("not_unicode", 4),
        ("solution_not_text", 6),
    ]
    *_, last = rejects(grouped_items(row(problem="p", solutions=[None, ""]), COLUMNS))
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
    (flat_row, {"problem": "p", "solution": ["s"]}, "solution_not_text"),
    (conversation_row, {"conversations": "human: p"}, "not_a_list"),
    (conversation_row, {"conversations": TALK + TALK}, "not_one_exchange"),
    (conversation_row, {"conversations": turns(("human", "p"), ("gpt", 4))}, "solution_not_text"),
]


@pytest.mark.parametrize(("read", "values", "reason"), BAD)
def test_a_row_without_a_usable_problem_is_left_out(
    read: Any, values: dict[str, Any], reason: str
) -> None:
    (item,) = read(row(**values), COLUMNS)
    assert rejects([item]) == [(reason, None)]
    str(item.as_row()).encode("utf-8")  # what is said about it can itself be written


ANSWER = "<think>\n</think>\ns"


@pytest.mark.parametrize(
    "talk",
    [
        turns(("system", "Be brief."), ("human", "p"), ("gpt", ANSWER)),
        [{"role": "user", "content": "p"}, {"role": "assistant", "content": ANSWER}],
        {"from": ["human", "gpt"], "value": ["p", ANSWER]},
    ],
)
def test_a_conversation_in_any_spelling_gives_question_and_answer(talk: Any) -> None:
    (item,) = conversation_row(row(conversations=talk, difficulty=6), COLUMNS)
    assert item == Problem("p", (ANSWER,), {"difficulty": 6}, "a.jsonl:7")
