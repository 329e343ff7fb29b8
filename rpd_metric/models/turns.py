"""Who starts next: the queue before the places that a server has.

How many places there are is `limit.py`'s to learn; a request that waits to be asked again goes to
the front of the queue, and while a server asks all to wait (`Retry-After`), nobody starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rpd_metric.models.limit import AdaptiveLimit
from rpd_metric.models.stats import FlowStats


class Turns:
    """Gives out places to the requests of one event loop.

    Args:
        limit ([`AdaptiveLimit`]): How many there are.
        stats ([`FlowStats`]): Where the requests in flight are counted.
    """

    def __init__(self, limit: AdaptiveLimit, stats: FlowStats) -> None:
        self.limit = limit
        self.idle = asyncio.Event()  # set while nothing is in flight
        self.idle.set()
        self._stats = stats
        self._queue: deque[asyncio.Future[int | None]] = deque()
        self._closed = False
        self._pauses = 0

    async def take(self, *, first: bool) -> int | None:
        """Wait for a place; repeated attempts are served first.

        Args:
            first (`bool`): Whether it is the request's first attempt.

        Returns:
            `int`, *optional*: The ticket that the outcome is reported to the limit with; `None`
                when nobody may start any more.
        """
        waiter: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        if first:
            self._queue.append(waiter)
        else:
            self._queue.appendleft(waiter)
        self.admit()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result() is not None:
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.limit.ended()
        if self.limit.in_flight == 0:
            self.idle.set()
        self.admit()

    @contextmanager
    def paused(self, pause: bool) -> Iterator[None]:
        """Let nobody start meanwhile, if `pause`; afterwards those who may."""
        self._pauses += pause
        try:
            yield
        finally:
            self._pauses -= pause
            self.admit()

    def close(self) -> None:
        """Let nobody start from now on; may be called from a signal handler or another thread."""
        self._closed = True

    def dismiss(self) -> None:
        """Send everybody away who waits."""
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def admit(self) -> None:
        """Let those in the queue start that there are places for."""
        while self._queue and not self._closed and not self._pauses and not self.limit.full:
            waiter = self._queue.popleft()
            if not waiter.done():
                self.idle.clear()
                waiter.set_result(self.limit.started())
        self._stats.in_flight = self.limit.in_flight
