"""The row layouts that problems come in: which one it is, and how each row is taken apart.

Pure functions from a row's values to problems, solutions and what was left out of them. In every
layout, a bad solution costs itself and a row without a usable problem costs the row. Texts are
never altered. Which rows belong together is decided in `grouping.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rpd_datasets.inputs.files import Row
from rpd_datasets.inputs.grouping import FlatRow
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

Layout = Literal["auto", "grouped", "flat", "openthoughts"]

# Names that other datasets give to the columns; only used to suggest one.
USUAL_NAMES = {
    "problem": ("question", "prompt", "query", "instruction", "input", "task"),
    "solutions": ("responses", "generations", "completions", "answers", "samples", "outputs"),
    "solution": ("response", "generation", "completion", "output", "answer"),
    "conversations": ("conversation", "messages", "dialogue", "turns"),
}
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


def check_columns(
    samples: Sequence[Mapping[str, Any]],
    name: str,
    columns: Columns,
    layout: Layout,
    only: Mapping[str, str],
) -> Layout:
    """Tell the layout from the first rows, and that the columns it needs are there.

    Args:
        samples (`Sequence[Mapping]`): Some rows; together they show the columns there are.
        name (`str`): What the input is called.
        columns ([`Columns`]): What the columns should be called.
        layout (`str`): The layout asked for, or `"auto"`.
        only (`Mapping[str, str]`): Further columns that must be there.

    Returns:
        `str`: `"grouped"`, `"flat"` or `"openthoughts"`.

    Raises:
        InputError: If a column is missing; it lists those there are, and suggests one.
    """
    there = list(dict.fromkeys(column for sample in samples for column in sample))
    if layout == "auto":
        layout = _guess_layout(there, columns)
    needed = {
        "grouped": ("problem", "solutions"),
        "flat": ("problem", "solution"),
        "openthoughts": ("conversations",),
    }
    if layout not in needed:
        raise InputError(f"layout must be auto, {', '.join(needed)}; not {layout!r}.")
    missing = [role for role in needed[layout] if getattr(columns, role) not in there]
    if missing:
        raise InputError(_missing(missing, name, columns, there))
    for column in only:
        if column not in there:
            raise InputError(
                f"{name} has no column {column!r} for the option only. Its columns are: "
                f"{', '.join(there)}."
            )
    if layout == "grouped":
        values = [sample.get(columns.solutions) for sample in samples]
        if any(isinstance(value, str) for value in values) and not any(
            isinstance(value, list) for value in values
        ):
            raise InputError(
                f"The column {columns.solutions!r} of {name} holds one text a row, not a list. "
                f'Read it as flat rows: layout="flat", Columns(solution="{columns.solutions}") '
                f"(--layout flat --solution-column {columns.solutions})."
            )
    return layout


def _guess_layout(there: Sequence[str], columns: Columns) -> Layout:
    if columns.problem in there and columns.solutions in there:
        return "grouped"
    if columns.problem in there and columns.solution in there:
        return "flat"
    if columns.conversations in there:
        return "openthoughts"
    # Nothing fits: name the layout that needs the fewest columns put right.
    return "flat" if columns.solution in there else "grouped"


def _missing(missing: Sequence[str], name: str, columns: Columns, there: Sequence[str]) -> str:
    names = " and ".join(repr(getattr(columns, role)) for role in missing)
    likely = {role: _likely(role, getattr(columns, role), there) for role in missing}
    fields = ", ".join(f'{role}="{likely[role] or "..."}"' for role in missing)
    options = " ".join(f"--{role}-column {likely[role] or '...'}" for role in missing)
    guesses = [repr(guess) for guess in likely.values() if guess]
    return (
        f"{name} has no column {names}. Its columns are: {', '.join(there) or 'none'}. "
        + (f"Perhaps {' and '.join(guesses)}: name" if guesses else "Name")
        + f" it with Columns({fields}), on the command line {options}."
    )


def _likely(role: str, wanted: str, there: Sequence[str]) -> str | None:
    by_lower = {column.lower(): column for column in there}
    usual = [by_lower[name] for name in (role, *USUAL_NAMES[role]) if name in by_lower]
    close = difflib.get_close_matches(wanted.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[close[0]] if close else usual[0] if usual else None


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
    return _one_solution(row, extra, row.values, problem=columns.problem, solution=columns.solution)


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
    return _one_solution(row, extra, exchange, problem="problem", solution="solution")


def _one_solution(
    row: Row, extra: dict[str, Any], values: Mapping[str, Any], *, problem: str, solution: str
) -> FlatRow | Rejected:
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
