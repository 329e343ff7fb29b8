"""Runs a function's tests against a candidate in another process. Joined to `wire.py` as text.

    python checker.py READ WRITE < task.json

READ and WRITE are the pipes from and to the candidate. The task is either HumanEval's (source
that defines `check`) or a list of calls with expected values or outputs. The exit status is the
result.
"""

from __future__ import annotations

import builtins
import json
import os
import select
import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpd_metric.grading.sandboxed.wire import NotPlain, decode, encode, to_line

PASSED, FAILED, NOT_PYTHON, NO_TASK, TIMED_OUT = 10, 11, 12, 13, 14


class Finished(BaseException):
    """The result is known. Not an `Exception`, so that no test can catch it."""

    def __init__(self, status: int) -> None:
        self.status = status


class Candidate:
    """The function in the other process; calling it calls that one."""

    def __init__(self, replies: int, calls: int, seconds: float | None) -> None:
        self._replies, self._calls, self._seconds = replies, calls, seconds
        self._unread = b""
        if "broken" in self._receive():
            raise Finished(NOT_PYTHON)

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns, or a built-in exception in the place of its own."""
        try:
            call = to_line(encode(list(arguments)))
        except NotPlain as error:
            sys.stderr.write(f"{error}\n")
            raise Finished(NO_TASK) from None
        try:
            while call:
                call = call[os.write(self._calls, call) :]
        except BrokenPipeError:
            raise Finished(FAILED) from None
        reply = self._receive()
        if "value" in reply:
            return decode(reply["value"])
        raised = getattr(builtins, str(reply.get("raised")), None)
        # A test may expect an exception. Never SystemExit, which is no `Exception`.
        if isinstance(raised, type) and issubclass(raised, Exception):
            raise raised
        raise RuntimeError("the function raised an error of its own")

    def _receive(self) -> dict[str, Any]:
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            # A program is ended by its own process, which tells in time.
            if not select.select([self._replies], [], [], self._seconds)[0]:
                raise Finished(TIMED_OUT)
            part = os.read(self._replies, 1 << 20)
            if not part:
                raise Finished(FAILED)
            parts.append(part)
        line, _, self._unread = b"".join(parts).partition(b"\n")
        reply = json.loads(line)
        if not isinstance(reply, dict):
            raise Finished(FAILED)
        return reply


def same(value: Any, expected: Any) -> bool:
    """Whether a call returned what was expected; a tuple counts as a list, those in it do not."""
    return bool((list(value) if isinstance(value, tuple) else value) == expected)


def same_output(output: str, expected: str) -> bool:
    """Whether two outputs are the same: line by line, as text or as exact decimal numbers.

    White space around the output and around its lines does not count.
    """
    ours, theirs = (
        [line.strip() for line in text.strip().split("\n")] for text in (output, expected)
    )
    return len(ours) == len(theirs) and all(
        a == b or _same_numbers(a, b) for a, b in zip(ours, theirs, strict=True)
    )


def _same_numbers(a: str, b: str) -> bool:
    try:
        return [Decimal(word) for word in a.split()] == [Decimal(word) for word in b.split()]
    except InvalidOperation:
        return False


def check(task: dict[str, Any], candidate: Candidate) -> int:
    """The result of a task's tests."""
    if "cases" in task:
        agree = same_output if task["outputs"] else same
        try:
            right = all(agree(candidate(*given), expected) for given, expected in task["cases"])
        except TimeoutError:  # of a program; who waits for a function finds out alone
            return TIMED_OUT
        return PASSED if right else FAILED
    names: dict[str, Any] = {"__name__": "checker"}
    try:
        # The helpers that a prompt defines are taken from it, not from the candidate.
        exec(compile(task["prompt"], "prompt", "exec", dont_inherit=True), names)
        names[task["entry_point"]] = candidate
        exec(compile(task["test"], "test", "exec", dont_inherit=True), names)
    except Exception as error:  # noqa: BLE001 whatever is wrong with them, the tests are at fault
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_TASK
    names["check"](candidate)
    return PASSED


def main() -> None:
    """Read the task, test the candidate, and exit with the result."""
    replies, calls = int(sys.argv[1]), int(sys.argv[2])
    task = json.load(sys.stdin)
    try:
        status = check(task, Candidate(replies, calls, task.get("seconds")))
    except Finished as finished:
        status = finished.status
    except Exception as error:  # noqa: BLE001 a failed assertion, or a reply without sense
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        status = FAILED
    sys.stderr.flush()
    os._exit(status)
