"""What was understood of an input: for a person to see before anything is spent on it.

    understood = Understood(source, correct_column=None, answer_column=None)
    for problem in source:
        understood.add(problem, checker.check(problem))
    understood.lines()

It counts what passes by and keeps one short example; nothing is decided here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.inputs.source import Source
from rpd_datasets.problem import Problem

SHOWN = 160
_ROLES = {
    "grouped": ("problem", "solutions"),
    "flat": ("problem", "solution"),
    "openthoughts": ("conversations",),
}
_LAYOUTS = {
    "grouped": "a problem and its solutions in each row",
    "flat": "a problem and one solution in each row",
    "openthoughts": "a question and an answer as messages in each row",
}


@dataclass
class Understood:
    """Counts over the problems of an input.

    Args:
        source ([`Source`]): The input, opened.
    """

    source: Source
    problems: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    right: int = 0
    marked: int = 0
    agreeing: int = 0
    answered: int = 0
    marked_by: Counter[str] = field(default_factory=Counter)
    carried: dict[str, None] = field(default_factory=dict)
    example: Problem | None = None

    def add(self, problem: Problem, answers: AnswerCheck) -> None:
        """Count a problem."""
        self.problems += 1
        self.sizes[len(problem.solutions)] += 1
        self.right += sum(mark is True for mark in answers.marks)
        self.marked += sum(mark is not None for mark in answers.marks)
        self.agreeing += sum(agrees is True for agrees in answers.agrees)
        self.answered += sum(agrees is not None for agrees in answers.agrees)
        if answers.by:
            self.marked_by[f"{answers.by} in the column {answers.column}"] += 1
        self.carried.update(dict.fromkeys(problem.extra))
        self.example = self.example or problem

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        solutions = sum(size * count for size, count in self.sizes.items())
        example = self.example
        return {
            "known_as": self.source.known.names if self.source.known else None,
            "layout": self.source.layout,
            "columns": self._columns(),
            "problems": self.problems,
            "solutions": solutions,
            "solutions_per_problem": [min(self.sizes), max(self.sizes)] if self.sizes else None,
            "correctness": dict(self.marked_by.most_common()),
            "right": self.right,
            "marked": self.marked,
            "with_most_frequent_answer": self.agreeing,
            "with_answer": self.answered,
            "carried_along": list(self.carried),
            "example": example and {"problem": example.problem, "solution": example.solutions[0]},
        }

    def lines(self) -> list[tuple[str, str]]:
        """The same in words, one line each."""
        found, known = self.as_dict(), self.source.known
        few, many = found["solutions_per_problem"] or (0, 0)
        lines = [
            ("Rows", f"{_LAYOUTS[self.source.layout]}" + (f", as {known.names}" if known else "")),
            ("Columns", ", ".join(f"{role} from {name}" for role, name in self._columns().items())),
            (
                "Found",
                f"{self.problems:,} problems with {found['solutions']:,} solutions, "
                + (f"{few} each" if few == many else f"{few} to {many} each"),
            ),
            ("Correctness", self._correctness()),
            ("Carried along", ", ".join(self.carried) or "nothing"),
        ]
        if known and known.turned:
            lines.insert(1, ("Turned", known.turned_into))
        if self.example:
            lines += [
                ("Example", _short(self.example.problem)),
                ("", _short(self.example.solutions[0])),
            ]
        return lines

    def _columns(self) -> dict[str, str]:
        if self.source.known and self.source.known.turned:
            return {"problem and solutions": " and ".join(self.source.known.needs)}
        return {role: getattr(self.source.columns, role) for role in _ROLES[self.source.layout]}

    def _correctness(self) -> str:
        agreed = (
            f"{1 - self.agreeing / self.answered:.1%} of the answers differ from their problem's "
            "most frequent one"
            if self.answered
            else "no answers could be compared"
        )
        if not self.marked_by:
            return f"neither marks nor reference answers; {agreed} (--answers majority)"
        shares = ", ".join(f"{by} ({count:,} problems)" for by, count in self.marked_by.items())
        known = f"{self.right / self.marked:.1%} right" if self.marked else "none can be read"
        return f"{shares}: {known}; {agreed}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
