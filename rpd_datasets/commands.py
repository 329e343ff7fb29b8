"""How every command ends: errors that the user can fix are one line; bugs keep their traceback."""

import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from rpd_metric.errors import RPDError
from rpd_metric.models.failures import Interrupted

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """A text for terminals and pages: control characters and lone surrogates are replaced.

    >>> printable("a\\x1b[2Jb\\n")
    'a\N{REPLACEMENT CHARACTER}[2Jb\\n'
    """
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def run_command(
    name: str,
    work: Callable[[], None],
    *,
    after_interrupt: str = "run the same command again to continue",
    wording: Callable[[RPDError], str] = str,
) -> int:
    """Run a command. SIGTERM ends it as Ctrl-C does, and a second of either ends it at once.

    Args:
        name (`str`): The prefix of its line on stderr, e.g. `"rpd curate"`.
        work (`Callable`): The command.
        after_interrupt (`str`): Printed after Ctrl-C.
        wording (`Callable`): Makes the line of an error.

    Returns:
        `int`: The exit status: 0, 1 after an error that the user can fix, 130 after Ctrl-C or
            SIGTERM, 141 when the reader of the output went away.
    """
    status, line = 0, ""
    try:
        second_interrupt = f"{name}: interrupted again, stopped at once; {after_interrupt}\n"
        with stopped_by_signals(printable(second_interrupt)):
            work()
    except KeyboardInterrupt:
        status, line = 130, f"interrupted; {after_interrupt}"
    except RPDError as error:
        status, line = 130 if isinstance(error, Interrupted) else 1, wording(error)
    except BrokenPipeError:
        # The reader of our output is gone, e.g. `head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    if line:
        sys.stderr.write(printable(f"{name}: {line}\n"))
    return status


@contextmanager
def stopped_by_signals(at_second: str = "") -> Iterator[Callable[[], None]]:
    """Let Ctrl-C and SIGTERM end what is within; former handlers return.

    Where there is a line `at_second`, a second one of them prints it and ends the process at once.
    Yields a function that raises `KeyboardInterrupt` again after a signal: Python drops exceptions
    in destructors and in callbacks from C.
    """
    signals: list[int] = []

    def stop_if_interrupted() -> None:
        if signals:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield stop_if_interrupted  # only the main thread may have handlers
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        if signals and at_second:
            # Working threads and processes would delay any other exit.
            for child in multiprocessing.active_children():
                child.kill()
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # a live line of progress hides the cursor
            # Not by sys.stderr: the signal may have come in the middle of a write to it.
            with suppress(OSError):
                os.write(2, at_second.encode())
            os._exit(130)
        signals.append(number)
        raise KeyboardInterrupt

    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop_if_interrupted
    finally:
        for number, handler in former.items():
            # `None` is a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
