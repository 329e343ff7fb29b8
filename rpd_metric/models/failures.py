"""How requests to a server fail.

    RPDError
    ├── ModelError
    │   └── ServerError      one request failed; the summarizers turn it into data
    ├── Interrupted          the run was asked to stop; everything in flight was waited for
    ├── BudgetSpent          the run has spent what it may; likewise
    └── ServerUnavailable    request after request fails: going on would only mark every
                             solution as failed

The last three end a run, which is why they are no `ModelError`. Clients raise `ServerError`, the
scheduler the others; when a failed attempt is repeated is `retry.py`'s to say.
"""

from __future__ import annotations

from typing import Literal

from rpd_metric.errors import ModelError, RPDError

# What the server says about the request itself: the same request would fail again.
NEVER_RETRIED = frozenset({400, 401, 403, 404, 405, 413, 422})
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# About this one request's content, rather than about the server or the key.
UNFIT_REQUEST = frozenset({400, 413, 422})
# About the address, the model's name or the key: no request can succeed.
WRONG_SERVER = frozenset({401, 403, 404, 405})
# The server cannot cope: it should be given fewer requests at a time.
TROUBLE = frozenset({502, 503, 504, 529})


class ServerError(ModelError):
    """One attempt at a request failed.

    Args:
        message (`str`): One line for a person, without any secret.
        status (`int`, *optional*): The HTTP status, where there was one.
        retry_after (`float`, *optional*): Seconds the server asked to wait (`Retry-After`).
        retryable (`bool`, *optional*): Whether the same request may succeed later. Left out, it
            follows from the status, and without a status from the kind.
        kind (`str`): `"http"`, `"timeout"`, `"connection"` or `"protocol"` (an answer that is
            not what the server's interface promises).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
        kind: Literal["http", "timeout", "connection", "protocol"] = "http",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind
        if retryable is None:
            retryable = status in RETRIED if status is not None else kind != "protocol"
        self.retryable = retryable and status not in NEVER_RETRIED

    @property
    def reason(self) -> str:
        """The short code that failures are counted by, e.g. `"http_422"` or `"timeout"`."""
        return self.kind if self.status is None else f"http_{self.status}"


class Interrupted(RPDError):
    """The run was asked to stop; every reply that was in flight has reached the store."""


class BudgetSpent(RPDError):
    """The run has spent what it may; everything in flight has reached the store."""


class ServerUnavailable(RPDError):
    """The server, and not a request, is at fault: going on would only mark every solution."""
