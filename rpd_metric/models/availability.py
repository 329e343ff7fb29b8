"""Whether a server itself is at fault, told from how request after request fails.

One that never answered is named at once and given up soon; one at a wrong address, with a wrong
model or key, is given up at its first refusal; any other after so many requests in a row that came
to nothing. Failures that are about one request alone say nothing of the server.
"""

from __future__ import annotations

from collections.abc import Callable

from rpd_metric.models.failures import (
    UNFIT_REQUEST,
    WRONG_SERVER,
    ServerError,
    ServerUnavailable,
)

# A server that has never answered is asked every so often, and given up after so long.
UNANSWERED_WAIT = 2.0
UNANSWERED_SECONDS = 15.0


class Availability:
    """What a server's failures say about the server.

    Args:
        model (`str`): What it is called in messages.
        stop_after (`int`, *optional*): Requests in a row that may be given up; `None`: any number.
        notify (`Callable`): Called with a line about a server that does not answer.
        now (`Callable`): The time in seconds.
    """

    def __init__(
        self,
        model: str,
        stop_after: int | None,
        notify: Callable[[str], object],
        now: Callable[[], float],
    ) -> None:
        self._model = model
        self._stop_after = stop_after
        self._notify = notify
        self._now = now
        self._answered = False  # whether the server has said anything at all
        self._replied = False
        self._silent_since: float | None = None
        self._lost_in_a_row = 0

    def replied(self) -> None:
        """Note a reply."""
        self._answered = self._replied = True
        self._lost_in_a_row = 0

    def failed(
        self, failure: ServerError, wait: float | None
    ) -> tuple[float | None, ServerUnavailable | None]:
        """Note an attempt that failed.

        Args:
            failure ([`ServerError`]): How.
            wait (`float`, *optional*): Seconds until it is to be repeated; `None`: never.

        Returns:
            `tuple`: The seconds to wait, less for a server that has never answered, and why the
                run has to end, if it has to.
        """
        if self._answered or failure.kind != "connection":
            self._answered = self._answered or failure.status is not None
            return wait, None
        if self._silent_since is None:
            self._silent_since = self._now()
            self._notify(f"{failure} It is tried for {UNANSWERED_SECONDS:g} s.")
        wait = None if wait is None else min(wait, UNANSWERED_WAIT)
        too_long = self._now() - self._silent_since + (wait or 0.0) >= UNANSWERED_SECONDS
        return wait, ServerUnavailable(str(failure)) if too_long else None

    def lost(self, failure: ServerError) -> ServerUnavailable | None:
        """Note a request that was given up; returns why the run has to end, if it has to."""
        if failure.status in UNFIT_REQUEST or failure.kind == "protocol":
            return None
        if failure.status in WRONG_SERVER and not self._replied:
            return ServerUnavailable(str(failure))
        self._lost_in_a_row += 1
        if self._stop_after is None or self._lost_in_a_row < self._stop_after:
            return None
        return ServerUnavailable(
            f"{self._lost_in_a_row} requests to {self._model} failed in a row, the last with: "
            f"{failure}. Fix that and run the same command again: replies so far are kept."
        )
