"""What a filter of solutions is given, and what it returns; `pipeline.py` lists the filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rpd_datasets.problem import Problem
from rpd_datasets.tokens import TokenCounter

Drops = Mapping[int, tuple[str, str]]
"""By index of a solution that goes: a reason to count by, and a line for a person."""

EndingCheck = tuple[bool, str | None]
Completeness = Callable[[str, str], EndingCheck]
"""From a whole solution and its last tokens to whether it was finished, and why not."""

Unsound = Callable[[str], tuple[str, str] | None]
"""From a solution to why it goes, if its argument failed: a reason, and a line."""


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
        unsound (`Callable`, *optional*): What a judge said of its arguments, where one was asked.
    """

    problem: Problem
    left: tuple[int, ...]
    num_tokens: tuple[int, ...]
    count_tokens: TokenCounter
    completeness: Completeness
    answers: AnswerCheck
    unsound: Unsound | None = None
