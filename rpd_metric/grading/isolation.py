"""What an untrusted program may use and see: limits, and the commands that enforce them.

Nothing is started here; `sandbox.py` does, and says what makes the isolation certain.
"""

import errno
import os
import secrets
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rpd_metric.errors import RPDError

# For root, a program runs as this user plus a number drawn for it: far above the users and the
# sub-user ranges that systems hand out, so that it owns nothing and its process limit (which
# old kernels count per user) counts nobody else.
_FIRST_USER = 0x7000_0000
PROGRAM = "/program/main.py"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same program gives the same verdict
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    # A numerical library would take one thread per core, and threads count as processes.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
# System calls that are refused, by machine. These hold memory that no limit counts: System V IPC,
# mq_open, memfd_create, memfd_secret.
_UNCOUNTED = {
    "x86_64": (*range(29, 32), *range(64, 72), 220, 240, 319, 447),
    "aarch64": (*range(186, 198), 180, 279, 447),
}
# These open large parts of the kernel: keys, perf_event_open, bpf, userfaultfd, io_uring.
_KERNEL = {
    "x86_64": (*range(248, 251), 298, 321, 323, *range(425, 428)),
    "aarch64": (*range(217, 220), 241, 280, 282, *range(425, 428)),
}
_AUDIT_NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The numbers of the x32 interface begin here, on the same architecture.
_X32 = 0x40000000


class SandboxError(RPDError):
    """Untrusted programs cannot be run safely on this machine."""


@dataclass(frozen=True)
class Limits:
    """What a program may use."""

    seconds: float = 10.0  # wall time
    memory: int = 1 << 30  # bytes of address space of each process
    processes: int = 8  # and threads, at a time
    output: int = 1 << 20  # bytes on standard output and standard error together
    disk: int = 32 << 20  # bytes in /tmp, and in each file
    files: int = 32  # open ones of each process


def find_tools(names: list[str]) -> dict[str, str]:
    """The programs of these names, as paths; [`SandboxError`] where one is missing."""
    packages = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
    tools = {}
    for name in names:
        path = shutil.which(name)
        if path is None or not sys.platform.startswith("linux"):
            raise SandboxError(advice(f"{name} (of the package {packages[name]}) was not found"))
        tools[name] = path
    return tools


def advice(problem: str) -> str:
    """What went wrong, and what a person can do about it."""
    return (
        f"untrusted programs cannot be run safely here: {problem}. On Linux, install the packages "
        "bubblewrap (0.8 or newer) and util-linux, e.g. apt-get install bubblewrap; in a container "
        "or on Ubuntu 24.04, also allow user namespaces (kernel.apparmor_restrict_unprivileged_"
        "userns=0, or a container with CAP_SYS_ADMIN). To run them without isolation, on a "
        "machine that holds nothing of value, pass unsafe=True"
    )


def limited(tools: Mapping[str, str], source: str, limits: Limits, *, isolated: bool) -> list[str]:
    """The command that runs a file (as the program itself sees it) under resource limits.

    Processes are limited only where it is isolated: outside of a namespace, all of this user's
    would count.
    """
    # In its real folder, which the sandbox shows; the file's own link leads out of a virtual one.
    python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
    return [
        tools["prlimit"],
        f"--as={limits.memory}",
        f"--fsize={max(limits.disk, limits.output)}",
        f"--nofile={limits.files}",
        "--core=0",
        # A second line of defence: processor time, in whole seconds.
        f"--cpu={int(limits.seconds) + 2}",
        *([f"--nproc={limits.processes}"] if isolated else []),
        *("--", os.fspath(python), source),
    ]


def system_call_filter(machine: str) -> bytes:
    """The seccomp filter, in classic BPF, for programs of this machine and of no other.

    What it refuses fails as on a kernel without it, with ENOSYS. Of a machine that is not known
    it allows everything.
    """

    def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse = instruction(answer, 0x7FFF0000), instruction(answer, 0x50000 | errno.ENOSYS)
    if machine not in _AUDIT_NUMBERS:
        return allow
    calls = (*_UNCOUNTED[machine], *_KERNEL[machine])
    own_machine = [instruction(load, 4), instruction(equal, _AUDIT_NUMBERS[machine], 1), refuse]
    number = [instruction(load, 0), instruction(at_least, _X32, 0, 1), refuse]
    tests = [instruction(equal, call, 0, 1) + refuse for call in calls]
    return b"".join([*own_machine, *number, *tests, allow])


def isolation(
    tools: Mapping[str, str], *, source: int, disk: int, info: int, block: int, calls: int
) -> list[str]:
    """The prefix of a command that gives it an empty environment, private files and no network.

    The program is read from the file descriptor `source` (inside it is `PROGRAM`), the filter of
    system calls from `calls`; the first process's number is written to `info`, and it waits for a
    byte on `block`.
    """
    root = os.geteuid() == 0
    privileges = (
        ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if root
        else ["--unshare-user", "--disable-userns"]
    )
    return [
        tools["bwrap"],
        *privileges,
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"),
        *(part for item in ENVIRONMENT.items() for part in ("--setenv", *item)),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", str(disk), "--tmpfs", "/tmp"),
        *("--perms", "1777", "--size", str(disk), "--tmpfs", "/dev/shm"),
        # After /tmp, which would hide an interpreter that is installed below it.
        *_system_binds(),
        *("--dir", "/program", "--perms", "0444", "--ro-bind-data", str(source), PROGRAM),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
        *("--seccomp", str(calls)),
        *("--info-fd", str(info), "--block-fd", str(block), "--"),
        *(_as_nobody_else(tools) if root else ()),
    ]


def _as_nobody_else(tools: Mapping[str, str]) -> list[str]:
    """For root: become a user of its own, and bar further user namespaces."""
    user = str(_FIRST_USER + secrets.randbelow(1 << 28))
    return [
        *(tools["setpriv"], "--reuid", user, "--regid", user),
        *("--clear-groups", "--no-new-privs", "--"),
        *(tools["bwrap"], "--unshare-user", "--disable-userns", "--die-with-parent"),
        *("--dev-bind", "/", "/", "--"),
    ]


def _system_binds() -> Iterator[str]:
    """Options that show the system's programs and this Python, and nothing of /etc or /home."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), os.fspath(path))
        elif path.is_dir():
            yield from ("--ro-bind", os.fspath(path), os.fspath(path))
    yield from ("--ro-bind", "/usr", "/usr")
    yield from ("--perms", "0755", "--dir", "/etc")
    yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
    # The interpreter's link may lead through several folders outside its prefixes.
    seen: set[Path] = set()
    for prefix in (sys.prefix, sys.base_prefix, Path(sys.executable).resolve().parents[1]):
        path = Path(prefix).resolve()
        if path in seen or path.is_relative_to("/usr"):
            continue
        seen.add(path)
        # bubblewrap would copy the folders' own permissions, and root's home is closed to others.
        for parent in reversed(path.parents[:-1]):
            yield from ("--perms", "0755", "--dir", os.fspath(parent))
        yield from ("--ro-bind", os.fspath(path), os.fspath(path))
