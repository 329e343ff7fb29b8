"""How well-known datasets lay out their rows, so that they can be read without an option.

One table of rules, `WELL_KNOWN`; docs/inputs.md shows it. A rule holds where all of its columns are
there and the options name no other ones: what a user names is never overruled. Where a row's texts
stand in several columns, or as messages, the rule has a function that turns the row into one with
`problem` and `solutions`, or `problem` and `solution`; every other column stays as it is.

Which columns say what is right is decided for all inputs alike in `filters/correctness.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rpd_datasets.inputs.layouts import Columns

Values = dict[str, Any]
# DeepMath numbers its solutions; others do so with the same words.
NUMBERED = re.compile(r"(?:r1_)?(?:solution|generation|response|completion)_(\d+)")
# Who wrote the two traces of a row of s1K-1.1.
S1K_MODELS = ("gemini", "deepseek")


@dataclass(frozen=True)
class WellKnown:
    """A dataset, or several with the same columns.

    Args:
        names (`str`): What it is called.
        needs (`tuple[str, ...]`): Columns that tell it from others.
        columns (`Mapping[str, str]`): The fields of [`Columns`] that its columns take.
        lists (`str`, *optional*): One of the columns that must hold a list.
        turned (`Callable`, *optional*): From a row to one with `problem` and its solutions.
        turned_into (`str`): What that function makes, in words.
    """

    names: str
    needs: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    lists: str | None = None
    turned: Callable[[Values], Values] | None = None
    turned_into: str = ""


def numbered_solutions(values: Values) -> Values:
    """A row with a solution in each of several numbered columns, as DeepMath's.

    >>> row = {"question": "2 + 2?", "r1_solution_1": "4.", "r1_solution_2": "Four.", "topic": "a"}
    >>> numbered_solutions(row)
    {'topic': 'a', 'problem': '2 + 2?', 'solutions': ['4.', 'Four.']}
    """
    places = {name: match for name in values if (match := NUMBERED.fullmatch(name))}
    order = sorted(places, key=lambda name: int(places[name].group(1)))
    question = "question" if "question" in values else "problem"
    return {
        **_without(values, question, *order),
        "problem": values.get(question),
        "solutions": [values[name] for name in order if values[name] is not None],
    }


def s1k_solutions(values: Values) -> Values:
    """A row of s1K or s1K-1.1: each trace of thoughts with the answer that was given after it.

    s1K-1.1 has a grade for both models, "Yes" or "No", which becomes the mark.
    """
    if "thinking_trajectories" in values:
        thoughts = values["thinking_trajectories"]
        trace = thoughts[0] if isinstance(thoughts, list) and thoughts else thoughts
        pairs = [("", trace, values.get("attempt"))]
        used = ["question", "thinking_trajectories", "attempt"]
    else:
        names = [(f"{one}_thinking_trajectory", f"{one}_attempt") for one in S1K_MODELS]
        pairs = [
            (one, values.get(thought), values.get(attempt))
            for one, (thought, attempt) in zip(S1K_MODELS, names, strict=True)
        ]
        used = ["question", *(name for pair in names for name in pair)]
    there = [(who, f"<think>\n{a}\n</think>\n\n{b}") for who, a, b in pairs if a and b]
    turned = {**_without(values, *used), "problem": values.get("question")}
    turned["solutions"] = [text for _, text in there]
    if any(f"{who}_grade" in values for who, _ in there):
        grades = {"yes": True, "no": False}
        said = [str(values.get(f"{who}_grade")).strip().lower() for who, _ in there]
        turned["correct"] = [grades.get(word) for word in said]
    return turned


def prompt_and_completion(values: Values) -> Values:
    """A row of TRL's prompt-completion type, whose two sides may be lists of messages."""
    return {
        **_without(values, "prompt", "completion"),
        "problem": _said(values.get("prompt"), "user"),
        "solution": _said(values.get("completion"), "assistant"),
    }


def _said(side: Any, role: str) -> Any:
    """The one message of that role. Where there are more, none is the right one: the row goes."""
    if not isinstance(side, list):
        return side
    texts = [
        one.get("content") for one in side if isinstance(one, dict) and one.get("role") == role
    ]
    return texts[0] if len(texts) == 1 else None


def _without(values: Values, *names: str) -> Values:
    return {name: value for name, value in values.items() if name not in names}


# The first rule that holds is taken. OpenThoughts3's `conversations`, NuminaMath's `problem` and
# `solution`, and rows with `problem` and `solutions` are what the options name by default.
WELL_KNOWN = (
    # Its `solution` is a reference text; the sampled solutions are the list.
    WellKnown(
        "OpenR1-Math",
        ("problem", "generations"),
        {"problem": "problem", "solutions": "generations"},
        lists="generations",
    ),
    WellKnown(
        "OpenMathReasoning",
        ("problem", "generated_solution"),
        {"problem": "problem", "solution": "generated_solution"},
    ),
    WellKnown(
        "DeepMath",
        ("question", "r1_solution_1"),
        turned=numbered_solutions,
        turned_into="r1_solution_1, 2, 3 become the solutions of one problem",
    ),
    WellKnown(
        "s1K",
        ("question", "thinking_trajectories", "attempt"),
        turned=s1k_solutions,
        turned_into="thoughts and attempt become one solution with a think block",
    ),
    WellKnown(
        "s1K-1.1",
        ("question", "deepseek_thinking_trajectory", "deepseek_attempt"),
        turned=s1k_solutions,
        turned_into="thoughts and attempt of both models become two solutions with think blocks, "
        "the grades their marks",
    ),
    WellKnown("LIMO", ("question", "solution"), {"problem": "question", "solution": "solution"}),
    WellKnown("AceReason", ("input", "output"), {"problem": "input", "solution": "output"}),
    WellKnown(
        "TRL prompt-completion",
        ("prompt", "completion"),
        turned=prompt_and_completion,
        turned_into="the user's message is the problem, the assistant's the solution",
    ),
    WellKnown("TRL messages", ("messages",), {"conversations": "messages"}, lists="messages"),
)


def recognise(samples: Sequence[Mapping[str, Any]], columns: Columns) -> WellKnown | None:
    """The well-known dataset whose columns these rows have, unless the options name others.

    Args:
        samples (`Sequence[Mapping]`): Some rows.
        columns ([`Columns`]): As the options have them.

    Example:

    >>> row = {"problem": "2 + 2?", "solution": "4", "generations": ["It is 4.", "Four."]}
    >>> recognise([row], Columns()).names
    'OpenR1-Math'
    """
    there = {name for sample in samples for name in sample}
    usual = Columns()
    named = {
        one.name: getattr(columns, one.name)
        for one in fields(Columns)
        if getattr(columns, one.name) != getattr(usual, one.name)
    }
    if {"solutions", "conversations"} & there or (not named and _flat_and_known(there)):
        return None
    for known in WELL_KNOWN:
        if (
            set(known.needs) <= there
            and all(known.columns.get(role) == name for role, name in named.items())
            and (known.lists is None or _holds_lists(samples, known.lists))
        ):
            return known
    return None


def with_columns(known: WellKnown | None, columns: Columns) -> Columns:
    """The columns that a rule names, in the place of the default ones."""
    return replace(columns, **known.columns) if known else columns


def _flat_and_known(there: set[str]) -> bool:
    """`problem` and `solution`, and nothing that says that the solutions stand elsewhere."""
    elsewhere = {"generations", "generated_solution"}
    return {"problem", "solution"} <= there and not elsewhere & there


def _holds_lists(samples: Iterable[Mapping[str, Any]], column: str) -> bool:
    return any(isinstance(sample.get(column), list) for sample in samples)
