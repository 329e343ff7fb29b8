"""Grading programs by running their tests in a sandbox.

Two kinds of problem: HumanEval's (complete a function; a `check` function asserts), and those of
programming contests such as LiveCodeBench's. The tests run in another process and another sandbox
than the program or function (`sandboxed/`): one that reads its own file, its memory or its parent
finds arguments and inputs and no expected value, and only plain data comes back from it, so that an
object that equals everything equals nothing.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from rpd_metric.errors import InputError
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
# What LiveCodeBench allows a case.
CASE_SECONDS = 6.0
CASE_MEMORY = 4 << 30
# What it lets a solution use without importing it, in its order: `pow` and `open` are the
# built-in ones, `datetime` and `copy` are modules.
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
CONTEST_PRELUDE = "\n".join(
    [
        *(f"from {module} import *" for module in (*_MODULES, "builtins", "typing")),
        *(f"import {module}" for module in _MODULES),
        "sys.setrecursionlimit(50_000)",
    ]
)


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
class ContestTask:
    """A program to write, tested by what it prints; or a function or method, by calling it.

    A test is what standard input holds and what is to be printed; of a function its arguments and
    what it is to return, as plain JSON values. All must hold.
    """

    tests: Sequence[tuple[Any, Any]]
    seconds: float = CASE_SECONDS  # wall time of each
    prelude: str = ""  # runs before the program, for what it may use unimported
    memory: int | None = None  # bytes of address space; the sandbox's limit if unset
    entry_point: str | None = None  # the function, or method of a class `Solution`


CodeTask = FunctionTask | ContestTask


def extract_code(completion: str, entry_point: str | None = None) -> str:
    """The code of a completion: its last fenced block, else all of it.

    With several blocks and an `entry_point`, the last block that defines it. A block that was
    never closed counts to the end; a `<think>` block does not count.
    """
    spoken = completion.rpartition("</think>")[2]
    blocks = [match.group("code") for match in _FENCE.finditer(spoken)]
    if not blocks:
        return spoken
    if entry_point is not None:
        defining = [code for code in blocks if _defines(code, entry_point)]
        blocks = defining or blocks
    return blocks[-1]


def grade_program(task: CodeTask, completion: str, sandbox: Sandbox) -> ProgramResult:
    """Run a task's tests on a completion; the first one that does not hold ends them.

    What a contest's program prints is right if its lines are, but for white space around them and
    around the output, or as exact decimal numbers ("1.50" is "1.5"); what is printed before
    `sys.exit` counts. What a contest's function returns has to be equal as in Python, a tuple being
    a list. Those are LiveCodeBench's rules.

    Raises:
        [`InputError`]: The tests themselves are broken, or there are none.
    """
    limits = sandbox.limits
    if isinstance(task, FunctionTask):
        code = extract_code(completion, task.entry_point)
        # A continuation of the prompt ends where something else begins at the left margin. A whole
        # function comes after the prompt, whose imports and helpers it may need.
        whole = _defines(code, task.entry_point)
        body = f"\n{code}" if whole else _NEXT_TOPLEVEL.split(code, maxsplit=1)[0]
        program = candidate_source(task.prompt + body, task.entry_point)
        tested: dict[str, Any] = asdict(task)
    elif not task.tests:
        raise InputError("a task without tests would be passed by any program")
    else:
        code = extract_code(completion)
        name = task.entry_point
        program = candidate_source(code, name, task.prelude, task.seconds)
        cases = [[[given] if name is None else list(given), right] for given, right in task.tests]
        # The program's own process ends it in time, and then tells.
        patience = task.seconds if name else task.seconds + 1
        tested = {"cases": cases, "outputs": name is None, "seconds": patience}
        # All tests in one sandbox, each in its time; all of them in one second more for each.
        seconds = (task.seconds + 1) * len(cases) + 5
        limits = replace(limits, seconds=seconds, memory=task.memory or limits.memory)
    if not code.strip():
        return ProgramResult.ERROR
    outcome = sandbox.run(checker_source(), json.dumps(tested), limits=limits, untrusted=program)
    if outcome.end == "timed_out" or outcome.returncode == checker.TIMED_OUT:
        return ProgramResult.TIMED_OUT
    if outcome.returncode == checker.NO_TASK:
        name = tested.get("entry_point", "a function")
        raise InputError(f"the tests of {name} cannot be run: {outcome.stderr.strip()}")
    if outcome.returncode == checker.NOT_PYTHON:
        return ProgramResult.ERROR
    passed = outcome.end == "exited" and outcome.returncode == checker.PASSED
    return ProgramResult.PASSED if passed else ProgramResult.FAILED


def _defines(code: str, name: str) -> bool:
    name = re.escape(name)
    return bool(re.search(rf"^(?:(?:async )?def|class) {name}\b|^{name}\s*=", code, re.MULTILINE))
