"""Grading programs by running their tests in a sandbox.

Three kinds of problem: HumanEval's (complete a function; a `check` function asserts), and those
of programming contests such as LiveCodeBench's, which read standard input and print the answer
or define a function or method that is called.

    completion -> code (fenced block, or a raw continuation) -> program -> sandbox -> result

A function's tests run in another process and another sandbox than the function
(`sandboxed/`): a program that reads its own file, its memory or its parent finds arguments and
no expected value, and only plain data comes back from it, so that an object that equals
everything equals nothing. A program that reads standard input never meets the expected output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from rpd_metric.errors import InputError
from rpd_metric.grading.in_order import in_order
from rpd_metric.grading.sandbox import Sandbox
from rpd_metric.grading.sandboxed import candidate_source, checker, checker_source

_FENCE = re.compile(
    r"^[ \t]*+(?:```|~~~)[^\n]*+\n(?P<code>.*?)(?:^[ \t]*+(?:```|~~~)|\Z)",
    flags=re.DOTALL | re.MULTILINE,
)
# Where a base model that was to complete one function goes on to something else.
_NEXT_TOPLEVEL = re.compile(
    r"^(?:def |class |if __name__|print\(|assert |#|@|```|<\|)", re.MULTILINE
)
_NOT_PYTHON = ("SyntaxError:", "IndentationError:", "TabError:")
# LiveCodeBench allows a case this long.
CASE_SECONDS = 6.0
# What a contest's solution may use without importing it. The built-in names come last, because
# some of the modules have a `pow` or an `open` of their own.
CONTEST_PRELUDE = """\
import bisect, collections, functools, heapq, itertools, json, math, operator, random, re, string
import sys
from bisect import *
from collections import *
from copy import *
from datetime import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from random import *
from re import *
from statistics import *
from string import *
from typing import *
from builtins import *
sys.setrecursionlimit(50_000)
"""


class ProgramResult(StrEnum):
    """What running a completion's tests came to. Only `PASSED` counts as solved.

    `FAILED`: a test did not hold, or the program broke or exceeded its memory or output.
    `ERROR`: there was no program to test: no code, or not Python.
    """

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ERROR = "error"


@dataclass(frozen=True)
class FunctionTask:
    """A function to complete, as in HumanEval; `test` is source that defines `check(candidate)`."""

    prompt: str
    entry_point: str
    test: str


@dataclass(frozen=True)
class StdioTask:
    """A program to write, tested through its standard input and output.

    Args:
        tests (`Sequence` of `(input, expected output)`): All must hold.
        seconds (`float`, *optional*): Wall time of each; the sandbox's limit if unset.
        prelude (`str`): Code that runs before the program, for what it may use unimported.
    """

    tests: Sequence[tuple[str, str]]
    seconds: float | None = None
    prelude: str = ""


@dataclass(frozen=True)
class CallTask:
    """A function, or a method of a class `Solution`, to write; tested by calling it.

    Args:
        entry_point (`str`): Its name.
        tests (`Sequence` of `(arguments, expected value)`): All must hold; plain JSON values.
        seconds (`float`): Wall time of each call.
        prelude (`str`): Code that runs before the function's.
    """

    entry_point: str
    tests: Sequence[tuple[Sequence[Any], Any]]
    seconds: float = CASE_SECONDS
    prelude: str = ""


CodeTask = FunctionTask | StdioTask | CallTask


def extract_code(completion: str, entry_point: str | None = None) -> str:
    """The code of a completion: its last fenced block, else all of it.

    With several blocks and an `entry_point`, the last block that defines it. A block that was
    never closed counts to the end; a `<think>` block does not count.

    >>> extract_code("Sure:\\n```python\\nprint(1)\\n```\\nIt prints 1.")
    'print(1)\\n'
    """
    spoken = completion.rpartition("</think>")[2]
    blocks = [match.group("code") for match in _FENCE.finditer(spoken)]
    if not blocks:
        return spoken
    if entry_point is not None:
        defining = [code for code in blocks if _defines(code, entry_point)]
        blocks = defining or blocks
    return blocks[-1]


def _function_program(task: FunctionTask, completion: str) -> str:
    """Prompt and function.

    A completion that defines the function itself follows the whole prompt, whose imports and
    helpers it may need, and replaces its empty function. Another one is a continuation of the
    prompt and ends where something else begins at the left margin.
    """
    code = extract_code(completion, task.entry_point)
    if _defines(code, task.entry_point):
        return f"{task.prompt}\n{code}"
    after = _NEXT_TOPLEVEL.search(code)
    return task.prompt + (code[: after.start()] if after else code)


def grade_function(task: FunctionTask, completion: str, sandbox: Sandbox) -> ProgramResult:
    """Run a completed function's tests; [`InputError`] where the tests themselves are broken."""
    if not extract_code(completion, task.entry_point).strip():
        return ProgramResult.ERROR
    tested = {"prompt": task.prompt, "entry_point": task.entry_point, "test": task.test}
    program = candidate_source(_function_program(task, completion), task.entry_point)
    return _check(program, tested, sandbox)


def grade_calls(task: CallTask, completion: str, sandbox: Sandbox) -> ProgramResult:
    """Call a function with the tests' arguments and compare what it returns.

    Values are equal as in Python, a tuple being a list: LiveCodeBench's rule. A test may take
    the task's time, all of them together one second more for each and five to start.
    """
    code = extract_code(completion)
    if not code.strip():
        return ProgramResult.ERROR
    tested = {"cases": [[list(given), value] for given, value in task.tests]}
    overall = (task.seconds + 1) * len(task.tests) + 5
    program = candidate_source(code, task.entry_point, task.prelude)
    return _check(program, tested | {"seconds": task.seconds}, sandbox, overall)


def _check(
    program: str, tested: dict[str, Any], sandbox: Sandbox, seconds: float | None = None
) -> ProgramResult:
    """Run a candidate beside its checker, whose exit status is the result."""
    outcome = sandbox.run_pair(checker_source(), program, json.dumps(tested), seconds=seconds)
    if outcome.end == "timed_out" or outcome.returncode == checker.TIMED_OUT:
        return ProgramResult.TIMED_OUT
    if outcome.returncode == checker.NO_TASK:
        name = tested.get("entry_point", "a function")
        raise InputError(f"the tests of {name} cannot be run: {outcome.stderr.strip()}")
    if outcome.returncode == checker.NOT_PYTHON:
        return ProgramResult.ERROR
    passed = outcome.end == "exited" and outcome.returncode == checker.PASSED
    return ProgramResult.PASSED if passed else ProgramResult.FAILED


def grade_stdio(task: StdioTask, completion: str, sandbox: Sandbox) -> ProgramResult:
    """Run a program on the tests' inputs and compare what it prints; stops at the first failure.

    Lines are equal but for white space around them, or when their words are, as text or as exact
    decimal numbers ("1.50" is "1.5"); empty lines at the end do not count.
    """
    code = extract_code(completion)
    if not code.strip():
        return ProgramResult.ERROR
    program = _with_prelude(code, task.prelude) if task.prelude else code
    for given, expected in task.tests:
        # An expected output may be longer than what programs may print as a rule.
        room = max(sandbox.limits.output, 2 * len(expected))
        outcome = sandbox.run(program, given, seconds=task.seconds, output=room)
        if outcome.end == "timed_out":
            return ProgramResult.TIMED_OUT
        last = outcome.stderr.rstrip().rpartition("\n")[2]
        # The interpreter itself reports no traceback for a file that it cannot compile.
        if (
            outcome.returncode
            and last.startswith(_NOT_PYTHON)
            and "Traceback" not in outcome.stderr
        ):
            return ProgramResult.ERROR
        if outcome.returncode != 0 or not same_output(outcome.stdout, expected):
            return ProgramResult.FAILED
    return ProgramResult.PASSED


def _with_prelude(code: str, prelude: str) -> str:
    """A program that runs another one after a prelude; `from __future__` stays its first line."""
    return (
        "import sys\n"
        "try:\n"
        f"    _code = compile({code!r}, 'main.py', 'exec', dont_inherit=True)\n"
        "except (SyntaxError, ValueError) as _error:\n"
        "    sys.exit(f'SyntaxError: {_error}')\n"
        f"exec({prelude!r}, globals())\n"
        "exec(_code, globals())\n"
    )


def grade_code(
    rows: Iterable[tuple[CodeTask, str]],
    sandbox: Sandbox,
    *,
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Iterator[ProgramResult]:
    """Grade completions in parallel; verdicts keep the order of the rows.

    Args:
        rows (iterable of `(task, completion)`): Read only a little ahead.
        workers (`int`): Programs that run at a time; more than cores make each other time out.
        progress (callable, *optional*): Called with the number of verdicts so far.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; use at least 1")
    with ThreadPoolExecutor(workers) as threads:

        def start(row: tuple[CodeTask, str]) -> ProgramResult | Future[ProgramResult]:
            if not getattr(row[0], "tests", True):
                raise InputError("a task without tests would be passed by any program")
            return threads.submit(_GRADES[type(row[0])], *row, sandbox)

        yield from in_order(rows, start, 4 * workers, progress)


_GRADES: dict[type[CodeTask], Callable[..., ProgramResult]] = {
    FunctionTask: grade_function,
    CallTask: grade_calls,
    StdioTask: grade_stdio,
}


def same_output(got: str, expected: str) -> bool:
    """Whether two outputs are the same, in the sense of [`grade_stdio`]."""
    ours = [line.strip() for line in got.rstrip().split("\n")]
    theirs = [line.strip() for line in expected.rstrip().split("\n")]
    if len(ours) != len(theirs):
        return False
    return all(a == b or _same_words(a, b) for a, b in zip(ours, theirs, strict=True))


def _defines(code: str, name: str) -> bool:
    pattern = rf"^(?:(?:async )?def|class) {re.escape(name)}\b|^{re.escape(name)}\s*="
    return re.search(pattern, code, re.MULTILINE) is not None


def _same_words(a: str, b: str) -> bool:
    ours, theirs = a.split(), b.split()
    return len(ours) == len(theirs) and all(
        x == y or (_number(x) is not None and _number(x) == _number(y))
        for x, y in zip(ours, theirs, strict=True)
    )


def _number(word: str) -> Decimal | None:
    try:
        number = Decimal(word)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
