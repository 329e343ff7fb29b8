"""The AIME problems of 1983 to 2023, on which the paper continues by reinforcement learning.

The dataset the paper names also holds 2024, which is a benchmark: years outside the range are
left out and counted. Not here: prompts, rewards, and the comparison with benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rpd_datasets.filters.contamination import words_of
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_metric.errors import InputError

HUB_ID = "gneubig/aime-1983-2024"
FIRST_YEAR, LAST_YEAR = 1983, 2023


def load_aime(
    spec: str = HUB_ID, *, limit: int | None = None
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Load the problems of 1983 to 2023, or problems of one's own, which have no year.

    Args:
        spec (`str`): A Hub id, or a file with problem and answer.
        limit (`int`, *optional*): Only the first so many.

    Returns:
        `tuple`: Problems with their answers, and counts by label.
    """
    found: dict[str, tuple[str, str, int | None]] = {}
    other_years = duplicates = 0
    for row in _rows(spec):
        problem, answer, year = str(row["problem"]), str(row["answer"]), row["year"]
        # Copies of a problem of the AIME differ in spacing and LaTeX; one's own may differ in no
        # more than that.
        key = problem if year is None else " ".join(words_of(problem))
        if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
            other_years += 1
        elif key in found:
            duplicates += 1
        else:
            found[key] = (problem, answer, year)
    if not found:
        raise InputError(f"{spec} holds no problem of {FIRST_YEAR} to {LAST_YEAR}")
    kept = list(found.values())[:limit]
    return [(problem, answer) for problem, answer, _ in kept], {
        "problems with a year": sum(year is not None for _, _, year in kept),
        "problems left out for their year": other_years,
        "problems left out as duplicates": duplicates,
    }


def _rows(spec: str) -> Iterator[dict[str, Any]]:
    """Rows with problem, answer and year, however they are spelt."""
    for row in open_rows(spec, InputSpec(), streaming=False):
        if not isinstance(row, Row):
            raise InputError(f"{spec} cannot be read. {row.where}: {row.detail}")
        cells = {name.lower(): cell for name, cell in row.values.items() if cell is not None}
        cells = {"problem": cells.get("question"), "year": None, **cells}
        for name in ("problem", "answer"):
            if cells.get(name) is None:
                raise InputError(f"{spec} has a row without {name}")
        if (year := cells["year"]) is not None:
            try:
                cells["year"] = int(year)
            except (TypeError, ValueError):
                raise InputError(f"{spec} has the year {year!r}, which is no number") from None
        yield cells
