"""What is known about the final answers of a problem's solutions, before anything is left out.

    AnswerChecker().check(problem, correct_column=None, answer_column=None) -> AnswerCheck

Marks of the input come first, then its reference answer, compared by the project's own grader
(`rpd_metric/grading`). Beside that, the answers are grouped: who has the most frequent one? That is
told for every input, since it needs neither. What is left out for it is `correctness.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal

from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.filters.correctness import answer_column, mark_column, marks_of, reference_of
from rpd_datasets.problem import Problem
from rpd_metric.grading.answers import (
    Verdict,
    easy_verdict,
    final_answer,
    readable,
    tidy,
    without_lone_unit,
)
from rpd_metric.grading.mathematics import Grader

# What algebra may take: answers that make it hang must not hold a run up.
SECONDS = 5.0
MOST_TIMEOUTS = 2
_RIGHT = {Verdict.CORRECT: True, Verdict.WRONG: False}


def marked_only(problem: Problem, correct_column: str | None) -> AnswerCheck:
    """What the input's marks say, without looking at a single answer."""
    blank = (None,) * len(problem.solutions)
    marks = marks_of(problem, correct_column)
    if marks is None:
        return AnswerCheck(blank, "", None, blank, False)
    return AnswerCheck(marks, "marks", mark_column(problem.extra, correct_column), blank, False)


class AnswerChecker:
    """Compares final answers; the processes that need computer algebra start at first need.

    Args:
        workers (`int`): Processes for that.

    Example:

    >>> problem = Problem("2 + 2?", ("So it is 4. Answer: 4", "Answer: 5", "Answer: 04"))
    >>> AnswerChecker().check(problem).agrees
    (True, False, True)
    """

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._grader: Grader | None = None
        self._timeouts = 0  # of the problem that is looked at
        # Problems are worked on in several threads, and a grader grades one thing at a time.
        self._lock = threading.Lock()

    def check(
        self,
        problem: Problem,
        correct_column: str | None = None,
        answer_column_: str | None = None,
    ) -> AnswerCheck:
        """Look at a problem's answers.

        Args:
            problem ([`Problem`]): With all its solutions.
            correct_column, answer_column_ (`str`, *optional*): What the options call the columns
                with marks and with the reference answer.

        Raises:
            [`MissingExtraError`]: A reference answer takes computer algebra, and math-verify is
                not installed.
        """
        with self._lock:
            self._timeouts = 0
            marks = marks_of(problem, correct_column)
            by: Literal["marks", "reference", ""] = "marks"
            column = mark_column(problem.extra, correct_column)
            answers = [_named_answer(text) for text in problem.solutions]
            if marks is None and (reference := reference_of(problem, answer_column_)) is not None:
                wanted = readable(reference)
                marks = tuple(
                    None if answer is None else self._verdict(reference, wanted, text, answer)
                    for text, answer in zip(problem.solutions, answers, strict=True)
                )
                by, column = "reference", answer_column(problem.extra, answer_column_)
            if marks is None:
                marks, by, column = (None,) * len(problem.solutions), "", None
            agrees, majority = self._agreement(answers, marks)
            return AnswerCheck(marks, by, column, agrees, majority)

    def _verdict(self, reference: str, wanted: str, solution: str, answer: str) -> bool | None:
        wanted, given = without_lone_unit(wanted, readable(answer))
        easy = easy_verdict(tidy(wanted), tidy(given))
        if easy is None:
            (easy,) = self._by_algebra([(reference, solution)])
        return _RIGHT.get(easy)

    def _agreement(
        self, answers: Sequence[str | None], marks: Sequence[bool | None]
    ) -> tuple[tuple[bool | None, ...], bool]:
        """Who has the most frequent answer."""
        groups: list[tuple[str, list[int]]] = []  # an answer, and who gives it
        tidied = {answer: tidy(answer) for answer in answers if answer is not None}
        for index, answer in enumerate(answers):
            if answer is None:
                continue
            for other, members in groups:
                first = members[0]
                if self._equal(other, answer, marks[first], marks[index], tidied):
                    members.append(index)
                    break
            else:
                groups.append((answer, [index]))
        sizes = sorted((len(members) for _, members in groups), reverse=True)
        if not sizes or (len(sizes) > 1 and sizes[0] == sizes[1]):
            return (None,) * len(answers), False
        largest = next(members for _, members in groups if len(members) == sizes[0])
        named = {index for _, members in groups for index in members}
        agrees = [index in largest if index in named else None for index in range(len(answers))]
        return tuple(agrees), True

    def _equal(
        self,
        one: str,
        other: str,
        mark: bool | None,
        other_mark: bool | None,
        tidied: Mapping[str, str],
    ) -> bool:
        # Two right answers are the same answer, a right and a wrong one are not.
        if mark is not None and other_mark is not None and (mark or other_mark):
            return mark == other_mark
        easy = easy_verdict(tidied[one], tidied[other])
        if easy is not None:
            return easy is Verdict.CORRECT
        if find_spec("math_verify") is None:
            return False
        # "x = 5" is accepted where "5" is wanted and not the other way round; here neither leads.
        return Verdict.CORRECT in self._by_algebra([(one, _boxed(other)), (other, _boxed(one))])

    def _by_algebra(self, rows: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Verdicts; a problem whose answers time out again and again is not asked about further."""
        if self._timeouts >= MOST_TIMEOUTS:
            return [Verdict.TIMED_OUT] * len(rows)
        verdicts = list(self._grading().grade(rows))
        self._timeouts += verdicts.count(Verdict.TIMED_OUT)
        return verdicts

    def _grading(self) -> Grader:
        if self._grader is None:
            self._grader = Grader(workers=self._workers, seconds=SECONDS)
        return self._grader

    def close(self) -> None:
        """End the processes. The checker can be used again; it starts new ones."""
        with self._lock:
            if self._grader is not None:
                self._grader.close()


def _named_answer(solution: str) -> str | None:
    """A solution's final answer; `None` where it names none that can be read."""
    answer = final_answer(solution)
    return answer if answer is not None and readable(answer) else None


def _boxed(answer: str) -> str:
    return rf"\boxed{{{answer}}}"
