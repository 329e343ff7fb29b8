"""The AIME problems of 1983 to 2023, on which the paper continues by reinforcement learning.

The dataset the paper names also holds 2024, which is a benchmark: years outside the range are
left out and counted, and what is left is compared with the held-out problems word by word. Not
here: prompts and rewards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpd_datasets.filters.duplicates import shingles
from rpd_metric.errors import InputError, first_line

HUB_ID = "gneubig/aime-1983-2024"
FIRST_YEAR, LAST_YEAR = 1983, 2023
# Names the same columns have in the dataset on the Hub and in JSON copies of it.
COLUMNS = {
    "problem": ("problem", "Question", "Problem", "question"),
    "answer": ("answer", "Answer"),
}
YEAR = ("year", "Year")
# Two statements of one problem share most of their runs of five words. Different problems share
# stock phrases ("where m and n are relatively prime positive integers"): of all pairs of AIME
# problems before 2024 with those of 2024, the closest shares 0.38.
SAME = 0.5


@dataclass(frozen=True)
class AimeProblems:
    """The problems, and how many rows were left out.

    Args:
        problems (`tuple[str, ...]`): Statements.
        answers (`tuple[str, ...]`): Integers from 0 to 999, as text.
        years (`tuple[int | None, ...]`): When each was set; `None` for problems without a year,
            which are a user's own.
        other_years (`int`): Rows left out because of their year.
        duplicates (`int`): Rows left out because the same statement stood before.
    """

    problems: tuple[str, ...]
    answers: tuple[str, ...]
    years: tuple[int | None, ...]
    other_years: int
    duplicates: int


def load_aime(spec: str = HUB_ID, *, limit: int | None = None) -> AimeProblems:
    """Load the problems of 1983 to 2023, or problems of one's own.

    Rows without a year are not of the AIME: they are all taken, unless their text is the same.

    Args:
        spec (`str`): A Hub id, or a JSON or JSONL file with problem and answer, and with the year
            of problems of the AIME.
        limit (`int`, *optional*): Only the first so many.

    Returns:
        [`AimeProblems`]

    Raises:
        [`InputError`]: The source cannot be read, lacks a column, or holds no such problem.
    """
    problems: dict[str, tuple[str, str, int | None]] = {}
    other_years = duplicates = 0
    for place, row in enumerate(_rows(spec)):
        problem, answer = (_cell(row, name, spec) for name in COLUMNS)
        number = _year(row, place, spec)
        if number is not None and not FIRST_YEAR <= number <= LAST_YEAR:
            other_years += 1
            continue
        key = str(problem) if number is None else _plain(str(problem))
        if key in problems:
            duplicates += 1
            continue
        problems[key] = (str(problem), str(answer), number)
    if not problems:
        raise InputError(f"{spec} holds no problem of {FIRST_YEAR} to {LAST_YEAR}")
    kept = list(problems.values())[:limit]
    return AimeProblems(
        problems=tuple(problem for problem, _, _ in kept),
        answers=tuple(answer for _, answer, _ in kept),
        years=tuple(year for _, _, year in kept),
        other_years=other_years,
        duplicates=duplicates,
    )


def check_leakage(problems: Sequence[str], spec: str) -> int:
    """Make sure that no training problem is among the held-out ones.

    Args:
        problems (`Sequence[str]`): To train on.
        spec (`str`): The held-out problems, e.g. AIME 2024: a Hub id or a JSON or JSONL file.

    Returns:
        `int`: The number of held-out problems that were compared.

    Raises:
        [`InputError`]: A problem is held out.
    """
    held_out = [str(_cell(row, "problem", spec)) for row in _rows(spec)]
    leaks = leaked(problems, held_out)
    if leaks:
        there, here = leaks[0]
        raise InputError(
            f"{len(leaks)} training problem(s) stand in {spec}, too, which is held out: row "
            f"{there} of the training data is row {here} of it; leave them out before training"
        )
    return len(held_out)


def leaked(problems: Sequence[str], held_out: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of indices of problems that are the same, up to small changes of wording.

    Args:
        problems (`Sequence[str]`): To train on.
        held_out (`Sequence[str]`): Not to train on.

    Returns:
        `list[tuple[int, int]]`: Index into each.

    Example:

    ```py
    >>> from rpd_datasets.training.aime import leaked
    >>> leaked(["Find $x$ if 2x = 4.", "Find y."], ["Find x, if 2x=4!"])
    [(0, 0)]

    ```
    """
    theirs = [shingles(_plain(text)) for text in held_out]
    pairs = []
    for index, text in enumerate(problems):
        ours = shingles(_plain(text))
        for other, them in enumerate(theirs):
            shared = len(ours & them)
            # Of the shorter statement: a figure's description may be left out of one of them.
            if shared >= SAME * min(len(ours), len(them)):
                pairs.append((index, other))
    return pairs


def _plain(text: str) -> str:
    """Words and digits only, since copies of one problem differ in spacing and LaTeX."""
    return " ".join(re.findall(r"[a-z]+|\d", text.lower()))


def _rows(spec: str) -> Any:
    path = Path(spec).expanduser()
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        try:
            if path.suffix == ".json":
                return json.loads(text)
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise InputError(f"{spec} is no valid JSON: {error}") from error
    if spec.count("/") != 1 or spec.startswith((".", "/", "~")):
        raise InputError(f"there is no file {spec}, and it is no Hub id (owner/name)")
    import datasets

    try:
        return datasets.load_dataset(spec, split="train")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(f"cannot load {spec}: {first_line(error)}") from error


def _year(row: Any, place: int, spec: str) -> int | None:
    year = next((row[name] for name in YEAR if row.get(name) is not None), None)
    try:
        return None if year is None else int(year)
    except (TypeError, ValueError):
        raise InputError(f"row {place} of {spec} has the year {year!r}, no number") from None


def _cell(row: Any, name: str, spec: str) -> Any:
    for column in COLUMNS[name]:
        if isinstance(row, dict) and row.get(column) is not None:
            return row[column]
    raise InputError(f"{spec} has a row without {name}; it may be called {COLUMNS[name]}")
