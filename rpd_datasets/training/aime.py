"""The AIME problems of 1983 to 2023, on which the paper continues by reinforcement learning.

The dataset the paper names also holds 2024, which is a benchmark: years outside the range are
left out and counted, and what is left is compared with the held-out problems word by word. Not
here: prompts and rewards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpd_datasets.filters.duplicates import shingles
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_metric.errors import InputError

HUB_ID = "gneubig/aime-1983-2024"
FIRST_YEAR, LAST_YEAR = 1983, 2023
# The dataset on the Hub and JSON copies of it name the statement differently, and write the
# names with and without a capital.
PROBLEM = ("problem", "question")
# Two statements of one problem share most of their runs of five words. Different problems share
# stock phrases ("where m and n are relatively prime positive integers"): of all pairs of AIME
# problems before 2024 with those of 2024, the closest shares 0.38.
SAME = 0.5


@dataclass(frozen=True)
class AimeProblems:
    """The problems, and how many rows were left out."""

    problems: tuple[str, ...]
    answers: tuple[str, ...]  # of the AIME integers from 0 to 999
    years: tuple[int | None, ...]  # None for problems without a year, a user's own
    other_years: int  # rows left out because of their year
    duplicates: int  # rows left out because the same statement stood before


def load_aime(spec: str = HUB_ID, *, limit: int | None = None) -> AimeProblems:
    """Load the problems of 1983 to 2023, or problems of one's own, which have no year.

    Args:
        spec (`str`): A Hub id, or a file with problem and answer.
        limit (`int`, *optional*): Only the first so many.
    """
    found: dict[str, tuple[str, str, int | None]] = {}
    other_years = duplicates = 0
    for place, row in enumerate(_rows(spec)):
        problem, answer = _cell(row, spec, *PROBLEM), _cell(row, spec, "answer")
        year = _year(row, place, spec)
        # Copies of a problem of the AIME differ in spacing and LaTeX; one's own may differ in no
        # more than that.
        key = problem if year is None else _plain(problem)
        if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
            other_years += 1
        elif key in found:
            duplicates += 1
        else:
            found[key] = (problem, answer, year)
    if not found:
        raise InputError(f"{spec} holds no problem of {FIRST_YEAR} to {LAST_YEAR}")
    kept = list(found.values())[:limit]
    return AimeProblems(
        problems=tuple(problem for problem, _, _ in kept),
        answers=tuple(answer for _, answer, _ in kept),
        years=tuple(year for _, _, year in kept),
        other_years=other_years,
        duplicates=duplicates,
    )


def check_leakage(problems: Sequence[str], spec: str) -> int:
    """Refuse training problems of a Hub id or JSON file that is held out; returns its size."""
    held_out = [_cell(row, spec, *PROBLEM) for row in _rows(spec)]
    if leaks := leaked(problems, held_out):
        there, here = leaks[0]
        raise InputError(
            f"{len(leaks)} training problem(s) stand in {spec}, too, which is held out: row "
            f"{there} of the training data is row {here} of it; leave them out before training"
        )
    return len(held_out)


def leaked(problems: Sequence[str], held_out: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places of problems that are the same, up to small changes of wording."""
    theirs = [shingles(_plain(text)) for text in held_out]
    pairs = []
    for index, text in enumerate(problems):
        ours = shingles(_plain(text))
        for other, them in enumerate(theirs):
            # Of the shorter statement: a figure's description may be left out of one of them.
            if len(ours & them) >= SAME * min(len(ours), len(them)):
                pairs.append((index, other))
    return pairs


def _plain(text: str) -> str:
    """Words and digits only."""
    return " ".join(re.findall(r"[a-z]+|\d", text.lower()))


def _rows(spec: str) -> Iterator[Mapping[str, Any]]:
    for row in open_rows(spec, InputSpec(), streaming=False):
        if not isinstance(row, Row):
            raise InputError(f"{spec} cannot be read. {row.where}: {row.detail}")
        yield row.values


def _value(row: Mapping[str, Any], *names: str) -> Any:
    """The first value that a row has under one of the names."""
    spelt = (spelling for name in names for spelling in (name, name.capitalize()))
    return next((row[name] for name in spelt if row.get(name) is not None), None)


def _cell(row: Mapping[str, Any], spec: str, *names: str) -> str:
    if (value := _value(row, *names)) is None:
        raise InputError(f"{spec} has a row without {names[0]}; it may be called {names}")
    return str(value)


def _year(row: Mapping[str, Any], place: int, spec: str) -> int | None:
    year = _value(row, "year")
    try:
        return None if year is None else int(year)
    except (TypeError, ValueError):
        raise InputError(f"row {place} of {spec} has the year {year!r}, no number") from None
