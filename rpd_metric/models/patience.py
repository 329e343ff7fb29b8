"""What a flow puts up with: how many requests are at a server at once, and when a run gives up."""

import asyncio
import time
from collections import Counter, deque

from rpd_metric.models.chat import ChatReply
from rpd_metric.models.failures import UNFIT_REQUEST, WRONG_SERVER, ServerError, backoff

# Where it is not known what a server takes, so many requests are sent before its first reply.
FIRST = 16
# After so many failed attempts in a row a server is down, rather than full.
DOWN = 8
REPLIES_PER_PLACE = 12
# A run ends when only failures have come for so long: within two minutes, the last wait included.
# It ends sooner where a server has not answered at all.
PATIENCE = 110.0
UNANSWERED = 15.0
# One request or two that time out, which is repeated once, say nothing about the server.
TIMEOUTS = 5
# A run ends after so many lasting failures in a row, and so many replies without a usable one.
IN_A_ROW = 25
UNUSABLE = 32
QUOTED = 3


class Places:
    """A semaphore that gives way to its server; for one event loop.

    A 429 takes a place away, a 503 one that is not made use of, and so does a timeout, after which
    a server may work on; twelve replies bring one back. After `DOWN` failures in a row only what is
    in flight keeps its place. Where that is nothing, one request at a time is sent after ever
    longer pauses, and from the first reply on each brings back a place. Nobody starts while a
    server has asked to wait.

    There are `most` places; of a server that is not `known` to take so many, only `FIRST` until its
    first reply.
    """

    def __init__(self, most: int, known: bool = True) -> None:
        self.in_flight = 0
        self._most = self._goal = float(most)
        # Up to the goal each reply brings a place, beyond it twelve do.
        self._allowed = self._most if known else min(self._most, FIRST)
        self._heard = known
        self._served = 0.0  # requests in flight when replies came, on average
        self._failed = self._probes = self._pauses = 0
        self._closed = False
        self._queue: deque[asyncio.Future[None]] = deque()

    async def take(self, *, begun: bool = False) -> None:
        """Wait for a place; a solution that was `begun` already comes before all others."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.insert(0 if begun else len(self._queue), turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn had come
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self.in_flight -= 1
        self._admit()

    def replied(self) -> None:
        """Note a reply, before `leave`."""
        self._failed = self._probes = 0
        self._served += (self.in_flight - self._served) / (8 if self._served else 1)
        if not self._heard:
            self._heard, self._allowed = True, self._goal
        step = 1.0 if self._allowed < self._goal else 1 / REPLIES_PER_PLACE
        self._allowed = min(self._most, self._allowed + step)

    def failed(self, failure: ServerError) -> None:
        """Note a failed attempt that may be repeated, before `leave`."""
        self._heard = True
        self._failed += 1
        if self._failed >= DOWN:
            self._allowed = self._goal = max(1.0, min(self._allowed, self.in_flight - 1.0))
            if self.in_flight == 1:
                self._goal = self._most
                self._probes += 1
                self._pause(backoff(self._probes, failure))
        elif failure.status in (429, 503) or failure.kind == "timeout":
            # A 503 may have nothing to do with the load: then its places stay.
            served = min(round(self._served), self._allowed) if failure.status == 503 else 1.0
            self._allowed = self._goal = max(1.0, served, self._allowed - 1.0)
        if failure.retry_after:
            self._pause(failure.retry_after)

    def close(self) -> None:
        """Let everybody in at once: they find that the run has ended."""
        self._closed = True
        self._admit()

    def _pause(self, seconds: float) -> None:
        self._pauses += 1
        asyncio.get_running_loop().call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._pauses -= 1
        self._admit()

    def _admit(self) -> None:
        while self._queue:
            full = self._pauses or self.in_flight >= int(self._allowed + 1e-9)
            if full and not self._closed:
                return
            turn = self._queue.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


class GivingUp:
    """When a run ends because going on would cost time or money and bring nothing.

    Each method notes what has happened, and returns why the run has to end, if it has to; the
    rules are in docs/servers.md. With `keep_going` it continues where a person may know better:
    where no reply can be used, or request after request is refused.
    """

    def __init__(self, model: str, timeout: float, keep_going: bool) -> None:
        self._model = model
        self._timeout = timeout
        self._keep_going = keep_going
        self._heard = self._replied = False  # anything at all, and a reply
        self._failing: float | None = None  # since when it does nothing else
        self._attempts = 0  # since then
        self._in_a_row: Counter[str] = Counter()
        self._unusable: list[tuple[float, str]] | None = []  # None: one was of use

    def replied(self) -> None:
        """Note a reply."""
        self._heard = self._replied = True
        self._failing, self._attempts = None, 0
        self._in_a_row.clear()

    def failed(self, failure: ServerError) -> str | None:
        """Note a failed attempt."""
        now, timed_out = time.monotonic(), failure.kind == "timeout"
        self._heard = self._heard or not (timed_out or failure.kind == "connection")
        if failure.refuses_key:
            return None  # the flow tries the same request once more, and then ends the run
        if failure.kind == "quota" or (failure.status in WRONG_SERVER and not self._replied):
            return str(failure)
        if failure.kind == "protocol" or not failure.retryable:
            return self._lasting(failure)
        self._attempts += 1
        self._failing = self._failing or now - timed_out * self._timeout
        failing, retry_after = now - self._failing, failure.retry_after or 0.0
        bearable = PATIENCE if self._heard else UNANSWERED
        if timed_out:
            bearable = 2 * self._timeout
        enough = not (timed_out and self._heard) or self._attempts >= TIMEOUTS
        if failing + retry_after < bearable or not enough:
            return None
        waits = f"asks to wait {retry_after:,.0f} s" if retry_after > PATIENCE else "only fails"
        tried = f"{self._attempts} attempt(s) in {failing:,.0f} s"
        return f"{self._model} {waits}: {tried}, the last with: {failure}"

    def _lasting(self, failure: ServerError) -> str | None:
        kind: str = failure.kind
        if failure.status in UNFIT_REQUEST:
            # It is about that request, unless all are refused alike.
            if self._replied:
                return None
            kind = str(failure)
        self._in_a_row[kind] += 1
        if self._keep_going or self._in_a_row[kind] < IN_A_ROW:
            return None
        return f"{IN_A_ROW} requests to {self._model} failed one after the other: {failure}"

    def judged(self, reply: ChatReply, fault: str | None) -> str | None:
        """Note whether a reply could be used, and where not, why."""
        if fault is None or self._keep_going:
            self._unusable = None
        if self._unusable is None:
            return None
        now, text = time.monotonic(), " ".join(reply.text.split())
        shown = f"{text[:80]}..." if len(text) > 80 else text
        self._unusable.append((now, f"{shown!r} ({(fault or '').rstrip('.')})"))
        count, first = len(self._unusable), self._unusable[0][0]
        if count < UNUSABLE and (count < QUOTED or now - first < PATIENCE):
            return None
        return (
            f"none of the first {count} replies of {self._model} could be used: "
            f"{'; '.join(quoted for _, quoted in self._unusable[:QUOTED])}. Turn thinking off, "
            "raise --max-tokens, or take another model or --template; --keep-going asks on all "
            "the same"
        )
