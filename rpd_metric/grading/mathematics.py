"""Grading mathematical answers against a reference, in processes that can be killed.

    with Grader() as grader:
        for verdict in grader.grade((row["answer"], row["response"]) for row in rows):
            ...

Most answers are settled by their text (`answers.py`). The rest go to worker processes
(`mathematics_worker.py`): one that overruns its limit is killed and replaced, its row is
`TIMED_OUT`, and the other rows go on. A right answer by a wrong argument is `CORRECT`.
"""

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.grading.answers import Verdict, final_answer, readable
from rpd_metric.grading.quantities import settle

# Starting a worker imports sympy, which can take many seconds on a busy machine.
_START_SECONDS = 120.0
# Rows that are read at a time, per worker.
_AHEAD = 64


class Grader(contextlib.AbstractContextManager["Grader"]):
    """Grades responses against reference answers with math-verify.

    Args:
        workers (`int`, *optional*): Processes for computer algebra, started when first needed; by
            default one for each core this process may use, at most 8.
        seconds (`float`): Time for one comparison, which usually takes milliseconds.
    """

    def __init__(self, *, workers: int | None = None, seconds: float = 10.0) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}; use at least 1")
        if not seconds > 0:
            raise InputError(f"seconds is {seconds}; use a positive time limit")
        for module in ("math_verify", "latex2sympy2_extended"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError("grading mathematics", extra="grading", module=module)
        # Containers often have fewer cores than the machine.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self._size = workers or min(8, cores or 1)
        self._seconds = seconds
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes. The grader can be used again; it starts new ones."""
        with self._lock:
            while self._busy:
                self._busy.pop().process.kill()  # the thread that waits for it does the rest
            while self._idle:
                self._idle.pop().end()

    def grade(self, rows: Iterable[tuple[str | int | float, str]]) -> Iterator[Verdict]:
        """Grade rows as they come, one iterator at a time; verdicts keep their order.

        Args:
            rows (iterable of `(reference answer, response)`): The reference may be a number. Only
                a bounded number of rows is read ahead, so they may be endless.
        """
        source = iter(rows)
        with ThreadPoolExecutor(self._size) as threads:
            try:
                while pairs := list(islice(source, _AHEAD * self._size)):
                    yield from threads.map(self.verdict, *zip(*pairs, strict=True))
            finally:
                if self._busy:  # left early
                    self.close()

    def verdict(self, gold: str | int | float, response: str) -> Verdict:
        """Grade one row; several threads may call it, each of which takes a process."""
        if isinstance(gold, float) and gold.is_integer():
            gold = int(gold)
        if not isinstance(response, str) or not str(gold).strip():
            raise InputError(
                "a row is (reference answer, response text), the reference not empty; "
                f"got ({gold!r}, {type(response).__name__})"
            )
        answer = readable(final_answer(response) or "")
        return self.compare(readable(str(gold)), answer) if answer else Verdict.NO_ANSWER

    def compare(self, gold: str, answer: str) -> Verdict:
        """The verdict on two [`~rpd_metric.grading.answers.readable`] answers."""
        left = settle(gold, answer)
        return left if isinstance(left, Verdict) else self._by_algebra(*left)

    def _by_algebra(self, gold: str, answer: str) -> Verdict:
        """The verdict of a worker; one that overruns or dies is replaced by the next row's."""
        with self._lock:
            worker = self._idle.pop() if self._idle else _Worker()
            self._busy.add(worker)
        verdict = None
        try:
            verdict = worker.compare(gold, answer, self._seconds)
        finally:
            with self._lock:
                if verdict is None or worker not in self._busy:
                    worker.end()
                else:
                    self._idle.append(worker)
                self._busy.discard(worker)
        return verdict or Verdict.TIMED_OUT


class _Worker:
    """One `rpd_metric.grading.mathematics_worker` process; a thread at a time uses it."""

    def __init__(self) -> None:
        # The child finds the modules that this process does, installed or not.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rpd_metric.grading.mathematics_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self._started = False

    def compare(self, gold: str, answer: str, seconds: float) -> Verdict | None:
        """The verdict, or `None` where the process came to its end or has to be brought to it."""
        if not self._started and self._line(_START_SECONDS) != "ready":
            self.process.kill()
            self.process.wait()
            self._errors.seek(0)
            errors = self._errors.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"a grading process did not start:\n{errors}")
        self._started = True
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: there will be no line
            self.process.stdin.write((json.dumps([gold, answer, seconds]) + "\n").encode())
            self.process.stdin.flush()
        line = self._line(seconds)
        return Verdict(line) if line else None

    def _line(self, seconds: float) -> str:
        """What it writes within that time; empty when it writes nothing or has ended."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline().decode().strip() if ready else ""

    def end(self) -> None:
        self.process.kill()
        with contextlib.suppress(BrokenPipeError), self._errors, self.process:
            pass  # waits for it and closes its pipes
