"""How requests to a server fail, how long to wait before the next attempt, when to give up.

Clients raise `ServerError`, which summarizers turn into data. The flow raises the others, which end
a run and so are no `ModelError`.
"""

import random
from typing import Literal

from rpd_metric.errors import ModelError, RPDError

# The same request may succeed later. 424 is how TGI reports that its model process failed; 520,
# 522 and 524 come from the proxy in front of many hosted servers.
RETRIED = frozenset({408, 424, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
# About this one request's content, rather than about the server or the key.
UNFIT_REQUEST = frozenset({400, 413, 422})
# About the address, the model's name or the key: no request can succeed.
WRONG_SERVER = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405})

FIRST_WAIT = 0.5
LONGEST_WAIT = 8.0

FailureKind = Literal["http", "timeout", "connection", "protocol", "quota"]


class ServerError(ModelError):
    """One attempt at a request failed; the message is one line, without any secret.

    Args:
        status (`int`, *optional*): The HTTP status, where there was one.
        retry_after (`float`, *optional*): Seconds the server asked to wait.
        kind (`str`): What failed; `"protocol"` is a reply that cannot be read.
        body (`str`): What the server answered, whole; it may contain a key.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        kind: FailureKind = "http",
        body: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind
        self.body = body
        # Whether the same request may succeed later.
        self.retryable = kind != "quota" and (status is None or status in RETRIED)

    @property
    def refuses_key(self) -> bool:
        """Whether the server knows the key no longer, or never did."""
        return self.status in (401, 403) and self.kind != "quota"

    @property
    def reason(self) -> str:
        """The short code that failures are counted by, e.g. `"http_422"` or `"timeout"`."""
        return f"http_{self.status}" if self.status and self.kind != "quota" else self.kind


class Interrupted(RPDError):
    """The run was asked to stop; every reply that was in flight has reached the store."""


class BudgetSpent(RPDError):
    """The run has spent what it may; everything in flight has reached the store."""


class ServerUnavailable(RPDError):
    """The server or its model, and not a request, is at fault: going on would bring nothing."""


def backoff(attempt: int, failure: ServerError | None = None) -> float:
    """Seconds to wait after a failed attempt, counted from 1.

    As the server asks for, else twice as long each time, up to 8, and up to a quarter less.
    """
    if failure is not None and failure.retry_after is not None:
        return failure.retry_after
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(attempt - 1, 30)) * random.uniform(0.75, 1.0)
