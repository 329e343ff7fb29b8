"""What a filter of solutions is given, and what it returns; `pipeline.py` lists the filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rpd_datasets.problem import Problem
from rpd_datasets.tokens import TokenCounter

Drops = Mapping[int, tuple[str, str]]
"""By index of a solution that goes: a reason to count by, and a line for a person."""

Verdict = Callable[[str], tuple[str, str] | None]
"""What a judge said of a solution: why it goes, a reason and a line, or `None` where it stays."""


@dataclass(frozen=True)
class AnswerCheck:
    """What is known about a problem's final answers; all lists have an entry per solution.

    Args:
        marks (`tuple[bool | None, ...]`): Right, wrong, or not known.
        by (`str`): Who says so: `"marks"`, `"reference"`, or `""` for nobody.
        column (`str`, *optional*): In which column.
        agrees (`tuple[bool | None, ...]`): Whether it has the most frequent answer; `None` where
            it names none, and everywhere without a majority.
        majority (`bool`): Whether one answer is more frequent than every other.
    """

    marks: tuple[bool | None, ...]
    by: Literal["marks", "reference", ""]
    column: str | None
    agrees: tuple[bool | None, ...]
    majority: bool


@dataclass(frozen=True)
class Candidates:
    """A problem, and which of its solutions are still in.

    Args:
        problem ([`Problem`]): With all its solutions.
        left (`tuple[int, ...]`): Indices of those that earlier filters left.
        num_tokens (`tuple[int, ...]`): Of every solution.
        unfinished, unsound (`Callable`, *optional*): What a judge said of its end, and of its
            argument, where one was asked.
    """

    problem: Problem
    left: tuple[int, ...]
    num_tokens: tuple[int, ...]
    count_tokens: TokenCounter
    answers: AnswerCheck
    unfinished: Verdict | None = None
    unsound: Verdict | None = None
