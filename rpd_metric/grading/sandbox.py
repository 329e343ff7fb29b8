"""Running an untrusted Python program so that nothing outside it changes.

[`Sandbox`] uses bubblewrap: the program sees the system and this Python read-only, an empty
environment, a private /tmp of limited size, no network and no other process; it has limits of
time, memory, processes, open files and output; and when it ends, however it ends, the
kernel kills everything it started. What makes each of these certain:

- the program and all its children live in a process namespace, whose first process we hold
  by a pidfd: killing that one kills them all, detached and orphaned ones included, and the
  pidfd tells when they are gone;
- a process limit does not bind root. So root starts the outer sandbox (it can bind its own
  files), becomes a user that no one else is, and enters a second one; other users need only
  one. Inside, no further user namespace can be made, which would lift the limits.

    as root:  bwrap (files, network, processes) > setpriv > bwrap (user) > prlimit > python
    else:     bwrap (all of it)                                          > prlimit > python

What is left open: memory is limited per process, so a program may use `processes` times
`memory`, and as much as `files` times `disk` again in unnamed files; side channels and
kernel bugs are not addressed. `unsafe=True` keeps the limits and drops the rest.

Needs Linux, bubblewrap 0.8 or newer and util-linux.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rpd_metric.grading.isolation import (
    ENVIRONMENT,
    PROGRAM,
    Limits,
    SandboxError,
    advice,
    find_tools,
    isolated,
    limited,
)

End = Literal["exited", "timed_out", "output_limit"]
_Streams = tuple[int, int, int]  # standard input, output and error
_PIPES: _Streams = (subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Args:
        end (`str`): `"exited"`, or the limit that ended it: `"timed_out"`, `"output_limit"`.
            A program that exceeds its memory, processes or disk gets an error and exits.
        returncode (`int`, *optional*): Its exit status, 128 and the signal's number when a signal
            ended it; `None` when we did.
        stdout (`str`): What it wrote, up to the limit.
        stderr (`str`): Likewise.
        seconds (`float`): Wall time, with the start of the interpreter.
    """

    end: End
    returncode: int | None
    stdout: str
    stderr: str
    seconds: float


@dataclass
class Sandbox:
    """Runs untrusted Python programs, each in a sandbox of its own.

    Making one runs a trivial program first, so that a machine that cannot isolate programs is
    found out before the first one that needs it. May be used from several threads.

    Args:
        limits ([`Limits`]): What every program may use.
        unsafe (`bool`): Run without isolation: limits of time, output, memory and file size
            only. The program can then read and delete this user's files, use the network and,
            by leaving its process group, outlive its time limit.

    Raises:
        [`SandboxError`]: bubblewrap or util-linux is missing or does not work here; the message
        names the package.
    """

    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False

    def __post_init__(self) -> None:
        self._tools = find_tools(["prlimit"] if self.unsafe else ["bwrap", "prlimit", "setpriv"])
        try:
            outcome = self.run("print('ready')")
        except _NotStarted as error:
            raise SandboxError(advice(str(error))) from None
        if outcome.stdout != "ready\n":
            said = outcome.stderr.strip() or outcome.end
            if self.unsafe:
                raise SandboxError(f"a trivial program failed under {self.limits}: {said}")
            raise SandboxError(advice(said))

    def run(
        self,
        program: str,
        stdin: str = "",
        *,
        seconds: float | None = None,
        output: int | None = None,
    ) -> Outcome:
        """Run a program to its end.

        Args:
            program (`str`): Python source, run as a script with this interpreter.
            stdin (`str`, defaults to `""`): Its standard input.
            seconds (`float`, *optional*): Wall time, in the place of the limits'.
            output (`int`, *optional*): Bytes of output, in the place of the limits'.

        Returns:
            [`Outcome`]
        """
        limits = self._changed(seconds, output)
        with self._started(program, limits, ()) as running:
            return running.outcome(stdin, limits)

    def run_pair(
        self, trusted: str, untrusted: str, stdin: str = "", *, seconds: float | None = None
    ) -> Outcome:
        """Run two programs that talk to each other, each in a sandbox of its own.

        Neither can see or signal the other; two pipes are all they share. The untrusted one has
        its ends as standard input and output. The trusted one gets the numbers of its ends, to
        read from and to write to, as arguments. When it ends, the other is ended.

        Args:
            trusted (`str`): The program whose end is reported.
            untrusted (`str`): The other one.
            stdin (`str`, defaults to `""`): Standard input of the trusted one.
            seconds (`float`, *optional*): Wall time of both, in the place of the limits'.

        Returns:
            [`Outcome`]: Of the trusted program.
        """
        limits = self._changed(seconds, None)
        with contextlib.ExitStack() as stack:
            with contextlib.ExitStack() as ends:
                to_untrusted, from_trusted = _pipe(ends)
                to_trusted, from_untrusted = _pipe(ends)
                running = stack.enter_context(
                    self._started(trusted, limits, (to_trusted, from_trusted))
                )
                streams = (to_untrusted, from_untrusted, subprocess.DEVNULL)
                stack.enter_context(self._started(untrusted, limits, (), streams))
            return running.outcome(stdin, limits)

    def _changed(self, seconds: float | None, output: int | None) -> Limits:
        limits = self.limits
        return replace(limits, seconds=seconds or limits.seconds, output=output or limits.output)

    @contextlib.contextmanager
    def _started(
        self, program: str, limits: Limits, pipes: tuple[int, ...], streams: _Streams = _PIPES
    ) -> Iterator[_Running]:
        """A program that runs until the context is left; the numbers of `pipes` are arguments."""
        with tempfile.TemporaryDirectory(prefix="rpd-sandbox-") as folder:
            source = Path(folder, "main.py")
            source.write_text(program, encoding="utf-8", errors="replace")
            source.chmod(0o444)
            seen_as = os.fspath(source) if self.unsafe else PROGRAM
            command = limited(self._tools, seen_as, limits, count_processes=not self.unsafe)
            command += map(str, pipes)
            if self.unsafe:
                running = _Running(_spawn(command, folder, pipes, streams), None)
            else:
                running = self._isolate(os.fspath(source), command, pipes, streams)
            with running:
                yield running

    def _isolate(
        self, source: str, command: list[str], pipes: tuple[int, ...], streams: _Streams
    ) -> _Running:
        """Start a program in its sandbox, held back until we hold its first process."""
        info_read, info_write = os.pipe()
        block_read, block_write = os.pipe()
        try:
            command = isolated(
                self._tools,
                source,
                command,
                disk=self.limits.disk,
                info=info_write,
                block=block_read,
            )
            process = _spawn(command, "/", (info_write, block_read, *pipes), streams)
        except BaseException:
            os.close(info_read)
            os.close(block_write)
            raise
        finally:
            os.close(info_write)
            os.close(block_read)
        with os.fdopen(info_read, "rb") as info, os.fdopen(block_write, "wb", buffering=0) as go:
            told = info.read()
            if not told:
                _, said = process.communicate()
                raise _NotStarted((said or b"").decode(errors="replace").strip())
            # The first process waits for us, so its number cannot have passed to another.
            pidfd = os.pidfd_open(json.loads(told)["child-pid"])
            with contextlib.suppress(BrokenPipeError):
                go.write(b"1")
        return _Running(process, pidfd)


class _NotStarted(Exception):
    """bubblewrap gave up before the program began."""


class _Running:
    """A started program; leaving the context ends all that is left of it."""

    def __init__(self, process: subprocess.Popen[bytes], pidfd: int | None) -> None:
        self.process = process
        self._pidfd = pidfd
        self._start = time.monotonic()

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def outcome(self, stdin: str, limits: Limits) -> Outcome:
        """Feed the program and see it to its end."""
        end, stdout, stderr = self.talk(
            stdin.encode("utf-8", errors="replace"), self._start + limits.seconds, limits.output
        )
        status = self.process.returncode
        return Outcome(
            end,
            None if end != "exited" else 128 - status if status < 0 else status,
            stdout.decode("utf-8", errors="replace"),
            stderr.decode("utf-8", errors="replace"),
            time.monotonic() - self._start,
        )

    def talk(self, stdin: bytes, deadline: float, output: int) -> tuple[End, bytes, bytes]:
        """Feed and read the program until it ends or exceeds its time or output."""
        kept: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        end: End = "exited"
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stdin.fileno(), False)
        exited = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(exited, selectors.EVENT_READ, None)
                selector.register(process.stdout, selectors.EVENT_READ, 1)
                selector.register(process.stderr, selectors.EVENT_READ, 2)
                if stdin:
                    selector.register(process.stdin, selectors.EVENT_WRITE, 0)
                else:
                    process.stdin.close()
                # It is over with the first process: its orphans may hold the pipes for ever.
                while end == "exited" and exited in selector.get_map():
                    left = deadline - time.monotonic()
                    if left <= 0:
                        end = "timed_out"
                        break
                    for key, _ in selector.select(left):
                        if key.data is None:
                            selector.unregister(exited)
                        elif key.data == 0:
                            stdin = _write(process.stdin.fileno(), stdin)
                            if not stdin:
                                selector.unregister(process.stdin)
                                process.stdin.close()
                        else:
                            piece = os.read(key.fd, 65536)
                            if not piece:
                                selector.unregister(key.fileobj)
                            kept[key.data] += piece
                            if len(kept[1]) + len(kept[2]) > output:
                                end = "output_limit"
            self._end()
            for number, pipe in ((1, process.stdout), (2, process.stderr)):
                kept[number] += _drain(pipe.fileno(), output)
        finally:
            os.close(exited)
        if end == "exited" and len(kept[1]) + len(kept[2]) > output:
            end = "output_limit"
        return end, bytes(kept[1][:output]), bytes(kept[2][:output])

    def _end(self) -> None:
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


def _spawn(
    command: list[str], cwd: str, pass_fds: tuple[int, ...], streams: _Streams
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=ENVIRONMENT,
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
        bufsize=0,
    )


def _pipe(ends: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose two ends are closed with the stack."""
    pair = os.pipe()
    for end in pair:
        ends.callback(os.close, end)
    return pair


def _write(fd: int, data: bytes) -> bytes:
    """Write what fits and return the rest; nothing when the program no longer reads."""
    try:
        return data[os.write(fd, data[:65536]) :]
    except BrokenPipeError:
        return b""


def _drain(fd: int, limit: int) -> bytes:
    """What is left in a pipe whose writers are dead (or, if unsafe, may be alive)."""
    os.set_blocking(fd, False)
    rest = bytearray()
    with contextlib.suppress(BlockingIOError):
        while len(rest) <= limit and (piece := os.read(fd, 65536)):
            rest += piece
    return bytes(rest)
