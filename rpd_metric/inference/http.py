"""What every client of a model server shares: its address, its key, and its failures.

A spec such as `tgi:http://host:port` names a server. This module takes the address apart,
reads keys from the environment and nowhere else, asks a server what it is (`/info`,
`/v1/models`), and turns the errors of HTTP libraries into `ServerError`s. Keys are cut out
of every text that leaves here. Sending requests is left to `servers.py` and `embedding_servers.py`.
"""

from __future__ import annotations

import asyncio
import difflib
import email.utils
import json
import os
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx2

from rpd_metric.errors import SpecError
from rpd_metric.inference.scheduler import RETRIED, ServerError

CONNECT_SECONDS = 10.0

# Sent where no key is set: both client libraries would otherwise look for one elsewhere,
# huggingface_hub in the file that `hf auth login` wrote.
NO_KEY = "no-key"

# 424 is how TGI reports that its model process failed in mid-generation; 520, 522 and 524
# come from the proxy in front of many hosted servers.
RETRYABLE_STATUS = RETRIED | {424, 520, 522, 524}

Client = TypeVar("Client")


@dataclass(frozen=True)
class Address:
    """Where a server listens and which of its models is meant.

    Args:
        url (`str`): `http(s)://host[:port][/path]`, without a trailing slash.
        model (`str`, *optional*): What stood after `#`.
        key (`str`, *optional*): The bearer token to send; never shown.
    """

    url: str
    model: str | None
    key: str | None

    def __repr__(self) -> str:
        return f"Address(url={self.url!r}, model={self.model!r})"

    @property
    def root(self) -> str:
        """The URL without a trailing `/v1`, where `/info` and `/health` live."""
        return self.url.removesuffix("/v1")

    def hide(self, text: str) -> str:
        """`text` on one line, shortened, with the key cut out wherever it appears."""
        if self.key:
            text = text.replace(self.key, "[key]")
        line = " ".join(text.split())
        return line if len(line) <= 300 else f"{line[:300]}..."


def parse_address(kind: str, rest: str, *, key_variable: str) -> Address:
    """Take apart what follows the colon of a server spec.

    Args:
        kind (`str`): The spec's first word, e.g. `"tgi"`, for error texts.
        rest (`str`): `URL` or `URL#model`.
        key_variable (`str`): Environment variable that holds the key for this server.

    Returns:
        [`Address`]

    Raises:
        [`SpecError`]: It is no URL, or it carries a secret. The text is not repeated
            in the message then.

    Example:

    >>> parse_address("openai", "http://127.0.0.1:8000/v1/#tiny", key_variable="UNSET")
    Address(url='http://127.0.0.1:8000/v1', model='tiny')
    """
    url, _, model = rest.partition("#")
    try:
        parts = urlsplit(url.strip())
        host, has_user = parts.hostname, "@" in parts.netloc
        _ = parts.port  # raises ValueError when it is no number
    except ValueError:
        # The reason is left out: it quotes the text.
        raise SpecError(
            f"the URL of the {kind}: spec cannot be read (look at its port and brackets); "
            f"write {kind}:http://host:port"
        ) from None
    if has_user or parts.query:
        raise SpecError(
            f"the URL of the {kind}: spec holds a user name, password or query string. "
            f"Keys come from the environment only: set {key_variable} and write "
            f"{kind}:{parts.scheme}://{host or 'host'}..."
        )
    if parts.scheme not in ("http", "https") or not host:
        raise SpecError(
            f"what follows {kind}: is not a server's URL; "
            f"write {kind}:http://host:port or {kind}:https://host"
        )
    clean = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    key = os.environ.get(key_variable, "").strip() or None
    return Address(clean, model.strip() or None, key)


def unknown_spec(kind: str, forms: Mapping[str, str], what: str) -> SpecError:
    """The error for a spec whose first word is none of `forms`, with the nearest one named.

    Only the first word is repeated: the rest may hold a password.

    >>> print(unknown_spec("tgl", {"tgi": "tgi:http://host:port"}, "chat model"))
    unknown chat model 'tgl:...'; did you mean tgi:http://host:port? The forms are: tgi:http://host:port
    """
    near = difflib.get_close_matches(kind.lower(), list(forms), n=1, cutoff=0.5)
    if kind in ("http", "https"):
        near = ["auto"]
    hint = f"did you mean {forms[near[0]]}? " if near else ""
    return SpecError(
        f"unknown {what} '{kind[:40]}:...'; {hint}The forms are: {', '.join(forms.values())}"
    )


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
        reply = httpx2.get(where, headers=headers, timeout=timeout, follow_redirects=True)
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
    if isinstance(error, (httpx2.TimeoutException, TimeoutError, asyncio.TimeoutError)):
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
