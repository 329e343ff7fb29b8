"""When a failed attempt is repeated, for chat models and encoders alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rpd_metric.inference.errors import ServerError
from rpd_metric.inference.options import TIMEOUT_RETRIES


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
