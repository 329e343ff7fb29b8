"""Running an untrusted Python program so that nothing outside it changes.

With bubblewrap the program sees the system and this Python read-only, a private /tmp, no network
and no other process; it has the limits of [`Limits`]; and when it ends, however it ends, the
kernel kills everything it started. What makes each of these certain:

- the program and all its children live in a process namespace, whose first process we hold
  by a pidfd: killing that one kills them all, detached and orphaned ones included, and the
  pidfd tells when they are gone;
- a process limit does not bind root. So root starts the outer sandbox (it can bind its own
  files), becomes a user that no one else is, and enters a second one; other users need only
  one. Inside, no further user namespace can be made, which would lift the limits.

    as root:  bwrap (files, network, processes) > setpriv > bwrap (user) > prlimit > python
    else:     bwrap (all of it)                                          > prlimit > python

System calls that would hold memory outside these limits are refused, as are those of other
architectures; on machines other than x86-64 and 64-bit ARM, none is. A user's processes together
run at most as many sandboxes at once as the machine has processors.

What is left open: memory is limited per process, so a program may use `processes` times
`memory`, and `disk` twice; side channels and kernel bugs are not addressed. Needs Linux,
bubblewrap 0.8 or newer and util-linux.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

from rpd_metric.grading.isolation import (
    ENVIRONMENT,
    PROGRAM,
    Limits,
    SandboxError,
    advice,
    find_tools,
    isolation,
    limited,
    system_call_filter,
)

End = Literal["exited", "timed_out", "output_limit"]


@dataclass(frozen=True)
class Outcome:
    """How a program ended; beyond its memory, processes or disk it gets an error and exits."""

    end: End
    returncode: int | None  # 128 + N when signal N ended it; None when it exceeded a limit
    stdout: str  # up to the limit
    stderr: str


@dataclass
class Sandbox:
    """Runs untrusted Python programs, each in a sandbox of its own.

    Making one runs a trivial program first, to find out whether this machine can isolate programs.
    May be used from several threads.

    Args:
        unsafe (`bool`): Run without isolation: limits of time, output, memory and file size only.
            The program can then read and delete this user's files, use the network and outlive
            its time limit.
    """

    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False

    def __post_init__(self) -> None:
        self._tools = find_tools(["prlimit"] if self.unsafe else ["bwrap", "prlimit", "setpriv"])
        outcome = self.run("print('ready')")
        if outcome.stdout != "ready\n":
            problem = outcome.stderr.strip() or outcome.end
            if self.unsafe:
                raise SandboxError(f"a trivial program failed under {self.limits}: {problem}")
            raise SandboxError(advice(problem))

    def run(
        self,
        program: str,
        stdin: str = "",
        *,
        limits: Limits | None = None,
        untrusted: str | None = None,
    ) -> Outcome:
        """Run Python source as a script, and maybe an `untrusted` one that it talks to.

        That one has a sandbox of its own. Two pipes are all that they share: its standard input and
        output; the first program gets the numbers of its ends as arguments. When that ends, the
        other is ended. `limits` replace the sandbox's own for both.
        """
        limits = limits or self.limits
        with contextlib.ExitStack() as stack:
            stack.enter_context(_turn())
            streams = tuple(_file(content, stack) for content in (stdin, "", ""))
            with contextlib.ExitStack() as ends:
                pipes: tuple[int, ...] = ()
                if untrusted is not None:
                    to_untrusted, from_trusted = _pipe(ends, ends)
                    to_trusted, from_untrusted = _pipe(ends, ends)
                    pipes = (to_trusted, from_trusted)
                running = self._start(program, limits, streams, pipes)
                stack.callback(running.end)
                if untrusted is not None:
                    between = (to_untrusted, from_untrusted, _file("", stack))
                    stack.callback(self._start(untrusted, limits, between).end)
            return running.outcome(limits, streams)

    def _start(
        self, program: str, limits: Limits, streams: Sequence[int], pipes: tuple[int, ...] = ()
    ) -> _Running:
        """Start a program with the numbers of `pipes` as arguments, isolated but for `unsafe`.

        In its sandbox it is held back until we hold its first process.
        """
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                source = _file(program, theirs)
                if self.unsafe:
                    # No file, which would be left behind where this process is killed.
                    command = limited(
                        self._tools, f"/proc/self/fd/{source}", limits, isolated=False
                    )
                    folder, passed = tempfile.gettempdir(), (source, *pipes)
                else:
                    reading, info = _pipe(ours, theirs)
                    block, go = _pipe(theirs, ours)
                    calls = _file(system_call_filter(os.uname().machine), theirs)
                    ends = {"source": source, "info": info, "block": block, "calls": calls}
                    command = isolation(self._tools, disk=self.limits.disk, **ends)
                    command += limited(self._tools, PROGRAM, limits, isolated=True)
                    folder, passed = "/", (*ends.values(), *pipes)
                process = subprocess.Popen(
                    [*command, *map(str, pipes)],
                    stdin=streams[0],
                    stdout=streams[1],
                    stderr=streams[2],
                    env=ENVIRONMENT,
                    cwd=folder,
                    pass_fds=passed,
                    start_new_session=True,
                )
            if self.unsafe:
                return _Running(process)
            with open(reading, "rb", closefd=False) as pipe:
                status = pipe.read()
            if not status:
                process.wait()
                raise SandboxError(advice(_text(streams[2], 10_000)))
            # The first process waits for us, so its number cannot have passed to another.
            pidfd = os.pidfd_open(json.loads(status)["child-pid"])
            with contextlib.suppress(BrokenPipeError):
                os.write(go, b"1")
        return _Running(process, pidfd)


class _Running:
    """A started program."""

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int | None = None) -> None:
        self.process = process
        self._pidfd = pidfd

    def end(self) -> None:
        """Kill all that is left, and return when it is gone."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            # Readable once the first process, and with it its whole namespace, is no more.
            select.select([self._pidfd], [], [])
            os.close(self._pidfd)
            self._pidfd = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outcome(self, limits: Limits, streams: Sequence[int]) -> Outcome:
        """See the program to its end. It is over with the first process, orphans or not."""
        exited = os.pidfd_open(self.process.pid)
        ready, _, _ = select.select([exited], [], [], limits.seconds)
        os.close(exited)
        self.end()
        written = [os.fstat(stream).st_size for stream in streams[1:]]
        end: End = "exited" if ready else "timed_out"
        if sum(written) > limits.output:
            end = "output_limit"
        status = self.process.returncode
        return Outcome(
            end,
            None if end != "exited" else 128 - status if status < 0 else status,
            _text(streams[1], limits.output),
            _text(streams[2], max(0, limits.output - written[0])),
        )


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed with these stacks."""
    read, write = os.pipe()
    reads.callback(os.close, read)
    writes.callback(os.close, write)
    return read, write


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait until this user runs fewer programs on this machine than it has processors."""
    # One process can hold an abstract socket's name; it is free again when that process is gone.
    names = (f"\0rpd-sandbox-{os.geteuid()}-{turn}" for turn in range(os.cpu_count() or 1))
    with socket.socket(socket.AF_UNIX) as holder:
        for name in cycle(names):
            try:
                holder.bind(name)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                time.sleep(0.005)
        yield


def _file(content: str | bytes, stack: contextlib.ExitStack) -> int:
    """A file in memory with this content, closed with the stack; nothing is left of it."""
    number = os.memfd_create("rpd")
    stack.callback(os.close, number)
    with open(number, "wb", closefd=False) as file:
        encoded = content if isinstance(content, bytes) else content.encode(errors="replace")
        file.write(encoded)
        file.seek(0)
    return number


def _text(file: int, limit: int) -> str:
    return os.pread(file, limit, 0).decode("utf-8", errors="replace")
