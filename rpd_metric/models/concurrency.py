"""Coroutines from synchronous code, and many items through an async worker in bounded memory."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end from synchronous code, and return its result.

    It runs on one event loop in a thread of its own, which lives as long as the process: in a
    notebook the calling thread's loop is taken, and a new loop for every call would connect anew.
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
    items: Iterable[Item],
    worker: Callable[[Item], Coroutine[Any, Any, Result]],
    *,
    max_in_flight: int,
) -> AsyncGenerator[Result, None]:
    """Apply an async worker to each item and yield the results in the order of the items.

    Items are read as tasks become free. Up to nine times `max_in_flight` are held, so that one
    slow item does not idle the others. When the worker or the source raises, what is done is given
    out, the other tasks are cancelled, and the error is raised. To stop early, close the generator
    (`contextlib.aclosing`): no task is left behind.
    """
    source = iter(items)
    held: deque[asyncio.Task[Result]] = deque()  # begun and not yielded, in order
    running: set[asyncio.Task[Result]] = set()
    failed: asyncio.Task[Result] | None = None
    try:
        while True:
            for task in [task for task in running if task.done()]:
                running.remove(task)
                failed = failed or (task if task.cancelled() or task.exception() else None)
            room = min(max_in_flight - len(running), 9 * max_in_flight - len(held))
            for item in islice(source, 0 if failed else room):
                held.append(asyncio.create_task(worker(item)))
                running.add(held[-1])
            if not held:
                return
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
