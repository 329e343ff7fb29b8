"""How requests to a server fail, how long to wait before the next attempt, when to give up.

    RPDError
    ├── ModelError
    │   └── ServerError      one request failed; the summarizers turn it into data
    ├── Interrupted          the run was asked to stop; everything in flight was waited for
    ├── BudgetSpent          the run has spent what it may; likewise
    └── ServerUnavailable    going on would only cost money or mark every solution as failed

The last three end a run, which is why they are no `ModelError`. Clients raise `ServerError`, the
flow the others.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Literal

from rpd_metric.errors import ModelError, RPDError
from rpd_metric.models.chat import ChatReply

# The same request may succeed later. 424 is how TGI reports that its model process failed; 520,
# 522 and 524 come from the proxy in front of many hosted servers.
RETRIED = frozenset({408, 424, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# About this one request's content, rather than about the server or the key.
UNFIT_REQUEST = frozenset({400, 413, 422})
# About the address, the model's name or the key: no request can succeed.
WRONG_SERVER = frozenset({301, 302, 303, 401, 403, 404, 405})

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0

# A run ends when nothing that is of use has come for so long: within two minutes, the last wait
# included. It ends sooner where a server has not answered at all.
PATIENCE = 110.0
UNANSWERED = 15.0
# A run ends after so many failures of one kind in a row, and so many replies without a usable one.
IN_A_ROW = 25
UNUSABLE = 32
SEVERAL = 3

FailureKind = Literal["http", "timeout", "connection", "protocol", "quota"]


class ServerError(ModelError):
    """One attempt at a request failed.

    Args:
        message (`str`): One line for a person, without any secret.
        status (`int`, *optional*): The HTTP status, where there was one.
        retry_after (`float`, *optional*): Seconds the server asked to wait (`Retry-After`).
        retryable (`bool`, *optional*): Whether the same request may succeed later; if unset, as
            the status or the kind says.
        kind (`str`): `"http"`, `"timeout"`, `"connection"`, `"protocol"` (a reply that cannot be
            read) or `"quota"` (paid up, so that no request can succeed).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
        kind: FailureKind = "http",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind
        if retryable is None:
            retryable = kind != "quota" and (status is None or status in RETRIED)
        self.retryable = retryable and status not in UNFIT_REQUEST | WRONG_SERVER

    @property
    def reason(self) -> str:
        """The short code that failures are counted by, e.g. `"http_422"` or `"timeout"`."""
        named = self.status is None or self.kind == "quota"
        return self.kind if named else f"http_{self.status}"


class Interrupted(RPDError):
    """The run was asked to stop; every reply that was in flight has reached the store."""


class BudgetSpent(RPDError):
    """The run has spent what it may; everything in flight has reached the store."""


class ServerUnavailable(RPDError):
    """The server or its model, and not a request, is at fault: going on would bring nothing."""


def backoff(attempt: int, failure: ServerError | None = None) -> float:
    """Seconds to wait after a failed attempt.

    As long as the server asks for, else twice as long each time, up to 8 seconds, and up to a
    quarter less at random.

    Args:
        attempt (`int`): Which attempt failed, from 1.
        failure ([`ServerError`], *optional*): How it failed.
    """
    if failure is not None and failure.retry_after is not None:
        return failure.retry_after
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 30)) * random.uniform(0.75, 1.0)


class GivingUp:
    """When a run ends because going on would cost time or money and bring nothing.

    Each method notes what has happened, and returns why the run has to end, if it has to. A
    server with another model, address, key or quota ends it at once, one that cannot be reached
    within seconds, one that only fails within two minutes. So do 25 requests in a row that
    were given up, 25 replies in a row that cannot be read, the same refusal of the first 25
    requests, 32 replies of which none could be used (those of two minutes, if there are three),
    and twice the time of a request without any answer.

    Args:
        model (`str`): What it is called in messages.
        timeout (`float`): Seconds for one attempt.
        keep_going (`bool`): Whether to go on where a person may know better: where replies come,
            or refusals that may be about the requests.
    """

    def __init__(self, model: str, timeout: float, keep_going: bool) -> None:
        self._model = model
        self._timeout = timeout
        self._keep_going = keep_going
        self._said = self._replied = self._usable = False
        self._failing: float | None = None  # since when it does nothing else
        self._timed_out: dict[int, float] = {}  # requests since it last answered, and since when
        self._failed = self._lost = self._unreadable = self._numbered = 0
        self._refusals: Counter[str] = Counter()
        self._unusable: list[tuple[ChatReply, str]] = []
        self._unusable_since = 0.0

    @property
    def unreached(self) -> bool:
        """Whether the server has never said anything."""
        return not self._said

    def number(self) -> int:
        """Number a request that is sent for the first time."""
        self._numbered += 1
        return self._numbered

    def replied(self) -> None:
        """Note a reply."""
        self._said = self._replied = True
        self._failing = None
        self._timed_out.clear()
        self._failed = self._lost = self._unreadable = 0

    def failed(self, failure: ServerError, number: int) -> str | None:
        """Note a failed attempt at the request of that number."""
        now = time.monotonic()
        if failure.kind == "timeout":
            self._timed_out.setdefault(number, now - self._timeout)
            silent = now - min(self._timed_out.values())
            # One request that takes for ever says nothing of a server that has answered others.
            if silent < 2 * self._timeout or (self._said and len(self._timed_out) < SEVERAL):
                return None
            return f"{self._model} has answered nothing for {silent:,.0f} s: {failure}"
        if failure.kind != "connection":
            self._said = True
            self._timed_out.clear()
        if failure.kind == "quota" or (failure.status in WRONG_SERVER and not self._replied):
            return str(failure)
        if failure.kind == "protocol":
            self._unreadable += 1
            return self._in_a_row(self._unreadable, "replies", "cannot be read", failure)
        if not failure.retryable:
            if number <= IN_A_ROW:
                self._refusals[str(failure)] += 1
            same = self._refusals[str(failure)] if not self._replied else 0
            return self._in_a_row(same, "requests", "were refused alike", failure)
        self._failing = self._failing or now
        self._failed += 1
        asked = failure.retry_after or 0.0
        failing = now - self._failing
        if failing + asked < (PATIENCE if self._said else UNANSWERED):
            return None
        if not self._said:
            return str(failure)
        waits = f"asks to wait {asked:,.0f} s" if asked > PATIENCE else "only fails"
        tried = f"{self._failed} attempt(s) in {failing:,.0f} s"
        return f"{self._model} {waits}: {tried}, the last with: {failure}"

    def lost(self, failure: ServerError) -> str | None:
        """Note a request that was given up."""
        if failure.status in UNFIT_REQUEST or failure.kind == "protocol":
            return None
        self._lost += 1
        return self._in_a_row(self._lost, "requests", "failed", failure)

    def judged(self, reply: ChatReply, fault: str | None) -> str | None:
        """Note whether a reply could be used, and where not, why."""
        self._usable = self._usable or fault is None
        if self._usable or self._keep_going:
            return None
        now = time.monotonic()
        self._unusable_since = self._unusable_since or now
        self._unusable.append((reply, fault or ""))
        count = len(self._unusable)
        if count < UNUSABLE and (count < SEVERAL or now - self._unusable_since < PATIENCE):
            return None
        quotes = "; ".join(_quoted(reply, fault) for reply, fault in self._unusable[:SEVERAL])
        return (
            f"none of the first {count} replies of {self._model} could be used: {quotes}. "
            f"{_advice([reply for reply, _ in self._unusable])}; --keep-going asks on all the same"
        )

    def _in_a_row(self, count: int, what: str, how: str, failure: ServerError) -> str | None:
        if self._keep_going or count < IN_A_ROW:
            return None
        return (
            f"{count} {what} of {self._model} {how}, one after the other, the last with: {failure}"
        )


def _quoted(reply: ChatReply, fault: str) -> str:
    text = " ".join(reply.text.split())
    return f"{text[:80] + '...' if len(text) > 80 else text!r} ({fault.rstrip('.')})"


def _advice(replies: list[ChatReply]) -> str:
    """What to change, told from what most replies are like."""
    half = len(replies) / 2
    if sum(reply.only_thought for reply in replies) > half:
        return "The model thinks until the limit: turn thinking off, or raise --max-tokens"
    if sum(reply.finish_reason == "length" for reply in replies) > half:
        return "Most are cut at the limit: raise --max-tokens"
    return "Take a model that follows the instructions, or another --template"
