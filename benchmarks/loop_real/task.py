"""GSM8K's problems with the right solutions of several models, split by problem.

The file (`gsm8k_example_model_solutions.jsonl` of OpenAI's grade-school-math repository, MIT) has
for each test problem a reference solution and those of four models, marked right or wrong. Only
right ones are candidates. Problems with three or more different candidates may be trained on;
test problems are drawn from all others. Both are limited to problems of few calculations, since a
very small model solves no others. These are GSM8K's *test* problems: what is trained here must
never be compared with anybody's GSM8K figures.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from rpd_metric.errors import InputError

FILE = "gsm8k_example_model_solutions.jsonl"
CALCULATOR = re.compile(r"<<[^>]*>>")
ANSWER = re.compile(r"\n?A: ?(.*)\s*$")
# As many as an arm takes of one problem.
CANDIDATES = 3


def solution_text(text: str) -> str | None:
    r"""A solution without calculator marks, its answer in a box; `None` if it names no answer.

    Example:

    ```py
    >>> from benchmarks.loop_real.task import solution_text
    >>> solution_text("3 * 4 = <<3*4=12>>12 eggs.\nA: 12")
    '3 * 4 = 12 eggs.\nThe answer is \\boxed{12}.'

    ```
    """
    plain = CALCULATOR.sub("", text)
    found = ANSWER.search(plain)
    if found is None:
        return None
    return f"{plain[: found.start()]}\nThe answer is \\boxed{{{found[1].strip()}}}."


def problems(file: Path) -> list[dict[str, Any]]:
    """Every problem with its answer and its right solutions, which differ from each other.

    `calculations` is how many the reference solution marks.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    rows = []
    for line in lines:
        row = json.loads(line)
        texts = [row["ground_truth"]]
        texts += [
            value["solution"]
            for value in row.values()
            if isinstance(value, dict) and value["is_correct"]
        ]
        found = ANSWER.search(row["ground_truth"])
        solutions = list(dict.fromkeys(filter(None, map(solution_text, texts))))
        if found is not None:
            rows.append(
                {
                    "problem": row["question"],
                    "answer": found[1].strip(),
                    "solutions": solutions,
                    "calculations": len(CALCULATOR.findall(row["ground_truth"])),
                }
            )
    return rows


def split(
    rows: list[dict[str, Any]],
    *,
    pool: int,
    tests: int,
    calculations: int,
    test_calculations: int,
    seed: int,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw the problems to train on, out of those with three candidates, and those to test on.

    None is in both. All have one calculation at least, and at most as many as is said.
    """
    draw = random.Random(seed)
    rich = [
        row
        for row in rows
        if len(row["solutions"]) >= CANDIDATES and 1 <= row["calculations"] <= calculations
    ]
    chosen = draw.sample(rich, pool)
    taken = {row["problem"] for row in chosen}
    rest = [
        row
        for row in rows
        if row["problem"] not in taken and 1 <= row["calculations"] <= test_calculations
    ]
    return chosen, draw.sample(rest, tests)
