"""Grading mathematical answers against a reference, in processes that can be killed.

    with Grader() as grader:
        for verdict in grader.grade((row["answer"], row["response"]) for row in rows):
            ...

Most answers are settled by their text (`answers.py`). The rest go to worker processes
(`mathematics_worker.py`), because computer algebra hangs on some inputs and only a process can be
stopped from outside: one that overruns its limit is killed and replaced, its row is
`TIMED_OUT`, and the other rows go on.

Not here: grading programs (`code.py`) and judging the argument. A right answer by
a wrong argument is `CORRECT`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.grading.answers import (
    Verdict,
    easy_verdict,
    final_answer,
    readable,
    tidy,
    without_lone_unit,
)

# Starting a worker imports sympy, which can take many seconds on a busy machine.
_START_SECONDS = 120.0
# Rows read ahead of the oldest one without a verdict, per worker.
_AHEAD = 64


@dataclass
class _Row:
    """One row on its way; `verdict` is filled in when it is known."""

    gold: str
    answer: str
    verdict: Verdict | None = None


class Grader:
    """Grades responses against reference answers with math-verify.

    Args:
        workers (`int`, *optional*): Processes for computer algebra; defaults to the number of
            cores this process may use, at most 8. They start when first needed.
        seconds (`float`, defaults to 10): Time for one comparison before its process is killed.
            A usual one takes milliseconds.

    Raises:
        [`MissingExtraError`]: math-verify is not installed.

    Example:

    ```py
    >>> from rpd_metric.grading.mathematics import Grader
    >>> with Grader(workers=1) as grader:
    ...     rows = [("025", "so 25."), ("025", r"so \\boxed{25}"), ("1/2", r"\\boxed{0.5}")]
    ...     [verdict.value for verdict in grader.grade(rows)]
    ['no_answer', 'correct', 'correct']

    ```
    """

    def __init__(self, *, workers: int | None = None, seconds: float = 10.0) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}; use at least 1")
        if not seconds > 0:
            raise InputError(f"seconds is {seconds}; use a positive time limit")
        for module in ("math_verify", "latex2sympy2_extended"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError("grading mathematics", extra="grading", module=module)
        self._size = workers or min(8, _cores())
        self._seconds = seconds
        self._workers: list[_Worker] = []

    def __enter__(self) -> Grader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes. The grader can be used again; it starts new ones."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def grade(
        self,
        rows: Iterable[tuple[str | int | float, str]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Verdict]:
        """Grade rows as they come; verdicts keep their order.

        Only a bounded number of rows is read ahead, so `rows` may be endless. Grading one
        iterator of a grader at a time is supported.

        Args:
            rows (iterable of `(reference answer, response)`): The reference may be a number.
            progress (callable, *optional*): Called with the number of verdicts so far.

        Returns:
            Iterator of [`Verdict`], one per row.
        """
        source = iter(rows)
        window: deque[_Row] = deque()  # in order, oldest first
        waiting: deque[_Row] = deque()  # those of them that need a worker and have none
        exhausted = False
        done = 0
        try:
            while True:
                while not exhausted and len(window) < _AHEAD * self._size:
                    pair = next(source, None)
                    if pair is None:
                        exhausted = True
                        break
                    row = _begin(*pair)
                    window.append(row)
                    if row.verdict is None:
                        waiting.append(row)
                while window and (verdict := window[0].verdict) is not None:
                    window.popleft()
                    done += 1
                    if progress is not None:
                        progress(done)
                    yield verdict
                if not window and exhausted:
                    return
                if window:
                    self._work(waiting)
        finally:
            # Left early: replies still to come would be taken for the next caller's.
            if any(worker.row is not None for worker in self._workers):
                self.close()

    def _work(self, waiting: deque[_Row]) -> None:
        """Hand out rows, then wait until one worker has replied or overrun."""
        while waiting and len(self._workers) < self._size:
            self._workers.append(_Worker())
        for worker in self._workers:
            if waiting and worker.idle:
                worker.send(waiting.popleft(), self._seconds)
        busy = [worker for worker in self._workers if not worker.idle]
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.replies, selectors.EVENT_READ, worker)
            soonest = min(worker.deadline for worker in busy)
            ready = [key.data for key, _ in selector.select(max(0.0, soonest - time.monotonic()))]
        ended = [worker for worker in ready if not worker.receive()]
        now = time.monotonic()
        ended += [worker for worker in busy if worker not in ready and now >= worker.deadline]
        for worker in ended:
            self._workers.remove(worker)
            worker.give_up()


class _Worker:
    """One `rpd_metric.grading.mathematics_worker` process and the row it is busy with."""

    def __init__(self) -> None:
        # The child finds the modules that this process does, installed or not.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed by `kill`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rpd_metric.grading.mathematics_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self.replies = self._process.stdout
        self.deadline = time.monotonic() + _START_SECONDS
        self.row: _Row | None = None
        self._ready = False

    @property
    def idle(self) -> bool:
        """Whether it has started and waits for a row; else it owes exactly one line."""
        return self._ready and self.row is None

    def send(self, row: _Row, seconds: float) -> None:
        """Send a row; its time runs from now."""
        self.row, self.deadline = row, time.monotonic() + seconds
        # A worker that has died meanwhile is found out by `receive`.
        with contextlib.suppress(BrokenPipeError):
            self._requests.write((json.dumps([row.gold, row.answer]) + "\n").encode())
            self._requests.flush()

    def receive(self) -> bool:
        """Take one line from the worker; false when the worker has come to its end."""
        line = self.replies.readline().decode().strip()
        if not line:
            return False
        if self.row is None:
            self._ready = True
        else:
            self.row.verdict = Verdict(line)
            self.row = None
        return True

    def give_up(self) -> None:
        """End the worker; the row it was busy with has exceeded a limit."""
        said = self.kill()
        if not self._ready:
            raise RuntimeError(f"a grading process did not start:\n{said}")
        if self.row is not None:
            self.row.verdict = Verdict.TIMED_OUT
            self.row = None

    def kill(self) -> str:
        """End the process, whatever it is doing, and return the end of its error output."""
        self._process.kill()
        self._process.wait()
        self.replies.close()
        with contextlib.suppress(BrokenPipeError):  # a row nobody is there to read any more
            self._requests.close()
        with self._errors as errors:
            errors.seek(0)
            return errors.read().decode(errors="replace")[-2000:]


def _begin(gold: str | int | float, response: str) -> _Row:
    """A row with the verdict that its text alone gives, if it gives one."""
    if isinstance(gold, float) and gold.is_integer():
        gold = int(gold)
    reference = str(gold)
    if not isinstance(response, str) or not reference.strip():
        raise InputError(
            "a row is (reference answer, response text), the reference not empty; "
            f"got ({gold!r}, {type(response).__name__})"
        )
    answer = final_answer(response)
    if answer is None or not readable(answer):
        return _Row(reference, "", Verdict.NO_ANSWER)
    wanted, given = without_lone_unit(readable(reference), readable(answer))
    return _Row(wanted, given, easy_verdict(tidy(wanted), tidy(given)))


def _cores() -> int:
    """Cores this process may use; containers often have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
