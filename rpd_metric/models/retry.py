"""When a failed attempt is repeated, and what one request may take.

`Clock` is what such rules are measured with; tests bring one of their own.
"""

from __future__ import annotations

import asyncio
import random as random_module
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from rpd_metric.models.failures import ServerError
from rpd_metric.models.requests import TIMEOUT_RETRIES


@dataclass(frozen=True)
class Retries:
    """How often and how soon a failed attempt is repeated: exponential back-off, full jitter.

    With the defaults a request outlives an outage of about two minutes on average.

    Args:
        attempts (`int`): Attempts in all, the first one included.
        first (`float`): Seconds; the first wait is drawn between 0 and this.
        longest (`float`): Seconds; the range doubles each time up to this.
        patience (`float`): Seconds; a server that asks for a longer wait than this
            (`Retry-After`) is not waited for, and the request fails.
        timeouts (`int`): Times that an attempt may be repeated because it timed out.
    """

    attempts: int = 10
    first: float = 1.0
    longest: float = 60.0
    patience: float = 600.0
    timeouts: int = TIMEOUT_RETRIES

    def wait(
        self, attempt: int, error: ServerError, random: Callable[[], float], timeouts: int = 0
    ) -> float | None:
        """Seconds to wait after a failed attempt, or `None` when it is not to be repeated.

        Args:
            attempt (`int`): Which attempt failed, from 1.
            error ([`ServerError`]): How it failed.
            random (`Callable`): Draws from [0, 1).
            timeouts (`int`): Attempts that timed out so far, this one included.
        """
        if not error.retryable or attempt >= self.attempts or timeouts > self.timeouts:
            return None
        if error.retry_after is not None:
            # Never earlier than asked for, and not all at the same moment.
            asked = error.retry_after + random() * self.first
            return asked if error.retry_after <= self.patience else None
        return random() * min(self.longest, self.first * 2.0 ** (attempt - 1))


@dataclass(frozen=True)
class RequestRules:
    """What one request to a chat model may take, and when there are too many failures.

    Args:
        retries ([`Retries`]): When to repeat an attempt.
        timeout (`float`, *optional*): Seconds for one attempt, from request to last byte; `None`
            waits for ever.
        longest_reply (`int`, *optional*): A reply cut by length is asked for once more with so
            many tokens: twice the request's if unset, never if 0. If that does not succeed at its
            first attempt, the cut reply stands. One that ends in a loop is never asked for again.
        other_lengths (`bool`): Whether a stored reply to the same request with another limit on
            its length may answer, where it would have been the same or longer.
        stop_after (`int`, *optional*): Requests in a row that may be given up for reasons that
            lie with the server before the run ends; `None` never ends it.
    """

    retries: Retries = field(default_factory=Retries)
    timeout: float | None = 600.0
    longest_reply: int | None = None
    other_lengths: bool = True
    stop_after: int | None = 25


@dataclass(frozen=True)
class Clock:
    """Time and chance.

    Args:
        now (`Callable`): The time in seconds.
        sleep (`Callable`): An async sleep.
        draw (`Callable`): Draws from [0, 1).
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep
    draw: Callable[[], float] = random_module.random
