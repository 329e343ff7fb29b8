"""How a row is taken apart: pure functions from a row to problems and what was left out of them.

In every layout a bad solution costs itself, and a row without a usable problem costs the row. Texts
are never altered. `known_layouts.py` lists the layouts; `gathering.py` brings together the rows of
one problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.reasons import Reason

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


ReadRow = Callable[[Row, Columns], Iterable[Problem | Rejected]]


@dataclass(frozen=True)
class RowLayout:
    """How problems and solutions stand in rows.

    Args:
        description (`str`): What stands in a row, in words.
        read (`Callable`): From a row to its problem, and what of it cannot be used.
        needs (`tuple[str, ...]`): The fields of [`Columns`] whose columns must be there.
        one_each (`bool`): Whether a row holds one solution; such rows are gathered by problem.
        columns (`Mapping[str, str]`): What a well-known dataset calls these columns.
        told_by (`tuple[str, ...]`): Further columns of a well-known dataset, by their names.
    """

    description: str
    read: ReadRow
    needs: tuple[str, ...] = ()
    one_each: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    told_by: tuple[str, ...] = ()

    @property
    def well_known(self) -> bool:
        """Whether it is the layout of one dataset, which names its own columns."""
        return bool(self.columns or self.told_by)

    def named(self, columns: Columns) -> Columns:
        """The columns as this layout calls them."""
        return replace(columns, **self.columns)


def kept_names(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The other columns, none of them under a name that later stages use for their own."""
    taken = ("problem", "solutions")
    return {f"original_{key}" if key in taken else key: value for key, value in extra.items()}


def grouped_items(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a problem and a list of solutions.

    Every solution that cannot be used is a [`Rejected`], with its index in the row; then comes the
    [`Problem`] with the others, or a `Rejected` for the row.
    """
    if columns.problem not in row.values:
        yield _rejected(row, _missing(columns.problem))
        return
    text, solutions = row.values[columns.problem], row.values.get(columns.solutions)
    extra = without(row.values, columns.problem, columns.solutions)
    if bad := _bad_text(text, "problem") or _bad_extra(extra):
        yield _rejected(row, bad)
        return
    if not isinstance(solutions, list) or not solutions:
        yield _rejected(row, _bad_list(row.values, columns.solutions), text)
        return
    # Solutions of other types are given up below; Problem only ever holds text.
    whole = Problem(text, tuple(solutions), kept_names(extra), row.place)
    usable = []
    for index, solution in enumerate(solutions):
        if bad := _bad_text(solution, "solution"):
            yield whole.rejected("read", *bad, solution_index=index)
        else:
            usable.append(index)
    if not usable:
        detail = "None of its solutions can be used."
        yield whole.rejected("read", Reason.NO_USABLE_SOLUTION, detail)
    else:
        yield whole if len(usable) == len(solutions) else whole.take(usable)


def flat_row(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with a problem and one solution."""
    if columns.problem not in row.values:
        yield _rejected(row, _missing(columns.problem))
    else:
        extra = without(row.values, columns.problem, columns.solution)
        solution = row.values.get(columns.solution)
        yield _one_solution(row, row.values[columns.problem], solution, extra)


def conversation_row(row: Row, columns: Columns) -> Iterator[Problem | Rejected]:
    """Take apart a row with one question and one answer as messages, as in OpenThoughts3.

    Turns are `{"from": "human" | "gpt", "value": ...}` or `{"role": ..., "content": ...}`; a
    system turn is passed over.
    """
    turns = row.values.get(columns.conversations)
    if isinstance(turns, dict) and all(isinstance(value, list) for value in turns.values()):
        # Older versions of `datasets` turn a list of objects into an object of lists.
        turns = [
            dict(zip(turns, values, strict=False)) for values in zip(*turns.values(), strict=False)
        ]
    if not isinstance(turns, list) or not turns:
        yield _rejected(row, _bad_list(row.values, columns.conversations))
        return
    asked, answered = (said_by(roles, turns) for roles in (HUMAN, MODEL))
    if len(asked) != 1 or len(answered) != 1:
        detail = f"{len(asked)} human and {len(answered)} model turns; one of each is wanted."
        yield _rejected(row, (Reason.NOT_ONE_EXCHANGE, detail))
        return
    extra = without(row.values, columns.conversations)
    yield _one_solution(row, asked[0], answered[0], extra)


def said_by(roles: Sequence[str], turns: Iterable[Any]) -> list[Any]:
    """What some roles say in a conversation."""
    return [
        turn.get("value", turn.get("content"))
        for turn in turns
        if isinstance(turn, dict) and turn.get("from", turn.get("role")) in roles
    ]


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A row's values but for some columns."""
    return {name: value for name, value in values.items() if name not in names}


def _one_solution(
    row: Row, problem: Any, solution: Any, extra: dict[str, Any]
) -> Problem | Rejected:
    if bad := _bad_text(problem, "problem") or _bad_extra(extra):
        return _rejected(row, bad)
    if bad := _bad_text(solution, "solution"):
        return _rejected(row, bad, problem)
    return Problem(problem, (solution,), kept_names(extra), row.place)


def _rejected(row: Row, bad: tuple[Reason, str], problem: str | None = None) -> Rejected:
    return Rejected("read", bad[0], row.place, bad[1], problem)


def _missing(column: str) -> tuple[Reason, str]:
    return Reason.MISSING_COLUMN, f"The row has no column {column!r}."


def _bad_list(values: Mapping[str, Any], column: str) -> tuple[Reason, str]:
    """Why there is no list with something in it."""
    if column not in values:
        return _missing(column)
    value = values[column]
    if value is None:
        return Reason.NULL_GROUP, f"The column {column!r} is null."
    if value == []:
        return Reason.EMPTY_GROUP, f"The list {column!r} is empty."
    return Reason.NOT_A_LIST, f"The column {column!r} holds {_kind(value)}, not a list."


def _bad_text(value: Any, role: str) -> tuple[Reason, str] | None:
    """Why a value cannot serve as a `"problem"` or a `"solution"`, and a line about it."""
    if value is None:
        return Reason(f"null_{role}"), f"The {role} is null."
    if not isinstance(value, str):
        return Reason(f"{role}_not_text"), f"The {role} is {_kind(value)}, not text."
    if not value.strip():
        return Reason(f"empty_{role}"), f"The {role} is empty or blank."
    if not _is_unicode(value):
        return _not_unicode(f"The {role}")
    return None


def _bad_extra(extra: Mapping[str, Any]) -> tuple[Reason, str] | None:
    for name, value in extra.items():
        if not _is_unicode(name) or not _is_unicode(value):
            shown = name.encode("ascii", "backslashreplace").decode()
            return _not_unicode(f"The column {shown!r}")
    return None


def _not_unicode(what: str) -> tuple[Reason, str]:
    return Reason.NOT_UNICODE, f"{what} holds half of a surrogate pair and cannot be written."


def _is_unicode(value: Any) -> bool:
    """Whether all text in a value can be written as UTF-8, which Parquet and JSON need."""
    if isinstance(value, Mapping):
        return all(map(_is_unicode, value)) and all(map(_is_unicode, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_unicode, value))
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "something else")
