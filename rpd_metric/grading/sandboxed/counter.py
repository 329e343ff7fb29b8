"""Counts the lines that a model's function runs on inputs that grow. Joined to `wire.py` as text.

Prints a number for each call of the function in the tests, and for each on inputs three times as
large; `null` where it raises an error. The model's code can change anything here; all it gains is a
say over its own counts.
"""

from __future__ import annotations

import ast
import copy
import io
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

FILE = "candidate.py"
TIMES = 3
# Beyond, a count stays as it is: a program in exponential time must end, too.
MOST_LINES = 20_000
MOST_FRAMES = 5_000
# What HumanEval calls the function in its tests.
CANDIDATE = "candidate"


class Enough(BaseException):
    """The count is full. Not an `Exception`, so that no program catches it."""


def main(code: str, name: str, prelude: str, tests: list[Any]) -> None:
    """Load the code, call its function on each input, and print the counts."""
    printed = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr = io.StringIO()
    module = ModuleType("candidate")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    names = module.__dict__
    exec(prelude, names)
    exec(compile(code, FILE, "exec", dont_inherit=True), names)
    solution = names.get("Solution")
    function = getattr(solution(), name, None) if solution else names.get(name)
    inputs = list(_inputs(tests, name, names))
    inputs += [[_larger(value, given) for value in given] for given in inputs]
    sys.setrecursionlimit(MOST_FRAMES)
    json.dump([_lines(function, given) for given in inputs], printed)
    printed.flush()


def _inputs(tests: list[Any], name: str, names: dict[str, Any]) -> Iterator[list[Any]]:
    """The arguments of each test: a list of them beside what is to be returned, or an assertion."""
    for test in tests:
        if not isinstance(test, str):
            yield list(test[0])
            continue
        for node in ast.walk(ast.parse(test)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (name, CANDIDATE):
                expressions = map(ast.Expression, node.args)
                yield [eval(compile(part, "test.py", "eval"), names) for part in expressions]


def _larger(value: Any, given: list[Any]) -> Any:
    """Three times the text or list; numbers stay beside such, and are three times as large alone.

    Copies of a list of numbers lie above each other: what is sorted or distinct stays so.
    """
    if isinstance(value, (list, tuple)):
        if not value or any(type(item) not in (int, float) for item in value):
            return value * TIMES
        span = max(value) - min(value) + 1
        return type(value)(item + span * turn for turn in range(TIMES) for item in value)
    if isinstance(value, str):
        return value * TIMES
    alone = not any(isinstance(other, (list, tuple, str)) and other for other in given)
    return value * TIMES if alone and type(value) is int else value


def _lines(function: Callable[..., Any] | None, given: list[Any]) -> int | None:
    """The lines of the candidate that a call runs, its nested functions' included."""
    count = 0

    def on_line(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        if count >= MOST_LINES:
            raise Enough
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        return on_line if frame.f_code.co_filename == FILE else None

    random.seed(0)
    arguments = copy.deepcopy(given)
    sys.settrace(on_call)
    try:
        function(*arguments)  # type: ignore[misc]
    except Enough:
        pass
    except BaseException:  # noqa: BLE001 whatever it raises: the test says nothing
        return None
    finally:
        sys.settrace(None)
    return count
