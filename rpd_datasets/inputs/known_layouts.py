"""The layouts that rows come in, one table, and which one an input has.

Some are those of well-known datasets, so that these need no option; docs/inputs.md shows them. What
the options name is never overruled. Which columns say what is right is decided for all inputs alike
in `filters/answer_checks.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rpd_datasets.inputs.layouts import (
    HUMAN,
    MODEL,
    Columns,
    ReadRow,
    RowLayout,
    conversation_row,
    flat_row,
    grouped_items,
    said_by,
    without,
)
from rpd_metric.errors import InputError
from rpd_metric.registry import Registry

Values = dict[str, Any]
# DeepMath numbers its solutions; others do so with the same words.
NUMBERED = re.compile(r"(?:r1_)?(?:solution|generation|response|completion)_(\d+)")
# Who wrote the two traces of a row of s1K-1.1.
S1K_MODELS = ("gemini", "deepseek")


def numbered_solutions(values: Values) -> Values:
    """A row with a solution in each of several numbered columns, as DeepMath's.

    >>> row = {"question": "2 + 2?", "r1_solution_1": "4.", "r1_solution_2": "Four.", "topic": "a"}
    >>> numbered_solutions(row)
    {'topic': 'a', 'problem': '2 + 2?', 'solutions': ['4.', 'Four.']}
    """
    numbers = {name: int(match[1]) for name in values if (match := NUMBERED.fullmatch(name))}
    order = sorted(numbers, key=lambda name: numbers[name])
    return {
        **without(values, "question", *order),
        "problem": values.get("question"),
        "solutions": [values[name] for name in order if values[name] is not None],
    }


def s1k_solutions(values: Values) -> Values:
    """A row of s1K or s1K-1.1: each trace of thoughts with the answer that was given after it.

    s1K-1.1 has a grade for both models, "Yes" or "No", which becomes the mark.
    """
    columns = {"": ("thinking_trajectories", "attempt")} | {
        f"{who}_grade": (f"{who}_thinking_trajectory", f"{who}_attempt") for who in S1K_MODELS
    }
    turned = without(values, "question", *(name for pair in columns.values() for name in pair))
    solutions, grades = [], []
    for grade, pair in columns.items():
        thoughts, attempt = (values.get(name) for name in pair)
        if isinstance(thoughts, list):
            thoughts = thoughts[0] if thoughts else None
        if thoughts and attempt:
            solutions.append(f"<think>\n{thoughts}\n</think>\n\n{attempt}")
            grades.append(str(values.get(grade)).strip().lower())
    turned |= {"problem": values.get("question"), "solutions": solutions}
    if {"yes", "no"} & set(grades):
        turned["correct"] = [{"yes": True, "no": False}.get(grade) for grade in grades]
    return turned


def prompt_and_completion(values: Values) -> Values:
    """A row of TRL's prompt-completion type, whose two sides may be lists of messages."""

    def text(side: Any, roles: tuple[str, ...]) -> Any:
        # Where there are more messages than one, none is the right one: the row goes.
        said = said_by(roles, side) if isinstance(side, list) else [side]
        return said[0] if len(said) == 1 else None

    return {
        **without(values, "prompt", "completion"),
        "problem": text(values.get("prompt"), HUMAN),
        "solution": text(values.get("completion"), MODEL),
    }


def _turned(turn: Callable[[Values], Values], read: ReadRow) -> ReadRow:
    """Read a row after it was turned into one with `problem` and `solutions` or `solution`."""
    return lambda row, columns: read(replace(row, values=turn(row.values)), columns)


def _grouped(description: str, **columns: str) -> RowLayout:
    return RowLayout(description, grouped_items, ("problem", "solutions"), columns=columns)


def _pairs(description: str, **columns: str) -> RowLayout:
    roles = ("problem", "solution")
    return RowLayout(description, flat_row, roles, one_each=True, columns=columns)


def _messages(description: str, **columns: str) -> RowLayout:
    roles = ("conversations",)
    return RowLayout(description, conversation_row, roles, one_each=True, columns=columns)


def _told(description: str, turn: Callable[[Values], Values], *columns: str) -> RowLayout:
    read = _turned(turn, grouped_items)
    return RowLayout(description, read, told_by=columns)


LAYOUTS = Registry(
    "layout",
    RowLayout,
    {
        "grouped": _grouped("a problem and its solutions in each row"),
        # Its `solution` is a reference text; the sampled solutions are the list.
        "openr1-math": _grouped(
            "a problem and its generations in each row, as OpenR1-Math",
            problem="problem",
            solutions="generations",
        ),
        "openmathreasoning": _pairs(
            "a problem and one solution in each row, as OpenMathReasoning",
            problem="problem",
            solution="generated_solution",
        ),
        "flat": _pairs("a problem and one solution in each row"),
        "openthoughts": _messages("a question and an answer as messages in each row"),
        "deepmath": _told(
            "a question and numbered solutions in each row, as DeepMath",
            numbered_solutions,
            *("question", "r1_solution_1"),
        ),
        "s1k": _told(
            "thoughts and an attempt in each row, as s1K: one solution with a think block",
            s1k_solutions,
            *("question", "thinking_trajectories", "attempt"),
        ),
        "s1k-1.1": _told(
            "thoughts and attempts of two models in each row, as s1K-1.1: two solutions with think "
            "blocks, and their grades as marks",
            s1k_solutions,
            *("question", "deepseek_thinking_trajectory", "deepseek_attempt"),
        ),
        "limo": _pairs(
            "a question and one solution in each row, as LIMO",
            problem="question",
            solution="solution",
        ),
        "acereason": _pairs(
            "an input and an output in each row, as AceReason", problem="input", solution="output"
        ),
        "prompt-completion": RowLayout(
            "a prompt and a completion in each row, texts or messages, as TRL has them",
            _turned(prompt_and_completion, flat_row),
            one_each=True,
            told_by=("prompt", "completion"),
        ),
        "messages": _messages(
            "a question and an answer as messages in each row, as TRL has them",
            conversations="messages",
        ),
    },
    group="rpd.layouts",
)

# Names that other datasets give to the columns; only used to suggest one.
USUAL_NAMES = {
    "problem": ("question", "prompt", "query", "instruction", "input", "task"),
    "solutions": ("responses", "generations", "completions", "answers", "samples", "outputs"),
    "solution": ("response", "generation", "completion", "output", "answer"),
    "conversations": ("conversation", "messages", "dialogue", "turns"),
}


def columns_there(samples: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that some rows have together."""
    return list(dict.fromkeys(column for sample in samples for column in sample))


def find_layout(
    samples: Sequence[Mapping[str, Any]], name: str, columns: Columns, layout: str = "auto"
) -> str:
    """Tell the layout from the first rows, and see that the columns that it needs are there.

    Raises:
        InputError: If a column is missing; it lists those there are, and suggests one.

    >>> row = {"problem": "2 + 2?", "solution": "4", "generations": ["It is 4.", "Four."]}
    >>> find_layout([row], "rows.jsonl", Columns())
    'openr1-math'
    """
    there = columns_there(samples)
    if layout == "auto":
        layout = _guess(there, columns)
    one = LAYOUTS.find(layout)
    columns = one.named(columns)
    if missing := [role for role in one.needs if getattr(columns, role) not in there]:
        likely = {role: _likely(role, getattr(columns, role), there) for role in missing}
        options = ", ".join(f'{role}="{guess}"' for role, guess in likely.items())
        flags = " ".join(f"--{role}-column {guess}" for role, guess in likely.items())
        wanted = [getattr(columns, role) for role in missing]
        how = f" Name it with Columns({options}), on the command line {flags}."
        raise _no_column(name, wanted, there, how)
    if absent := [column for column in one.told_by if column not in there]:
        raise _no_column(name, absent, there, f" The layout {layout} has it.")
    kinds = {type(sample.get(columns.solutions)) for sample in samples}
    if "solutions" in one.needs and str in kinds and list not in kinds:
        raise InputError(
            f"The column {columns.solutions!r} of {name} holds one text a row, not a list. "
            f"Read it as flat rows: --layout flat --solution-column {columns.solutions}."
        )
    return layout


def _guess(there: Sequence[str], columns: Columns) -> str:
    named = asdict(columns).items() - asdict(Columns()).items()
    for name, layout in LAYOUTS.items():
        if layout.well_known and (
            {"solutions", "conversations"} & set(there) or not named <= layout.columns.items()
        ):
            continue
        its = layout.named(columns)
        needed = {*(getattr(its, role) for role in layout.needs), *layout.told_by}
        if needed and needed <= set(there):
            return name
    # Nothing fits: name the layout that needs the fewest columns put right.
    return "flat" if columns.solution in there else "grouped"


def check_only(samples: Sequence[Mapping[str, Any]], name: str, only: Mapping[str, str]) -> None:
    """See that the columns by whose values rows are picked are there; else an [`InputError`]."""
    there = columns_there(samples)
    if absent := [column for column in only if column not in there]:
        raise _no_column(name, absent, there, " The option only asks for it.")


def _no_column(name: str, absent: Sequence[str], there: Sequence[str], how: str) -> InputError:
    columns = f"Its columns are: {', '.join(there) or 'none'}."
    return InputError(f"{name} has no column {' and '.join(map(repr, absent))}. {columns}{how}")


def _likely(role: str, wanted: str, there: Sequence[str]) -> str:
    by_lower = {column.lower(): column for column in there}
    close = difflib.get_close_matches(wanted.lower(), by_lower, n=1, cutoff=0.75)
    usual = [name for name in (*close, role, *USUAL_NAMES[role]) if name in by_lower]
    return by_lower[usual[0]] if usual else "..."
