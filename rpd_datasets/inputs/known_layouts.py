"""The row layouts that problems come in, one entry each, and which one an input has.

To add one, write a function that takes its rows apart, as those in `layouts.py` do, and enter it
here; its name goes into `Layout`, too, which the options read.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rpd_datasets.inputs.grouping import FlatRow
from rpd_datasets.inputs.layouts import Columns, conversation_row, flat_row, grouped_items
from rpd_datasets.inputs.rows import Row
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

Layout = Literal["auto", "grouped", "flat", "openthoughts"]
ReadProblem = Callable[[Row, Columns], Iterator[Problem | Rejected]]
ReadSolution = Callable[[Row, Columns], FlatRow | Rejected]


@dataclass(frozen=True)
class RowLayout:
    """How problems and solutions stand in rows; one of the two functions is set.

    Args:
        needs (`tuple[str, ...]`): The columns that must be there, as fields of [`Columns`].
        problem (`Callable`, *optional*): From a row that is a whole problem to that problem, and
            what of it cannot be used.
        solution (`Callable`, *optional*): From a row with one solution to that; such rows are
            grouped by problem afterwards.
    """

    needs: tuple[str, ...]
    problem: ReadProblem | None = None
    solution: ReadSolution | None = None


# "auto" is the first of these whose columns are all there.
LAYOUTS = {
    "grouped": RowLayout(("problem", "solutions"), problem=grouped_items),
    "flat": RowLayout(("problem", "solution"), solution=flat_row),
    "openthoughts": RowLayout(("conversations",), solution=conversation_row),
}

# Names that other datasets give to the columns; only used to suggest one.
USUAL_NAMES = {
    "problem": ("question", "prompt", "query", "instruction", "input", "task"),
    "solutions": ("responses", "generations", "completions", "answers", "samples", "outputs"),
    "solution": ("response", "generation", "completion", "output", "answer"),
    "conversations": ("conversation", "messages", "dialogue", "turns"),
}


def check_columns(
    samples: Sequence[Mapping[str, Any]],
    name: str,
    columns: Columns,
    layout: str,
) -> str:
    """Tell the layout from the first rows, and that the columns it needs are there.

    Args:
        samples (`Sequence[Mapping]`): Some rows; together they show the columns there are.
        name (`str`): What the input is called.
        columns ([`Columns`]): What the columns should be called.
        layout (`str`): The layout asked for, or `"auto"`.

    Returns:
        `str`: One of `LAYOUTS`.

    Raises:
        InputError: If a column is missing; it lists those there are, and suggests one.
    """
    there = list(dict.fromkeys(column for sample in samples for column in sample))
    if layout == "auto":
        layout = _guess_layout(there, columns)
    if layout not in LAYOUTS:
        raise InputError(f"layout must be auto, {', '.join(LAYOUTS)}; not {layout!r}.")
    missing = [role for role in LAYOUTS[layout].needs if getattr(columns, role) not in there]
    if missing:
        raise InputError(_missing(missing, name, columns, there))
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


def check_only(samples: Sequence[Mapping[str, Any]], name: str, only: Mapping[str, str]) -> None:
    """See that the columns by whose values rows are picked are there.

    Raises:
        InputError: If one is not; it lists those there are.
    """
    there = list(dict.fromkeys(column for sample in samples for column in sample))
    for column in only:
        if column not in there:
            near = difflib.get_close_matches(column.lower(), there, n=1, cutoff=0.6)
            perhaps = f" Perhaps --only {near[0]}={only[column]}." if near else ""
            raise InputError(
                f"{name} has no column {column!r} for the option only. Its columns are: "
                f"{', '.join(there)}.{perhaps}"
            )


def _guess_layout(there: Sequence[str], columns: Columns) -> str:
    for name, layout in LAYOUTS.items():
        if all(getattr(columns, role) in there for role in layout.needs):
            return name
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
