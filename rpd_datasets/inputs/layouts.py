"""How a row of each layout is taken apart; `registry.py` lists the layouts.

Pure functions from a row's values to problems, solutions and what was left out of them. In every
layout, a bad solution costs itself and a row without a usable problem costs the row. Texts are
never altered. Which rows belong together is decided in `grouping.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rpd_datasets.inputs.grouping import FlatRow
from rpd_datasets.inputs.rows import Row
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected

HUMAN = ("human", "user")
MODEL = ("gpt", "assistant", "model")


@documented
@dataclass(frozen=True)
class Columns:
    """What the columns are called in the input."""

    problem: str = option("problem", "text", name="problem_column", metavar="NAME")
    solutions: str = option("solutions", "list of texts", name="solutions_column", metavar="NAME")
    solution: str = option("solution", "text, in flat rows", name="solution_column", metavar="NAME")
    conversations: str = option(
        "conversations", "list of messages", name="conversations_column", metavar="NAME"
    )


def kept_names(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The other columns under names of their own.

    `problem` and `solutions` are what every later stage calls its columns, so columns that are
    called so without being read as such are kept as `original_problem`, `original_solutions`.
    """
    taken = ("problem", "solutions")
    return {f"original_{key}" if key in taken else key: value for key, value in extra.items()}


def grouped_items(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take a grouped row apart.

    Args:
        row ([`Row`]): A row with a problem and a list of solutions.
        columns ([`Columns`]): What they are called.

    Yields:
        A [`Rejected`] for every solution that cannot be used (its index is that of the row), then
        the [`Problem`] with the others, or a `Rejected` for the row. Lists beside the solutions
        are shortened with them.
    """
    where = str(row.place)
    extra = _others(row.values, columns.problem, columns.solutions)
    if bad := _bad_problem(row.values, columns.problem) or _bad_extra(extra):
        yield Rejected("read", bad[0], where, bad[1])
        return
    text = row.values[columns.problem]
    solutions = row.values.get(columns.solutions)
    if not isinstance(solutions, list) or not solutions:
        reason, detail = _bad_list(row.values, columns.solutions)
        yield Rejected("read", reason, where, detail, text)
        return
    # Solutions of other types are given up below; Problem only ever holds text.
    whole = Problem(text, tuple(solutions), kept_names(extra), where)
    usable = []
    for index, solution in enumerate(solutions):
        if bad := _bad_text(solution, "solution"):
            yield whole.rejected("read", *bad, solution_index=index)
        else:
            usable.append(index)
    if not usable:
        yield whole.rejected("read", "no_usable_solution", "None of its solutions can be used.")
    else:
        yield whole if len(usable) == len(solutions) else whole.take(usable)


def flat_row(row: Row, columns: Columns) -> FlatRow | Rejected:
    """Take apart a row with a problem and one solution."""
    extra = _others(row.values, columns.problem, columns.solution)
    return one_solution(row, extra, row.values, problem=columns.problem, solution=columns.solution)


def conversation_row(row: Row, columns: Columns) -> FlatRow | Rejected:
    """Take apart a `conversations` row: one question and one answer, as in OpenThoughts3.

    Turns are `{"from": "human" | "gpt", "value": ...}` or `{"role": ..., "content": ...}`; a
    system turn is passed over.
    """
    extra = _others(row.values, columns.conversations)
    turns = row.values.get(columns.conversations)
    if isinstance(turns, dict) and all(isinstance(value, list) for value in turns.values()):
        # Older versions of `datasets` turn a list of objects into an object of lists.
        turns = [
            dict(zip(turns, values, strict=False)) for values in zip(*turns.values(), strict=False)
        ]
    if not isinstance(turns, list) or not turns:
        return Rejected("read", *_in_order(_bad_list(row.values, columns.conversations), row))
    texts_of: dict[str, list[Any]] = {"problem": [], "solution": []}
    for turn in turns:
        if isinstance(turn, dict):
            role = turn.get("from", turn.get("role"))
            if role in HUMAN:
                texts_of["problem"].append(turn.get("value", turn.get("content")))
            elif role in MODEL:
                texts_of["solution"].append(turn.get("value", turn.get("content")))
    if any(len(texts) != 1 for texts in texts_of.values()):
        detail = (
            f"{len(texts_of['problem'])} human and {len(texts_of['solution'])} model turns; one "
            "of each is wanted."
        )
        return Rejected("read", "not_one_exchange", str(row.place), detail)
    exchange = {role: texts[0] for role, texts in texts_of.items()}
    return one_solution(row, extra, exchange, problem="problem", solution="solution")


def one_solution(
    row: Row, extra: dict[str, Any], values: Mapping[str, Any], *, problem: str, solution: str
) -> FlatRow | Rejected:
    """A row with one solution, or why it cannot be used.

    Args:
        row ([`Row`]): The row, for its place.
        extra (`dict`): Its columns that are carried along.
        values (`Mapping`): Where the two texts stand.
        problem, solution (`str`): Under which names.
    """
    if bad := _bad_problem(values, problem) or _bad_extra(extra):
        return Rejected("read", *_in_order(bad, row))
    if bad := _bad_text(values.get(solution), "solution"):
        return Rejected("read", *_in_order(bad, row), problem=values[problem])
    return FlatRow(row.place, values[problem], values[solution], extra)


def _in_order(bad: tuple[str, str], row: Row) -> tuple[str, str, str]:
    return bad[0], str(row.place), bad[1]


def _others(values: Mapping[str, Any], *used: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in used}


def _bad_problem(values: Mapping[str, Any], column: str) -> tuple[str, str] | None:
    if column not in values:
        return "missing_column", f"The row has no column {column!r}."
    return _bad_text(values[column], "problem")


def _bad_list(values: Mapping[str, Any], column: str) -> tuple[str, str]:
    """Why there is no list with something in it."""
    if column not in values:
        return "missing_column", f"The row has no column {column!r}."
    value = values[column]
    if value is None:
        return "null_group", f"The column {column!r} is null."
    if value == []:
        return "empty_group", f"The list {column!r} is empty."
    return "not_a_list", f"The column {column!r} holds {_kind(value)}, not a list."


def _bad_text(value: Any, role: str) -> tuple[str, str] | None:
    """The reason why a value cannot serve as a problem or a solution, and a line about it."""
    if value is None:
        return f"null_{role}", f"The {role} is null."
    if not isinstance(value, str):
        return f"{role}_not_text", f"The {role} is {_kind(value)}, not text."
    if not value.strip():
        return f"empty_{role}", f"The {role} is empty or blank."
    if not _is_unicode(value):
        return "not_unicode", f"The {role} holds half of a surrogate pair and cannot be written."
    return None


def _bad_extra(extra: Mapping[str, Any]) -> tuple[str, str] | None:
    for name, value in extra.items():
        if not _is_unicode(name) or not _is_unicode(value):
            shown = name.encode("ascii", "backslashreplace").decode()
            detail = f"The column {shown!r} holds half of a surrogate pair and cannot be written."
            return "not_unicode", detail
    return None


def _is_unicode(value: Any) -> bool:
    """Whether all text in a value can be written as UTF-8, which Parquet and JSON need."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True
    if isinstance(value, Mapping):
        return all(_is_unicode(key) and _is_unicode(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_unicode(inner) for inner in value)
    return True


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "something else")
