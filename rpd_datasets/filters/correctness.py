"""Solutions that the input marks as wrong. The mark is believed; grading is not done here."""

from __future__ import annotations

from typing import Any

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_metric.errors import InputError


def incorrect(candidates: Candidates, correct_column: str) -> Drops:
    """Leave out every solution that is not marked as correct.

    Args:
        candidates ([`Candidates`]): The solutions.
        correct_column (`str`): The column with the marks: a boolean per solution, or one for all.

    Raises:
        InputError: If the column is missing.
    """
    problem, column = candidates.problem, correct_column
    if column not in problem.extra:
        raise InputError(
            f"only_correct needs the column {column!r}, which {problem.where or 'the row'} does "
            f"not have, only: {', '.join(problem.extra) or 'none'}. Name yours with "
            "correct_column, or turn only_correct off."
        )
    marks: Any = problem.extra[column]
    count = len(problem.solutions)
    if not isinstance(marks, (list, tuple)):
        # Flat rows whose marks never differ within a problem come with one mark for all.
        marks = [marks] * count
    if len(marks) != count:
        detail = f"The column {column!r} has {len(marks)} marks for {count} solutions."
        return dict.fromkeys(range(count), ("correctness_unknown", detail))
    drops: dict[int, tuple[str, str]] = {}
    for index, mark in enumerate(marks):
        if mark is False:
            drops[index] = ("incorrect", f"The column {column!r} marks it as wrong.")
        elif mark is not True:
            drops[index] = ("correctness_unknown", f"The column {column!r} does not say.")
    return drops
