"""Wrong final answers: by the input's marks, its reference answers, or what most solutions say.

Columns with marks and reference answers are found here by name. Marks are trusted; a reference
answer is compared with each final answer by `rpd_metric/grading`: it is right, wrong, or could not
be checked. Answers are also grouped to find the most frequent one. Solutions of unknown correctness
stay, unless only right ones are wanted.
"""

import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from textwrap import shorten
from typing import Any

from rpd_datasets.filters.candidates import (
    ANSWER_COLUMNS,
    MARK_COLUMNS,
    AnswerCheck,
    Candidates,
    Drops,
    FilterConfig,
)
from rpd_datasets.problem import Problem, each_solution
from rpd_metric.errors import InputError, install_line
from rpd_metric.grading.answers import Verdict, easy_verdict, final_answer, readable, tidy
from rpd_metric.grading.mathematics import Grader
from rpd_metric.grading.quantities import settle
from rpd_metric.reasons import Reason

logger = logging.getLogger(__name__)

UNCHECKED = "answers that take algebra to compare with the reference are not checked"

# Values of these columns for problems without an answer to compare.
NO_ANSWER = frozenset({"", "proof", "notfound", "not found", "na", "n/a", "none", "null"})
# A longer reference is a solution: its own final answer counts.
LONGEST_ANSWER = 100
# What algebra may take: answers that make it hang must not hold a run up.
SECONDS = 5.0
MOST_TIMEOUTS = 2
# A sentence is not a wrong answer if the reference is within this many last characters.
CLOSING_CHARACTERS = 100
# What an answer is, in counts and shares.
CHECKS = ("right", "wrong", "not_checked")
# A larger share of answers that could not be checked is a warning.
NOT_CHECKED = 0.1
# Examples of them, or of the ends of solutions that name none, and how much of each is shown.
EXAMPLES, EXAMPLE_CHARACTERS = 3, 60
_PROSE = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")
# What marks are written as; -1 is a reward.
MARKS = "true/false, 1/0, yes/no, pass/fail or correct/incorrect"
_MARKS = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "pass", "passed", "correct", "right"), True),
    **dict.fromkeys(("false", "0", "0.0", "-1", "-1.0", "no", "fail", "failed"), False),
    **dict.fromkeys(("incorrect", "wrong"), False),
}


def mark_column(extra: Mapping[str, Any], named: str | None = None) -> str | None:
    """The column that marks solutions as right or wrong: `named`, or the first usual name.

    >>> mark_column({"correctness_math_verify": [True], "answer": "5"})
    'correctness_math_verify'
    """
    return _first(extra, (named,) if named else MARK_COLUMNS)


def answer_column(extra: Mapping[str, Any], named: str | None = None) -> str | None:
    """The same for the column with the reference answer."""
    return _first(extra, (named,) if named else ANSWER_COLUMNS)


def _first(extra: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((name for name in names if extra.get(name) is not None), None)


def marks_of(problem: Problem, named: str | None = None) -> tuple[bool | None, ...] | None:
    """The mark of each solution, `None` where unknown; `None` for a problem without marks.

    >>> marks_of(Problem("2 + 2?", ("4", "5"), {"is_correct": [True, False]}))
    (True, False)
    """
    column = mark_column(problem.extra, named)
    if column is None:
        return None
    marks, count = each_solution(problem, column), len(problem.solutions)
    return tuple(map(_as_mark, marks)) if len(marks) == count else (None,) * count


def _as_mark(mark: Any) -> bool | None:
    return _MARKS.get(str(mark).strip().lower())


def unread_marks(problem: Problem, named: str | None = None) -> str | None:
    """Which values of the column with marks are read as unknown, in one sentence.

    >>> unread_marks(Problem("2 + 2?", ("4", "5"), {"correct": [True, 0.3]}))
    "The column 'correct' holds 0.3; marks are true/false, 1/0, yes/no, pass/fail or \
correct/incorrect"
    """
    if (column := mark_column(problem.extra, named)) is None:
        return None
    marks, count = each_solution(problem, column), len(problem.solutions)
    if len(marks) != count:
        return f"The column {column!r} has {len(marks)} marks for {count} solutions"
    odd = [mark for mark in marks if mark is not None and _as_mark(mark) is None]
    return f"The column {column!r} holds {odd[0]!r:.80}; marks are {MARKS}" if odd else None


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


def marked_only(problem: Problem, correct_column: str | None) -> AnswerCheck:
    """What the input's marks say, without looking at a single answer."""
    blank = (None,) * len(problem.solutions)
    marks = marks_of(problem, correct_column)
    if marks is None:
        return AnswerCheck(blank, "", None, blank, False)
    return AnswerCheck(marks, "marks", mark_column(problem.extra, correct_column), blank, False)


class AnswerChecker:
    """Compares final answers; a process for computer algebra starts at first need.

    Without math-verify, a mark that takes algebra is not known, which is said once, or with
    `algebra_required` is a [`MissingExtraError`].

    >>> problem = Problem("2 + 2?", ("So it is 4. Answer: 4", "Answer: 5", "Answer: 04"))
    >>> AnswerChecker().check(problem).agrees
    (True, False, True)
    """

    def __init__(self, *, algebra_required: bool = False) -> None:
        self._required, self._told = algebra_required, set[str]()
        self._grader: Grader | None = None
        self._timeouts = 0  # of the problem that is looked at
        # Problems are worked on in several threads, and a grader grades one thing at a time.
        self._lock = threading.Lock()

    def check(
        self,
        problem: Problem,
        correct_column: str | None = None,
        answer_column_: str | None = None,
        pattern: str | None = None,
    ) -> AnswerCheck:
        """Look at a problem's answers; the columns and the pattern are those of the options."""
        with self._lock:
            self._timeouts = 0
            result = marked_only(problem, correct_column)
            self._tell(unread_marks(problem, correct_column))
            answers = [_named_answer(text, pattern) for text in problem.solutions]
            reference = None if result.by else reference_of(problem, answer_column_)
            if reference is not None:
                pairs = zip(problem.solutions, answers, strict=True)
                marks = tuple(self._verdict(reference, *pair) for pair in pairs)
                column = answer_column(problem.extra, answer_column_)
                unread = tuple(
                    shorten(answer, EXAMPLE_CHARACTERS, placeholder="…")
                    if answer
                    else f"…{' '.join(text.split())[-EXAMPLE_CHARACTERS:]}"
                    for text, answer, mark in zip(problem.solutions, answers, marks, strict=True)
                    if mark is None
                )[:EXAMPLES]
                result = replace(result, marks=marks, by="reference", column=column, unread=unread)
            agrees, majority = self._agreement(answers, result.marks)
            return replace(result, agrees=agrees, majority=majority)

    def _verdict(self, reference: str, solution: str, answer: str | None) -> bool | None:
        if answer is None:
            return None
        verdict = settle(readable(reference), readable(answer))
        if not isinstance(verdict, Verdict):
            if not (self._required or algebra_installed()):
                self._tell(f"{UNCHECKED}: {install_line('grading')}")
                return None
            verdict = self._by_algebra(*verdict)
        sentence = len(_PROSE.findall(answer)) > 3
        if verdict is Verdict.WRONG and sentence and reference in solution[-CLOSING_CHARACTERS:]:
            return None  # "The answer is three times the initial mass: 66 g."
        return {Verdict.CORRECT: True, Verdict.WRONG: False}.get(verdict)

    def _tell(self, what: str | None) -> None:
        if what and what not in self._told:
            logger.warning(what)
            self._told.add(what)

    def _agreement(
        self, answers: Sequence[str | None], marks: Sequence[bool | None]
    ) -> tuple[tuple[bool | None, ...], bool]:
        """Which solutions have the most frequent answer, and whether there is one."""
        groups: list[tuple[str, list[int]]] = []  # an answer, and who gives it
        tidied = {answer: tidy(answer) for answer in answers if answer is not None}
        for index, answer in enumerate(answers):
            if answer is None:
                continue
            for other, members in groups:
                known = {marks[members[0]], marks[index]}
                # Two right answers are the same answer, a right and a wrong one are not.
                if known == {True} or (
                    known != {True, False} and self._equal(other, answer, tidied)
                ):
                    members.append(index)
                    break
            else:
                groups.append((answer, [index]))
        # With a second group as large there is no majority.
        largest, *others = sorted((members for _, members in groups), key=len, reverse=True) or [[]]
        if not largest or (others and len(others[0]) == len(largest)):
            return (None,) * len(answers), False
        return tuple(
            None if answer is None else n in largest for n, answer in enumerate(answers)
        ), True

    def _equal(self, first: str, other: str, tidied: Mapping[str, str]) -> bool:
        easy = easy_verdict(tidied[first], tidied[other])
        if easy is not None:
            return easy is Verdict.CORRECT
        if not algebra_installed():
            return False
        # "x = 5" is accepted where "5" is wanted and not the other way round; here neither leads.
        pair = readable(first), readable(other)
        return Verdict.CORRECT in (self._by_algebra(*pair), self._by_algebra(*pair[::-1]))

    def _by_algebra(self, gold: str, answer: str) -> Verdict:
        """The verdict; after repeated timeouts the rest of a problem counts as timed out."""
        if self._timeouts >= MOST_TIMEOUTS:
            return Verdict.TIMED_OUT
        if self._grader is None:
            self._grader = Grader(workers=1, seconds=SECONDS)
        verdict = self._grader.compare(gold, answer)
        self._timeouts += verdict is Verdict.TIMED_OUT
        return verdict

    def close(self) -> None:
        """End the process. The checker can be used again; it starts a new one."""
        with self._lock:
            if self._grader is not None:
                self._grader.close()


def algebra_installed() -> bool:
    """Whether answers that differ in form can be compared."""
    return find_spec("math_verify") is not None


def in_three(counts: Sequence[int]) -> str:
    """The numbers of right, wrong and unchecked answers with their shares.

    >>> in_three((4, 0, 14))
    '4 right (22.2%), 0 wrong (0.0%), 14 could not be checked (77.8%)'
    """
    words = zip(counts, ("right", "wrong", "could not be checked"), strict=True)
    return ", ".join(f"{n:,} {word} ({n / sum(counts):.1%})" for n, word in words)


def too_many_unchecked(counts: Sequence[int], unread: Iterable[str]) -> str | None:
    """A warning where more than a tenth of the answers could not be checked, with examples."""
    if counts[-1] <= NOT_CHECKED * sum(counts):
        return None
    warning = f"{counts[-1]:,} of {sum(counts):,} answers could not be checked"
    if examples := ", ".join(f'"{text}"' for text in list(dict.fromkeys(unread))[:EXAMPLES]):
        warning += f", e.g. {examples}. See --answer-pattern and docs/grading.md"
    return warning


def _named_answer(solution: str, pattern: str | None) -> str | None:
    """A solution's final answer, where it names one that can be read."""
    answer = final_answer(solution, pattern)
    return answer if answer is not None and readable(answer) else None


def incorrect(candidates: Candidates, config: FilterConfig) -> Drops:
    """Leave out every solution that marks or the reference answer do not show to be right."""
    problem, check = candidates.problem, candidates.answers
    column, marks = check.column, check.marks
    named = [config.correct_column] if config.correct_column else MARK_COLUMNS
    answers = [config.answer_column] if config.answer_column else ANSWER_COLUMNS
    if not problem.extra.keys() & {*named, *answers}:
        raise InputError(
            f"{{only_correct}} needs marks in one of {', '.join(named)}, or reference answers in "
            f"one of {', '.join(answers)}; {problem.where or 'the row'} has only: "
            f"{', '.join(problem.extra) or 'none'}. Name yours with {{correct_column}} or "
            "{answer_column}, or leave {only_correct} out.",
            option=("only_correct", "correct_column", "answer_column"),
        )
    detail = "Its answer could not be compared with a reference."
    values = problem.extra[column] if column and check.by == "marks" else ()
    if isinstance(values, (list, tuple)) and len(values) != len(marks) and values:
        detail = f"The column {column!r} has {len(values)} marks for {len(marks)} solutions."
    elif check.by == "marks":
        detail = f"The column {column!r} does not say."
    unknown, wrong = (Reason.CORRECTNESS_UNKNOWN, detail), _wrong(check)
    return {n: unknown if mark is None else wrong for n, mark in enumerate(marks) if not mark}


def _wrong(check: AnswerCheck) -> tuple[Reason, str]:
    if check.by == "marks":
        return Reason.INCORRECT, f"The column {check.column!r} marks it as wrong."
    return Reason.WRONG_ANSWER, f"The column {check.column!r} has another answer."


def wrong_answers(candidates: Candidates, config: FilterConfig) -> Drops:
    """Leave out solutions with a wrong final answer, or by `"majority"` with a rare one."""
    check = candidates.answers
    if check.by:
        return {index: _wrong(check) for index, mark in enumerate(check.marks) if mark is False}
    if config.answers != "majority":
        return {}
    if not check.majority:
        tie = (Reason.NO_MAJORITY, "No answer is more frequent than every other.")
        return dict.fromkeys(range(len(check.agrees)), tie)
    few = (Reason.MINORITY_ANSWER, "Most solutions have another final answer.")
    silent = (Reason.NO_ANSWER, "It names no final answer.")
    agreed = enumerate(check.agrees)
    return {n: silent if agrees is None else few for n, agrees in agreed if not agrees}
