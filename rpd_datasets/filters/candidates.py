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
    """What is known about a problem's final answers.

    `marks` say of each solution whether it is right, `agrees` whether it has the most frequent
    answer: `None` where it names none, and everywhere without a majority.
    """

    marks: tuple[bool | None, ...]
    by: Literal["marks", "reference", ""]  # what the marks come from
    column: str | None
    agrees: tuple[bool | None, ...]
    majority: bool  # whether one answer is more frequent than every other
    unread: tuple[str, ...] = ()  # answers that could not be compared with the reference


@dataclass(frozen=True)
class Candidates:
    """A problem, and which of its solutions are still in."""

    problem: Problem  # with all its solutions
    left: tuple[int, ...]  # indices of those that earlier filters left
    num_tokens: tuple[int, ...]  # of every solution
    count_tokens: TokenCounter
    answers: AnswerCheck
    unfinished: Verdict | None = None  # a judge's verdicts on ends
    unsound: Verdict | None = None  # and on arguments
