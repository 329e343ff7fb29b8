"""What every client of a model server shares: its address, its key, and its failures.

A spec names the server (`spec.py`). This module asks a server what it is (`/info`, `/v1/models`)
and turns the errors of HTTP libraries into `ServerError`s. Keys are cut out
of every text that leaves here. Sending requests is left to `tgi.py`, `tei.py` and `openai.py`.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import httpx2

from rpd_metric.errors import SpecError
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.failures import RETRIED, ServerError
from rpd_metric.models.spec import Address

# A server that cannot be reached is named within this.
CONNECT_SECONDS = 3.0
# How long a reply may take is the scheduler's to say; a client gives up on connecting only.
PATIENT = httpx2.Timeout(None, connect=CONNECT_SECONDS)

# Servers that put many requests into one batch, by their name in /v1/models. A few rounds of so
# many requests are no long wait for them, and keep those with fewer slots busy, too.
BATCHING = frozenset({"vllm", "sglang"})
BATCHED = 64

# Sent where no key is set: both client libraries would otherwise look for one elsewhere,
# huggingface_hub in the file that `hf auth login` wrote.
NO_KEY = "no-key"

# 424 is how TGI reports that its model process failed in mid-generation; 520, 522 and 524
# come from the proxy in front of many hosted servers.
RETRYABLE_STATUS = RETRIED | {424, 520, 522, 524}

_FINISH_REASONS = {"eos_token": "stop", "stop_sequence": "stop"}

Client = TypeVar("Client")


def get_json(address: Address, path: str, *, timeout: float = 10.0) -> Any:
    """`GET` a small JSON document below the server's root, such as `/info`.

    Returns:
        The parsed JSON; `None` when the server has no such page (404 or 405) or answers
        with something other than JSON.

    Raises:
        [`ServerError`]: It cannot be reached, or it refuses.
    """
    where = f"{address.root}{path}"
    headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
    try:
        limits = httpx2.Timeout(timeout, connect=CONNECT_SECONDS)
        reply = httpx2.get(where, headers=headers, timeout=limits, follow_redirects=True)
    except httpx2.HTTPError as error:
        raise transport_error(address, error) from None
    if reply.status_code in (404, 405):
        return None
    if reply.status_code != 200:
        raise http_error(address, reply.status_code, reply.headers, reply.text)
    try:
        return reply.json()
    except ValueError:
        return None


def only_model(address: Address, kind: str) -> str:
    """The name of the one model that an OpenAI-style server lists.

    Raises:
        [`SpecError`]: It lists none or several, or has no such list.
        [`ServerError`]: It cannot be reached, or wants another key.
    """
    try:
        listed = get_json(address, "/v1/models")
    except ServerError as error:
        # transformers serve fails here with 500 where there is no Hub cache.
        if error.kind != "http" or error.status in (401, 403):
            raise
        listed = None
    rows = listed.get("data") if isinstance(listed, dict) else None
    names = [row["id"] for row in rows or () if isinstance(row, dict) and "id" in row]
    if len(names) == 1:
        return str(names[0])
    found = f"lists {len(names)} models" if names else "does not list its models"
    some = f" ({', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''})"
    raise SpecError(
        f"{address.url} {found}{some if names else ''}; say which one: {kind}:{address.url}#model"
    )


def context_length(address: Address, model: str) -> int | None:
    """Tokens that a prompt and its reply may have together, where an OpenAI-style server says it.

    vLLM and SGLang do, in /v1/models.

    Raises:
        [`ServerError`]: It cannot be reached, or it refuses.
    """
    listed = get_json(address, "/v1/models")
    rows = listed.get("data") if isinstance(listed, dict) else None
    for row in rows or ():
        if isinstance(row, dict) and row.get("id") == model:
            length = row.get("max_model_len")
            return length if isinstance(length, int) and length > 0 else None
    return None


def batches_at_once(address: Address) -> int | None:
    """Requests to begin with at a server that is known to work on many at once, else `None`.

    vLLM and SGLang say who they are in /v1/models; how many slots they have they do not.
    """
    try:
        listed = get_json(address, "/v1/models", timeout=CONNECT_SECONDS)
    except ServerError:
        return None  # the first request says it better
    rows = listed.get("data") if isinstance(listed, dict) else None
    owners = {row.get("owned_by") for row in rows or () if isinstance(row, dict)}
    return BATCHED if owners & BATCHING else None


def http_error(address: Address, status: int, headers: Mapping[str, str], body: str) -> ServerError:
    """The `ServerError` for a reply with an error status."""
    fix = ""
    said = address.hide(_message(body)) or "no text"
    if status in (401, 403):
        fix = " Set HF_TOKEN (tgi:, tei:) or OPENAI_API_KEY (openai:) to a key it accepts."
    elif status == 404:
        fix = " Check the path (OpenAI-style servers want /v1) and the model after '#'."
    return ServerError(
        f"{address.url} answered {status}: {said.rstrip('.')}.{fix}",
        kind="http",
        status=status,
        retry_after=retry_after(headers),
        retryable=status in RETRYABLE_STATUS,
    )


def _message(body: str) -> str:
    """The sentence in an error's body: TGI, OpenAI and FastAPI each put it elsewhere."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else body


def transport_error(address: Address, error: Exception) -> ServerError:
    """The `ServerError` for a request that got no complete reply."""
    name = address.hide(f"{type(error).__name__}: {error}".rstrip(": "))
    timed_out = isinstance(error, (httpx2.TimeoutException, TimeoutError, asyncio.TimeoutError))
    if timed_out and not isinstance(error, httpx2.ConnectTimeout):
        return timeout_error(address, name)
    return ServerError(
        f"no reply from {address.url} ({name}). Check that the server runs and the URL is right.",
        kind="connection",
        retryable=True,
    )


def timeout_error(address: Address, detail: str) -> ServerError:
    """The `ServerError` for a reply that did not come in time."""
    return ServerError(
        f"{address.url} did not answer in time ({detail}). "
        "Raise the timeout, or send fewer requests at once.",
        kind="timeout",
        retryable=True,
    )


def protocol_error(address: Address, what: str) -> ServerError:
    """The `ServerError` for a reply that is not what the protocol says."""
    return ServerError(
        f"{address.url} sent a reply that cannot be used: {address.hide(what)}. "
        "Check that the URL leads to the server itself, not to a web page or another API.",
        kind="protocol",
        retryable=True,
    )


def read_chat_reply(address: Address, reply: Any, seconds: float) -> ChatReply:
    """A chat completion, as TGI and OpenAI's protocol send it. Raises [`ServerError`]."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices:
        raise protocol_error(address, f"no choices in {str(reply)[:200]}")
    choice = choices[0] if isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
        raise protocol_error(address, f"no message in {str(choices[0])[:200]}")
    finish = choice.get("finish_reason")
    usage = reply.get("usage")
    return ChatReply(
        # No text at all is what a server sends when the limit fell within the thinking.
        text=message.get("content") or "",
        finish_reason=_FINISH_REASONS.get(finish, finish) if isinstance(finish, str) else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        seconds=seconds,
    )


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) else None


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds to wait according to a `Retry-After` header, in either of its two forms.

    >>> retry_after({"retry-after": "1.5"})
    1.5
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=lambda: 20.0)
    40.0
    >>> retry_after({"retry-after": "soon"}) is None
    True
    """
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now()
        except ValueError:
            return None
    # "nan" and "inf" are floats too, and no time to wait.
    return max(seconds, 0.0) if abs(seconds) < 86_400 * 365 else None


class PerLoop(Generic[Client]):
    """One HTTP client per event loop.

    Connections belong to the loop that opened them, yet a chat model outlives loops: each
    `asyncio.run` and each `datasets.map` starts its own.

    Args:
        make (`Callable`): Makes a client.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = (
            weakref.WeakKeyDictionary()
        )

    def get(self) -> Client:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._make()
        return client

    def pop(self) -> Client | None:
        """The running loop's client, forgotten here so that the caller can close it."""
        return self._clients.pop(asyncio.get_running_loop(), None)
