"""What filters are given, their options, and what they return; `pipeline.py` has their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import TokenCounter
from rpd_metric.errors import InputError, check_least
from rpd_metric.models.spec import chat_spec
from rpd_metric.plugins import Registry

# One mark for each solution; the first of these columns is used unless the options name another.
MARK_COLUMNS = ("correct", "correctness_math_verify", "is_correct")
# One answer for each problem.
ANSWER_COLUMNS = ("reference_answer", "expected_answer", "final_answer", "ground_truth", "answer")

AnswerRule = Literal["reference", "majority", "any"]
Soundness = Literal["off", "rules"]

Drops = Mapping[int, tuple[str, str]]
"""Dropped solutions by index: a reason to count, and a line for a person."""

EndVerdict = Callable[[str], tuple[str, str] | None]
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
    unfinished: EndVerdict | None = None  # a judge's verdicts on ends


@dataclass(frozen=True)
class Filter:
    """A filter of another package: from [`Candidates`] and the VALUE of `--filter NAME=VALUE`
    (`""` without) to the solutions to drop, and why."""

    function: Callable[[Candidates, str], Drops]
    description: str


FILTERS: Registry[Filter] = Registry("filter", Filter, {}, group="rpd.filters")


@documented
@dataclass(frozen=True)
class FilterConfig:
    """What is left out before scoring, see [`filter_problem`]."""

    max_mean_tokens: int | None = option(
        None, "drop problems whose solutions are longer on average (the paper: 14000)", metavar="N"
    )
    min_solutions: int = option(
        2,
        "drop problems with fewer usable solutions (default: the number of solutions to choose; "
        "the paper: 10)",
        metavar="N",
    )
    min_strategies: int = option(
        0,
        "drop problems whose solutions show fewer strategies, by labels of the input or as a chat "
        "model sorts them (docs/statistics.md)",
        metavar="N",
    )
    require_complete: bool = option(
        True, "drop solutions that are cut off, loop, or lack the answer that a reference asks for"
    )
    drop_duplicates: bool = option(
        True, "drop copies of an earlier solution; white space is ignored"
    )
    only_correct: bool = option(
        False, "keep only solutions that marks or the reference answer show to be right"
    )
    correct_column: str | None = option(
        None,
        "column that marks solutions as right or wrong (default: the first of "
        f"{', '.join(MARK_COLUMNS)} in the input)",
        metavar="NAME",
    )
    answers: AnswerRule = option(
        "reference",
        "drop solutions with a wrong answer, by marks or reference answers (reference), or else by "
        "the most frequent answer (majority); any keeps all",
    )
    keep_wrong: bool = option(
        False, "keep solutions with a wrong final answer; they are still counted"
    )
    soundness: Soundness = option(
        "off",
        "drop solutions that admit a mistake, retract a result or fit values (rules); off only "
        "counts them",
    )
    answer_column: str | None = option(
        None,
        "column with the reference answer (default: the first of "
        f"{', '.join(ANSWER_COLUMNS)} in the input)",
        metavar="NAME",
    )
    answer_pattern: str | None = option(
        None,
        "regular expression for the final answer, tried before the built-in rules: its last match "
        "is the answer, or the first group of it (docs/grading.md)",
        metavar="REGEX",
    )
    decisions: str | None = option(
        None,
        "decisions saved from the page of rpd report: drop rejected solutions, choose kept ones "
        "first",
        metavar="FILE",
    )
    student: str | None = option(
        None,
        "the model to be trained, hf:MODEL or vllm:MODEL: drop the solutions of each problem that "
        "surprise it most, and choose among the others",
        metavar="SPEC",
    )
    student_share: float = option(
        0.5, "share of a problem's solutions that the student drops", metavar="SHARE"
    )
    filters: tuple[str, ...] = option(
        (), "apply a filter of another package (repeatable)", name="filter", metavar="NAME[=VALUE]"
    )

    def __post_init__(self) -> None:
        for name, rule in (("soundness", Soundness), ("answers", AnswerRule)):
            value, known = getattr(self, name), get_args(rule)
            if value not in known:
                choices = ", ".join(known)
                raise InputError(f"{{{name}}} is {value!r}; use one of {choices}", option=name)
        check_least(1, self, "max_mean_tokens", "min_solutions")
        check_least(0, self, "min_strategies")
        try:
            re.compile(self.answer_pattern or "")
        except re.error as error:
            raise InputError(
                f"{{answer_pattern}} is not a regular expression: {error}", option="answer_pattern"
            ) from error
        if not 0 <= self.student_share < 1:
            raise InputError(
                f"{{student_share}} must be in [0, 1), got {self.student_share}",
                option="student_share",
            )
        if self.student is not None and chat_spec(self.student).kind not in ("hf", "vllm"):
            raise InputError(
                "{student} reads the chances of tokens in this process; use hf:MODEL or "
                f"vllm:MODEL, got {self.student!r}",
                option="student",
            )
        for text in self.filters:
            FILTERS.find(text.partition("=")[0])

    @classmethod
    def paper(cls) -> FilterConfig:
        """The filters of App. C.1; the paper looks at no answer."""
        return cls(max_mean_tokens=14_000, min_solutions=10, require_complete=True, answers="any")
