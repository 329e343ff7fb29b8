"""What a filter of solutions is given, and what it returns; `pipeline.py` lists the filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rpd_datasets.problem import Problem
from rpd_datasets.tokens import TokenCounter

Drops = Mapping[int, tuple[str, str]]
"""Dropped solutions by index: a reason to count, and a line for a person."""

Verdict = Callable[[str], tuple[str, str] | None]
"""A judge's reason to drop a solution, with a line for a person, or `None` to keep it."""


@dataclass(frozen=True)
class AnswerCheck:
    """What is known about a problem's final answers; all lists have an entry per solution.

    Args:
        marks (`tuple[bool | None, ...]`): Right, wrong, or not known.
        by (`str`): The source: `"marks"`, `"reference"`, or `""` for none.
        column (`str`, *optional*): Its column.
        agrees (`tuple[bool | None, ...]`): Whether it has the most frequent answer; `None` where
            it names none, and everywhere without a majority.
        majority (`bool`): Whether one answer is more frequent than every other.
        unread (`tuple[str, ...]`): Answers that could not be compared with the reference.
    """

    marks: tuple[bool | None, ...]
    by: Literal["marks", "reference", ""]
    column: str | None
    agrees: tuple[bool | None, ...]
    majority: bool
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """A problem, and which of its solutions are still in.

    Args:
        problem ([`Problem`]): With all its solutions.
        left (`tuple[int, ...]`): Indices of those that earlier filters left.
        num_tokens (`tuple[int, ...]`): Of every solution.
        unfinished, unsound (`Callable`, *optional*): A judge's verdicts on ends and arguments.
    """

    problem: Problem
    left: tuple[int, ...]
    num_tokens: tuple[int, ...]
    count_tokens: TokenCounter
    answers: AnswerCheck
    unfinished: Verdict | None = None
    unsound: Verdict | None = None
