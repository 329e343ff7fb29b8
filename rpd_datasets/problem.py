"""One problem with its solutions, the unit after reading, and the record of what is left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Rejected:
    """One thing that was left out.

    Args:
        stage (`str`): `"read"`, `"group"`, `"filter"`, `"steps"`, `"select"` or
            `"export"`.
        reason (`str`): A short code that drops are counted by, e.g. `"missing_column"`.
        where (`str`): Its place in the input, e.g. `"solutions.jsonl:17"`.
        detail (`str`): One line for a person.
        problem (`str`, *optional*): The problem's text, when it is known.
        solution_index (`int`, *optional*): Index into the row's `solutions`; `None` when the
            whole row or problem was left out.
    """

    stage: str
    reason: str
    where: str
    detail: str
    problem: str | None = None
    solution_index: int | None = None

    def as_row(self) -> dict[str, Any]:
        """The record as a plain JSON row for the rejects file."""
        return asdict(self)


@dataclass(frozen=True)
class Problem:
    """One problem with all its usable solutions.

    Args:
        problem (`str`): The problem's text.
        solutions (`tuple[str, ...]`): At least one.
        extra (`Mapping[str, Any]`): Every other column. A list as long as `solutions` holds one
            entry per solution, in the same order.
        where (`str`): Its place in the input, e.g. `"rows.jsonl:17"`.
        group (`str`): Its id in a log; rows are one problem if text and group are the same.
        identity (`str`): What rows of one problem share instead of its text, if not empty.
    """

    problem: str
    solutions: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    group: str = ""
    identity: str = ""

    @cached_property
    def key(self) -> str:
        """A sha256 over problem and solutions, independent of position."""
        digest = hashlib.sha256()
        for text in (self.problem, *self.solutions):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(f"{len(data)}:".encode())
            digest.update(data)
        return digest.hexdigest()

    def take(self, indices: Sequence[int]) -> Problem:
        """The problem with some of its solutions, in this order, and the lists beside them in step.

        >>> problem = Problem("2 + 2?", ("4", "5", "four"), {"correct": [True, False, True]})
        >>> problem.take([0, 2]).extra
        {'correct': [True, True]}
        """
        return Problem(
            problem=self.problem,
            solutions=tuple(self.solutions[index] for index in indices),
            extra=_take(self.extra, len(self.solutions), indices),
            where=self.where,
            group=self.group,
            identity=self.identity,
        )

    def rejected(
        self, stage: str, reason: str, detail: str, solution_index: int | None = None
    ) -> Rejected:
        """The record that this problem, or one of its solutions, was left out."""
        return Rejected(stage, reason, self.where, detail, self.problem, solution_index)


def each_solution(problem: Problem, column: str) -> Sequence[Any]:
    """A column's value for each solution; one that never differs is that of all."""
    value = problem.extra.get(column)
    return value if isinstance(value, (list, tuple)) else [value] * len(problem.solutions)


# An unknown strategy.
UNNAMED = "–"


def strategy_labels(extra: Mapping[str, Any], num_solutions: int) -> list[str] | None:
    """Each solution's strategy, by the columns `strategies` (labels) and `strategy_names` (their
    names, by label or as a list); "–" without a label.

    >>> strategy_labels({"strategies": [0, 1], "strategy_names": {"0": "by parts"}}, 2)
    ['by parts', '1']
    >>> strategy_labels({"strategies": [1, None], "strategy_names": ["sums", "areas"]}, 2)
    ['areas', '–']
    """
    labels, names = extra.get("strategies"), extra.get("strategy_names")
    if not isinstance(labels, list) or len(labels) != num_solutions:
        return None
    if all(label is None for label in labels):
        return None
    if isinstance(names, list):
        names = {str(label): name for label, name in enumerate(names)}
    names = names if isinstance(names, Mapping) else {}
    return [UNNAMED if label is None else str(names.get(str(label)) or label) for label in labels]


def _take(value: Any, count: int, indices: Sequence[int]) -> Any:
    """Pick from every list of length `count`, also inside nested columns."""
    if isinstance(value, Mapping):
        return {name: _take(inner, count, indices) for name, inner in value.items()}
    if isinstance(value, (list, tuple)) and len(value) == count:
        return [value[index] for index in indices]
    return value
