"""What was understood of an input: counts and an example, shown before money is spent."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from rpd_datasets.account import number_of
from rpd_datasets.filters.answer_checks import CHECKS, in_three, too_many_unchecked
from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.inputs.layouts import LAYOUTS
from rpd_datasets.inputs.source import Source
from rpd_datasets.problem import Problem

SHOWN = 160


@dataclass
class Understood:
    """Counts over the problems of an input."""

    source: Source
    sizes: Counter[int] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    marked_by: Counter[str] = field(default_factory=Counter)
    carried: dict[str, None] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    example: Problem | None = None

    def add(self, problem: Problem, answers: AnswerCheck) -> None:
        """Count a problem."""
        self.sizes[len(problem.solutions)] += 1
        self.counts["right"] += answers.marks.count(True)
        self.counts["marked"] += len(answers.marks) - answers.marks.count(None)
        self.counts["wrong"] += answers.marks.count(False)
        self.counts["with_most_frequent_answer"] += answers.agrees.count(True)
        self.counts["with_answer"] += len(answers.agrees) - answers.agrees.count(None)
        if answers.by:
            self.counts["not_checked"] += answers.marks.count(None)
            self.unread.update(dict.fromkeys(answers.unread))
            self.marked_by[f"{answers.by} in the column {answers.column}"] += 1
        self.carried.update(dict.fromkeys(problem.extra))
        self.example = self.example or problem

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        layout = LAYOUTS[self.source.layout]
        names = (*CHECKS, "marked", "with_most_frequent_answer", "with_answer")
        return {
            "layout": self.source.layout,
            "columns": {role: getattr(self.source.columns, role) for role in layout.needs}
            or list(layout.told_by),
            "problems": self.sizes.total(),
            "solutions": sum(self.sizes.elements()),
            "solutions_per_problem": [min(self.sizes), max(self.sizes)] if self.sizes else None,
            "correctness": dict(self.marked_by.most_common()),
            **{name: self.counts[name] for name in names},
            "carried_along": list(self.carried),
            "example": self.example
            and {"problem": self.example.problem, "solution": self.example.solutions[0]},
        }

    def lines(self) -> list[tuple[str, str]]:
        """The same in words, one line each."""
        facts = self.as_dict()
        columns = facts["columns"]
        if isinstance(columns, dict):
            columns = [f"{role} from {name}" for role, name in columns.items()]
        few, many = facts["solutions_per_problem"] or (0, 0)
        each = f"{few} each" if few == many else f"{few} to {many} each"
        sizes = (number_of(facts[f"{noun}s"], noun) for noun in ("problem", "solution"))
        lines = [
            ("Rows", LAYOUTS[self.source.layout].description),
            ("Columns", ", ".join(columns)),
            ("Found", ", ".join((*sizes, each))),
            ("Correctness", "; ".join(self._correctness())),
            *(("Warning", warning) for warning in filter(None, [self.warning()])),
            ("Carried along", ", ".join(self.carried) or "nothing"),
        ]
        for name, text in (facts["example"] or {}).items():
            lines.append((f"A {name}", shorten(text, SHOWN, placeholder="…")))
        return lines

    def warning(self) -> str | None:
        """That too many answers could not be checked, if it is so."""
        return too_many_unchecked([self.counts[name] for name in CHECKS], self.unread)

    def _correctness(self) -> Iterator[str]:
        counts = self.counts
        yield from (f"{by} ({number_of(count, 'problem')})" for by, count in self.marked_by.items())
        if self.marked_by:
            yield in_three([counts[name] for name in CHECKS])
        else:
            yield "neither marks nor reference answers (--answers majority)"
        if counts["with_answer"]:
            differ = 1 - counts["with_most_frequent_answer"] / counts["with_answer"]
            yield f"{differ:.1%} of the answers differ from their problem's most frequent one"
