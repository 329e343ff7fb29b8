"""What a table of measurements says of the machine it was made on, and memory of a process."""

import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tabulate import tabulate


def machine(packages: Sequence[str] = ()) -> str:
    """One line: cores, processor, Python and the versions of some packages."""
    cpuinfo = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    model = match[1] if match else platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [f"{name} {version(name)}" for name in packages]
    return ", ".join([f"{cores} cores, {model}", f"Python {platform.python_version()}", *versions])


def peak_memory() -> int:
    """The most bytes of memory that this process had resident at any time, on Linux.

    Unlike `ru_maxrss`, it begins anew with the program: nothing of the parent's is in it.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """Rows as a Markdown table, their keys as its head; "-" for a key that a row lacks."""
    return tabulate(rows, headers="keys", tablefmt="github", disable_numparse=True, missingval="-")
