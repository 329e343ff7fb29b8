"""How much a program does on the inputs of its tests: lines that it runs, counted in the sandbox.

Strategies of a task differ in how the work grows with the input, whatever the program is called,
looks like or says. Python only; the tests are those that a row brings along.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_metric.grading.code import CONTEST_PRELUDE, extract_code
from rpd_metric.grading.isolation import Limits
from rpd_metric.grading.sandbox import Sandbox
from rpd_metric.grading.sandboxed import counter_source

# Columns that hold tests, of which the first is read.
TESTS = ("tests", "test", "test_list")
SECONDS = 10.0


def counted_lines(row: Mapping[str, Any], solutions: Sequence[str]) -> npt.NDArray[np.float32]:
    """`(k, inputs)`: the lines that each solution runs on each input, NaN where it fails.

    The inputs are those of the tests, and those three times as large.

    Args:
        row (`Mapping`): Has the function's name in `entry_point`, and `tests`, `test` or
            `test_list`: assertions that call it, or lists of its arguments and what it returns.
            Without them there are no inputs.

    Raises:
        [`~rpd_metric.grading.isolation.SandboxError`]: This machine cannot isolate programs.
    """
    name, tests = row.get("entry_point"), next((row[key] for key in TESTS if row.get(key)), None)
    counts: list[list[float | None]] = [[] for _ in solutions]
    if isinstance(name, str) and tests:
        listed = [tests] if isinstance(tests, str) else list(tests)
        counts = [_counts(solution, name, listed) for solution in solutions]
    inputs = max(map(len, counts), default=0)
    table = np.full((len(solutions), inputs), np.nan, dtype=np.float32)
    for lines, counted in zip(table, counts, strict=True):
        if len(counted) == inputs:
            lines[:] = counted
    return table


def _counts(solution: str, name: str, tests: Sequence[Any]) -> list[float | None]:
    program = counter_source(extract_code(solution, name), name, CONTEST_PRELUDE, tests)
    try:
        counts = json.loads(_sandbox().run(program).stdout)
    except ValueError:
        return []  # no Python, no such function, or out of time
    numbers = isinstance(counts, list) and all(type(n) in (int, type(None)) for n in counts)
    return counts if numbers else []


@cache
def _sandbox() -> Sandbox:
    return Sandbox(Limits(seconds=SECONDS))
