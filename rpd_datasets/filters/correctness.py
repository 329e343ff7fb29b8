"""Solutions with a wrong final answer: by the input's marks, or by its reference answers.

Which columns say so is decided here, by name, for every input alike. A mark is believed; a
reference answer is compared with each solution's final answer in `answers.py`, before the filters
run. What nobody can tell (no mark, no final answer, a reference that cannot be read) is not wrong:
it stays, unless only right solutions are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError
from rpd_metric.grading.answers import final_answer

AnswerRule = Literal["reference", "majority", "any"]

# The first that is there is taken, unless the options name another: one mark for each solution.
MARK_COLUMNS = ("correct", "correctness_math_verify", "is_correct")
# One answer for each problem.
ANSWER_COLUMNS = (
    "reference_answer",
    "expected_answer",
    "final_answer",
    "ground_truth",
    "answer",
)
# What stands in these columns where a problem has no answer that could be compared.
NO_ANSWER = frozenset({"", "proof", "notfound", "not found", "na", "n/a", "none", "null"})
# A longer reference is a solution: its own final answer counts.
LONGEST_ANSWER = 100
_WORDS = {"true": True, "false": False}  # as CSV has them


def mark_column(extra: Mapping[str, Any], named: str | None = None) -> str | None:
    """The column that marks solutions as right or wrong.

    Args:
        extra (`Mapping`): A problem's columns.
        named (`str`, *optional*): What the options call it.

    >>> mark_column({"correctness_math_verify": [True], "answer": "5"})
    'correctness_math_verify'
    """
    return _first(extra, (named,) if named else MARK_COLUMNS)


def answer_column(extra: Mapping[str, Any], named: str | None = None) -> str | None:
    """The column with the reference answer, see [`mark_column`]."""
    return _first(extra, (named,) if named else ANSWER_COLUMNS)


def _first(extra: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((name for name in names if extra.get(name) is not None), None)


def marks_of(problem: Problem, named: str | None = None) -> tuple[bool | None, ...] | None:
    """Per solution its mark; `None` for one without, and instead of all where there are none.

    >>> marks_of(Problem("2 + 2?", ("4", "5"), {"is_correct": [True, False]}))
    (True, False)
    """
    column = mark_column(problem.extra, named)
    if column is None:
        return None
    marks, count = problem.extra[column], len(problem.solutions)
    if not isinstance(marks, (list, tuple)):
        # Flat rows whose marks never differ within a problem come with one mark for all.
        marks = [marks] * count
    if len(marks) != count:
        return (None,) * count
    return tuple(_as_mark(mark) for mark in marks)


def _as_mark(mark: Any) -> bool | None:
    if isinstance(mark, str):
        return _WORDS.get(mark.strip().lower())
    return mark if isinstance(mark, bool) else None


def reference_of(problem: Problem, named: str | None = None) -> str | None:
    r"""The problem's reference answer, where it has one.

    >>> reference_of(Problem("2 + 2?", ("4",), {"answer": 4}))
    '4'
    >>> reference_of(Problem("2 + 2?", ("4",), {"answer": "Two and two are four. #### 4"}))
    '4'
    """
    column = answer_column(problem.extra, named)
    value = None if column is None else problem.extra[column]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value).rpartition("####")[2].strip()
    if len(text) > LONGEST_ANSWER:
        text = final_answer(text) or ""
    return None if text.lower() in NO_ANSWER else text


def evidence_columns(
    extra: Mapping[str, Any], correct_column: str | None, answer_column_: str | None
) -> set[str]:
    """The columns that these filters look at."""
    found = {mark_column(extra, correct_column), answer_column(extra, answer_column_)}
    return {name for name in found if name is not None}


def incorrect(candidates: Candidates, correct_column: str | None) -> Drops:
    """Leave out every solution that is not marked as correct.

    Args:
        candidates ([`Candidates`]): The solutions.
        correct_column (`str`, *optional*): The column with the marks: a boolean per solution, or
            one for all. The first of [`MARK_COLUMNS`] that is there if unset.

    Raises:
        InputError: If there is no such column.
    """
    problem = candidates.problem
    column = mark_column(problem.extra, correct_column)
    if column is None:
        wanted = repr(correct_column) if correct_column else f"one of {', '.join(MARK_COLUMNS)}"
        raise InputError(
            f"only_correct needs the column {wanted}, which {problem.where or 'the row'} does "
            f"not have, only: {', '.join(problem.extra) or 'none'}. Name yours with "
            "--correct-column (correct_column), or turn --only-correct off."
        )
    marks = marks_of(problem, column) or ()
    values = problem.extra[column]
    if isinstance(values, (list, tuple)) and len(values) != len(problem.solutions):
        detail = f"The column {column!r} has {len(values)} marks for {len(marks)} solutions."
        return dict.fromkeys(range(len(marks)), ("correctness_unknown", detail))
    drops: dict[int, tuple[str, str]] = {}
    for index, mark in enumerate(marks):
        if mark is False:
            drops[index] = ("incorrect", f"The column {column!r} marks it as wrong.")
        elif mark is None:
            drops[index] = ("correctness_unknown", f"The column {column!r} does not say.")
    return drops


def wrong_answers(candidates: Candidates, answers: AnswerRule, keep_wrong: bool) -> Drops:
    """Leave out solutions with a wrong final answer, or with one that few others have.

    Args:
        candidates ([`Candidates`]): The solutions, and what is known of their answers.
        answers (`str`): `"reference"` goes by marks and reference answers, `"majority"` where
            there are none by the most frequent answer, `"any"` leaves nothing out.
        keep_wrong (`bool`): Leave nothing out.
    """
    if keep_wrong or answers == "any":
        return {}
    found = candidates.answers
    if found.by:
        reason = "incorrect" if found.by == "marks" else "wrong_answer"
        said = "marks it as wrong" if found.by == "marks" else "has another answer"
        detail = f"The column {found.column!r} {said}."
        return {index: (reason, detail) for index, mark in enumerate(found.marks) if mark is False}
    if answers != "majority":
        return {}
    drops = {}
    for index, agrees in enumerate(found.agrees):
        if not found.majority:
            drops[index] = ("no_majority", "No answer is more frequent than every other.")
        elif agrees is None:
            drops[index] = ("no_answer", "It names no final answer.")
        elif not agrees:
            drops[index] = ("minority_answer", "Most solutions have another final answer.")
    return drops
