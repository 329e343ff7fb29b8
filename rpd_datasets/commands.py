"""How a command ends: one line and an exit status for whatever comes of it.

Every entry point runs through [`run_command`], `rpd` and the recipes' scripts alike. What the user
can fix ends in one line on stderr and status 1, a stop by Ctrl-C in 130; anything else is a fault
of this project and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from rpd_metric.errors import RPDError
from rpd_metric.models.failures import Interrupted


def run_command(
    name: str,
    work: Callable[[], None],
    *,
    after_interrupt: str = "the same command goes on where it stopped",
) -> int:
    """Run a command.

    Args:
        name (`str`): What its line on stderr begins with, e.g. `"rpd curate"`.
        work (`Callable`): Does it.
        after_interrupt (`str`): What is said after Ctrl-C.

    Returns:
        `int`: The exit status: 0, 1 after an error that the user can fix, 130 after Ctrl-C, 141
            when the reader of the output went away.

    Example:

    ```py
    >>> from rpd_datasets.commands import run_command
    >>> run_command("example", lambda: None)
    0

    ```
    """
    try:
        work()
    except Interrupted as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 130
    except RPDError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted; {after_interrupt}\n")
        return 130
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nobody is left to read a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0
