"""Coroutines from synchronous code, many items with bounded memory, places at a server.

[`run`] works wherever it is called, inside a notebook's loop too. `asyncio.gather` over a data set
makes one task per item, and a batch-and-wait loop idles while the slowest item of each batch runs;
[`run_bounded`] does neither: a fixed number of tasks take items from one source as they become
free. [`Places`] is a semaphore that gives way to a server that refuses.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Iterable,
)
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from rpd_metric.errors import InputError
from rpd_metric.models.failures import ServerError, backoff

# After so many failed attempts in a row a server seems to be down, rather than full.
DOWN = 8
# Where it is not known what a server takes, no more are sent before its first answer, or before so
# many seconds have passed: where it refuses all, no more are refused.
FIRST = 16
FIRST_SECONDS = 5.0
# So many replies bring a place back.
REPLIES_PER_PLACE = 12

Item = TypeVar("Item")
Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end from synchronous code, and return its result.

    It runs on one event loop in a thread of its own, which lives as long as the process: in a
    notebook the calling thread's loop is taken, and connections belong to the loop that opened
    them, so that a new loop for every call would connect anew each time.

    Example:

    >>> async def answer():
    ...     return 42
    >>> run(answer())
    42
    """
    loop, thread = _background_loop()
    if threading.get_ident() == thread:
        # Called by synchronous code within a coroutine there: that loop cannot wait for itself.
        with ThreadPoolExecutor(max_workers=1) as executor:
            return executor.submit(asyncio.run, coroutine).result()
    ended = threading.Event()

    async def to_its_end() -> Result:
        try:
            return await coroutine
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(to_its_end(), loop)
    try:
        return future.result()
    finally:
        # Ctrl-C reaches the calling thread only: what was begun must not run on unattended.
        if future.cancel():
            ended.wait()


def submit(coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
    """Start a coroutine on the loop that [`run`] uses, and return the future of its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop()[0])


_making_loop = threading.Lock()


def _background_loop() -> tuple[asyncio.AbstractEventLoop, int]:
    """The loop and its thread; a forked process, which has no threads, gets its own."""
    with _making_loop:  # threads that come first at the same time share one
        return _loop_of(os.getpid())


@lru_cache(maxsize=1)
def _loop_of(_pid: int) -> tuple[asyncio.AbstractEventLoop, int]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rpd-loop", daemon=True)
    thread.start()
    assert thread.ident is not None, "a started thread has an identity"
    return loop, thread.ident


async def run_bounded(
    items: AsyncIterable[Item] | Iterable[Item],
    worker: Callable[[Item], Coroutine[Any, Any, Result]],
    *,
    max_in_flight: int,
    ordered: bool = True,
) -> AsyncGenerator[Result, None]:
    """Apply an async worker to each item and yield the results.

    Items are read as tasks become free. Up to nine times `max_in_flight` are held, so that one
    slow item does not idle the others. When the worker or the source raises, the tasks are
    cancelled and the error is raised here. To stop early, close the generator
    (`async with contextlib.aclosing(run_bounded(...)) as results`): no task is left behind.

    Args:
        items (`AsyncIterable` or `Iterable`): The items.
        worker (`Callable`): Called with each item.
        max_in_flight (`int`): Items worked on at once.
        ordered (`bool`): Results in the order of the items; otherwise as they come.

    Raises:
        InputError: When `max_in_flight` is below one.

    Example:

    ```python
    >>> async def square(number):
    ...     return number * number
    >>> async def main():
    ...     return [n async for n in run_bounded(range(5), square, max_in_flight=2)]
    >>> asyncio.run(main())
    [0, 1, 4, 9, 16]

    ```
    """
    if max_in_flight < 1:
        raise InputError(f"max_in_flight must be >= 1, got {max_in_flight}")
    source = _read(items)
    held: deque[asyncio.Task[Result]] = deque()  # begun and not yielded, in order
    running: set[asyncio.Task[Result]] = set()
    failed: asyncio.Task[Result] | None = None
    more = True
    try:
        while True:
            for task in [task for task in running if task.done()]:
                running.remove(task)
                failed = failed or (task if task.cancelled() or task.exception() else None)
            while (
                more
                and not failed
                and len(running) < max_in_flight
                and len(held) < 9 * max_in_flight
            ):
                try:
                    task = asyncio.create_task(worker(await anext(source)))
                except StopAsyncIteration:
                    more = False
                else:
                    held.append(task)
                    running.add(task)
            if not held:
                return
            if not ordered:
                held = deque(sorted(held, key=lambda task: (not task.done(), task is failed)))
            # What is done is given out before an error is raised: it may have been paid for.
            if held[0].done():
                yield held.popleft().result()
            elif failed:
                failed.result()
            else:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await source.aclose()


async def _read(items: AsyncIterable[Item] | Iterable[Item]) -> AsyncGenerator[Item, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


class Places:
    """Places for the requests of one event loop: a semaphore that gives way.

    All places are there from the start, after a moment's caution where the server is not known. A
    refusal takes one away (a 503 only down to the number that is being served), and so does a
    timeout, after which a server may work on; 12 replies bring one back. After `DOWN` failures in a
    row only what is in flight keeps its place. Where that is nothing, one request at a time is sent
    after ever longer pauses, and from the first reply on each brings back a place. Nobody starts
    while a server has asked to wait.

    Args:
        most (`int`): How many there are.
        known (`bool`): Whether the server is known to take so many.
    """

    def __init__(self, most: int, known: bool = True) -> None:
        self.in_flight = 0
        self.idle = asyncio.Event()  # set while nothing is in flight
        self.idle.set()
        self._most = float(most)
        # Up to the goal each reply brings a place back, beyond it twelve do.
        self._before = self._goal = self._most
        self._allowed = self._most if known else min(self._most, FIRST)
        self._opened: bool | None = None  # None: nothing has been sent
        self._served = 0.0  # requests in flight when replies came, on average
        self._failed = self._probes = self._pauses = 0
        self._closed = False
        self._queue: deque[asyncio.Future[bool]] = deque()
        self._again: deque[asyncio.Future[bool]] = deque()  # they come first

    async def take(self, *, again: bool = False) -> bool:
        """Wait for a place, first in turn if `again`. False: nobody may start any more."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._again if again else self._queue).append(turn)
        if self._opened is None:
            self._opened = False
            asyncio.get_running_loop().call_later(FIRST_SECONDS, self._open)
        self._admit()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        if not self.in_flight:
            self.idle.set()
        self._admit()

    def replied(self) -> None:
        """Note a reply, before `leave`."""
        self._open()
        self._failed = self._probes = 0
        self._served += (self.in_flight - self._served) / (8 if self._served else 1)
        step = 1.0 if self._allowed < self._goal else 1 / REPLIES_PER_PLACE
        self._allowed = self._before = min(self._most, self._allowed + step)
        if self._allowed > 1.25 * self._goal + 2:  # what was once too many no longer is
            self._goal = self._most

    def failed(self, failure: ServerError) -> None:
        """Note a failed attempt that may be repeated, before `leave`."""
        self._opened = True
        self._failed += 1
        if self._failed >= DOWN:
            self._allowed = self._goal = max(1.0, min(self._allowed, self.in_flight - 1.0))
            if self.in_flight == 1:
                self._goal = self._before
                self._probes += 1
                self._pause(backoff(self._probes, failure))
        elif failure.status in (429, 503) or failure.kind == "timeout":
            # A 503 may have nothing to do with the load: it costs no place that is made use of.
            served = min(round(self._served), self._allowed) if failure.status == 503 else 1.0
            self._allowed = self._goal = max(1.0, served, self._allowed - 1.0)
        if failure.retry_after:
            self._pause(failure.retry_after)

    def close(self) -> None:
        """Let nobody start from now on; may be called from a signal handler or another thread."""
        self._closed = True

    def dismiss(self) -> None:
        """Send everybody away who waits."""
        while queue := self._again or self._queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(False)

    def _open(self) -> None:
        if not self._opened:
            self._opened, self._allowed = True, self._most
            self._admit()

    def _pause(self, seconds: float) -> None:
        self._pauses += 1
        asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._pauses -= 1
        self._admit()

    def _admit(self) -> None:
        while (queue := self._again or self._queue) and not self._closed and not self._pauses:
            if self.in_flight >= int(self._allowed + 1e-9):
                return
            turn = queue.popleft()
            if not turn.done():
                self.in_flight += 1
                self.idle.clear()
                turn.set_result(True)
