"""What was left out, and why: one record per dropped row, problem or solution."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
