"""Runs a model's code and answers calls of its function. Joined to `wire.py` as text.

Reads one call a line from standard input, writes one reply a line to standard output. The
model's code can change anything here; all it gains is a say over its own replies.

A whole program is a function, too: it gets what it reads and returns what it prints. Each call
runs it in a process forked off after the imports, which may leave, break or hang by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpd_metric.grading.sandboxed.wire import decode, encode, to_line


def main(code: str, name: str | None, prelude: str, seconds: float | None) -> None:
    """Load the code, say whether it is Python, then answer calls until there are no more."""
    calls = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    module = ModuleType("candidate" if name else "__main__")
    module.__file__ = __file__
    sys.modules[module.__name__] = module  # dataclasses look their module up
    names = module.__dict__
    try:
        compiled = compile(code, "candidate.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        replies.write(to_line({"broken": str(error)}))
        return
    exec(prelude, names)
    function: Any
    if name is None:
        function = _program_of(compiled, names, seconds)
    else:
        exec(compiled, names)
        # A helper may have the method's name.
        method = getattr(names["Solution"](), name, None) if "Solution" in names else None
        function = method or names[name]
    replies.write(to_line({"ready": True}))
    for line in calls:
        try:
            reply = {"value": encode(function(*decode(json.loads(line))))}
        except BaseException as error:  # noqa: BLE001 whatever it raises goes to the checker
            reply = {"raised": type(error).__name__}
        replies.write(to_line(reply))


def _program_of(
    compiled: CodeType, names: dict[str, Any], seconds: float | None
) -> Callable[[str], str]:
    """A program as a function from its input to its output."""

    def run(given: str) -> str:
        # Files in memory would not count against the sandbox's disk, and are refused there.
        with tempfile.TemporaryFile() as reads, tempfile.TemporaryFile() as writes:
            reads.write(given.encode("utf-8", errors="replace"))
            reads.seek(0)
            process = os.fork()
            if process == 0:
                _run_and_leave(compiled, names, reads.fileno(), writes.fileno())
            ended = os.pidfd_open(process)
            in_time = bool(select.select([ended], [], [], seconds)[0])
            os.close(ended)
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            writes.seek(0)
            printed = writes.read().decode("utf-8", errors="replace")
        if not in_time:
            raise TimeoutError
        if status:
            raise RuntimeError
        return printed

    return run


def _run_and_leave(compiled: CodeType, names: dict[str, Any], reads: int, writes: int) -> None:
    """Run the program with these streams; it has failed if an error ends it."""
    os.dup2(reads, 0)
    os.dup2(writes, 1)
    status = 0
    try:
        exec(compiled, names)
    except SystemExit:  # whatever its status: the output counts
        pass
    except BaseException:  # noqa: BLE001 the program's own
        status = 1
    with contextlib.suppress(OSError, ValueError):  # more than it may print, or closed
        sys.stdout.flush()
    os._exit(status)
