"""What a table of measurements says of the machine it was made on, and memory of a process."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path


def machine(packages: Sequence[str] = ()) -> str:
    """One line: cores, processor, Python and the versions of some packages."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.partition(": ")[2] for x in lines if x.startswith("model name")), model)
    versions = [f"{name} {version(name)}" for name in packages]
    return ", ".join([f"{cores} cores, {model}", f"Python {platform.python_version()}", *versions])


def peak_memory() -> int:
    """The most bytes of memory that this process had resident at any time."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike ru_maxrss, it begins anew with the program: nothing of the parent's is in it.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """Rows as a Markdown table, their keys as its head."""
    if not rows:
        return ""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([str(row[name]) for name in head] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
