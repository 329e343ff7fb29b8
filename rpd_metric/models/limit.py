"""How many requests a server should be given at once, learned from how it answers.

A server that is given too few requests idles; one that is given too many refuses them or lets
them time out. `AdaptiveLimit` is the arithmetic of finding the number between the two. It knows
no clock, no event loop and no server: `scheduler.py` tells it what happened.
"""

from __future__ import annotations

import math

from rpd_metric.errors import InputError

# Where nothing is known of a server. It is a bet: one that works on one request at a time lets the
# last of these wait for all others, and must do so well within the time limit of a request.
START = 16
# What is measured is a round of so many replies, or what is in flight. Twice the requests must be
# so much faster, or the limit is held for so many rounds.
ROUND = 16
FASTER = 1.25
HELD_ROUNDS = 8
# Replies of the first rounds that take so many times the fastest one have mostly waited.
WAITED = 6.0
LEAST = 4


class AdaptiveLimit:
    """A limit on requests in flight: additive growth, multiplicative back-off.

    While no request has been refused, each reply raises the limit by one, so it doubles per
    round trip. A cut marks the number then in flight as more than the server takes. After a
    refusal (429) the limit falls by a tenth, climbs back to just below the mark as fast as it
    grew before, and from there by one per round, so the server's slots stay nearly full. After
    trouble (503, a timeout) it falls by half and grows by one per round all the way. Once it
    stands clearly above the mark, the mark is out of date and forgotten. Requests that left
    before the last cut say nothing new, so a burst of refusals counts once.

    A server that never refuses shows in how long it takes for a token what it can do. Where its
    own limit is not known, the limit doubles after each round of replies, and it is measured what
    that brings: if twice as many requests in flight finish hardly faster, half of them only wait.
    The limit then falls back to what it was, and stays there for a while. If already the first
    round shows that its replies came one after the other, it falls at once.

    Args:
        start (`int`, *optional*): Where to begin. Left out, it is the server's own limit if that
            is known, and 16 otherwise.
        most (`int`, *optional*): Never more than this. Left out, it is the server's own limit if
            that is known, and 256 otherwise.

    Raises:
        InputError: When a number is below one or `start` is above `most`.

    Example:

    ```python
    >>> limit = AdaptiveLimit(start=10)
    >>> tickets = [limit.started() for _ in range(10)]
    >>> for ticket in tickets:
    ...     limit.refused(ticket)
    ...     limit.ended()
    >>> limit.allowed
    9

    ```
    """

    def __init__(self, start: int | None = None, *, most: int | None = None) -> None:
        if any(number is not None and number < 1 for number in (start, most)):
            raise InputError("a limit on requests in flight must be at least 1")
        if start is not None and most is not None and start > most:
            raise InputError(f"the limit cannot start at {start} with at most {most} allowed")
        self._start = start
        self._most = most
        self.in_flight = 0
        self._round = 0
        self._mark: float = math.inf
        self._gentle = False
        self._most_now = most or max(256, start or 0)
        self._limit = float(start or min(START, self._most_now))
        # Up to the ceiling the limit grows freely; there it is measured what growing has brought.
        self._ceiling: float = self.allowed
        self._taken: list[float] = []  # seconds for a token, or for a reply
        self._fastest = math.inf  # of them all
        self._first = True  # whether it is still to be seen if replies wait for each other
        self._passed = 0  # replies to requests that left at another limit: they say nothing
        self._best: tuple[int, float] | None = None  # requests in flight, and what they bring
        self._held = 0  # rounds for which the ceiling stays where it is

    def server_takes(self, count: int) -> None:
        """Begin from what the server itself says it takes, as far as the caller left that open."""
        self._most_now = self._most or max(count, self._start or 0)
        self._limit = float(self._start or min(count, self._most_now))
        self._ceiling = math.inf

    def server_batches(self, count: int) -> None:
        """Begin with so many, unless the caller said otherwise: the server works on many at once.

        How many these are is still found out. Once the first replies have shown that, or the
        server has refused, they know better.
        """
        if self._start is None and self._first and not self._round:
            self._limit = float(min(count, self._most_now))
            self._ceiling = self.allowed

    @property
    def allowed(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @property
    def full(self) -> bool:
        """Whether a new request has to wait."""
        return self.in_flight >= self.allowed

    def started(self) -> int:
        """Note that a request left; returns the ticket that its outcome is reported with."""
        self.in_flight += 1
        return self._round

    def ended(self) -> None:
        """Note that a request is no longer in flight, whatever came of it."""
        self.in_flight -= 1

    def replied(self, seconds: float | None = None, tokens: int | None = None) -> None:
        """Note a reply, before `ended`.

        Args:
            seconds (`float`, *optional*): How long it took.
            tokens (`int`, *optional*): How long it is: a short reply is no fast server.
        """
        # Growth without need would leave the limit meaningless when the need comes.
        if self.in_flight >= self.allowed:
            if seconds is not None and self.allowed >= self._ceiling:
                self._measure(seconds / tokens if tokens else seconds)
            if self._limit > 1.1 * self._mark + 1:
                self._mark, self._gentle = math.inf, False
            quick = not self._gentle and self._limit + 1 < self._mark
            step = 1.0 if quick else 1 / self._limit
            most = self._most_now if seconds is None else min(self._most_now, self._ceiling)
            self._limit = min(self._limit + step, float(max(most, 1)))

    def refused(self, ticket: int) -> None:
        """Note, before `ended`, that the server had no room (429)."""
        self._cut(ticket, 0.9, gentle=False)

    def troubled(self, ticket: int) -> None:
        """Note, before `ended`, that the server could not cope (503, a timeout)."""
        self._cut(ticket, 0.5, gentle=True)

    def _measure(self, taken: float) -> None:
        """At the ceiling: has twice as much in flight brought more?"""
        self._fastest = min(self._fastest, taken)
        if self._passed:
            self._passed -= 1
            return
        self._taken.append(taken)
        width = self.allowed
        if len(self._taken) < max(ROUND, width):
            return
        mean = sum(self._taken) / len(self._taken)
        rate = width / mean if mean else math.inf  # Little's law
        self._taken = []
        if self._first and mean > WAITED * self._fastest and width > LEAST:
            # So many seem to be worked on at once; four times as many leave no place empty.
            self._turn_to(max(LEAST, min(width - 1, int(4 * width * self._fastest / mean))))
            return
        self._first = False
        if self._held:
            self._held -= 1
        elif self._best is not None and rate < FASTER * self._best[1]:
            self._held = HELD_ROUNDS
            self._turn_to(self._best[0])
            self._best = None
        else:
            self._best, self._ceiling = (width, rate), 2 * width
            if not self._gentle and 2 * width < self._mark:
                self._turn_to(min(2 * width, self._most_now))

    def _turn_to(self, width: int) -> None:
        self._passed = self.in_flight
        self._limit = self._ceiling = float(width)

    def _cut(self, ticket: int, factor: float, *, gentle: bool) -> None:
        if ticket == self._round:
            self._round += 1
            self._mark, self._gentle = self.in_flight, gentle
            # Rounding down: a cut always lowers what is allowed, until one is left.
            self._limit = max(1.0, math.floor(min(self._limit, self.in_flight) * factor))
