"""What every client of a model server shares: requests, replies, failures, turns.

Each request is one attempt. What is sent, and what is made of the reply, is for `tgi.py`,
`openai.py` and `embedding_servers.py` to say. Keys are cut out of every text that leaves here.
Replies are read here, as a stream with a largest size; redirects lead to the same origin only.
"""

import asyncio
import json
import math
import re
import weakref
import zlib
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any, Self
from urllib.parse import urlsplit

from rpd_metric.errors import InputError, SpecError
from rpd_metric.models.chat import ChatReply, ChatRequest, before_resend
from rpd_metric.models.concurrency import run
from rpd_metric.models.failures import WRONG_SERVER, ServerError
from rpd_metric.models.http_library import httpx
from rpd_metric.models.spec import Address

# A server that cannot be reached is named within this.
CONNECT_SECONDS = 3.0
# How long a reply may take is the flow's to say; a client gives up on connecting only.
PATIENT = httpx.Timeout(None, connect=CONNECT_SECONDS)
# Bytes of a reply beside its tokens or vectors.
REPLY_BYTES = 2**18
# Of a token: 128 characters, escaped.
TOKEN_BYTES = 2**10
# Of a page about the server, which a router of hundreds of models fills, and the time it may take.
PAGE_BYTES, PAGE_SECONDS = 2**23, 10.0
# Levels of a reply, which has five; thousands end in a RecursionError. Redirects of a request.
DEEPEST, HOPS = 64, 3
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|insufficient.credit", re.I
)
_FINISH_REASONS = {"eos_token": "stop", "stop_sequence": "stop"}


def get_json(address: Address, path: str) -> Any:
    """`GET` a JSON document such as `/info`; `None` where there is none. Raises [`ServerError`]."""

    async def get() -> str:
        async with _connect(address) as client, asyncio.timeout(PAGE_SECONDS):
            request = client.build_request("GET", f"{address.root}{path}")
            return await _exchange(address, client, request, PAGE_BYTES)

    try:
        text = run(get())
    except TimeoutError:
        raise timeout_error(address, PAGE_SECONDS) from None
    except ServerError as error:
        if error.status not in (404, 405):
            raise
        return None
    with suppress(ValueError):
        return read_json(text)
    return None


def read_json(text: str) -> Any:
    """A JSON document of at most `DEEPEST` levels. Raises `ValueError`."""
    with suppress(RecursionError):
        document = json.loads(text)
        level: list[Any] = [[document]]
        for _ in range(DEEPEST + 1):
            inner = [value.values() if isinstance(value, dict) else value for value in level]
            level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
            if not level:
                return document
    raise ValueError("nested too deeply")


def _connect(address: Address) -> httpx.AsyncClient:
    """A client that follows no redirect by itself and asks for what `_read` can read."""
    key = {"Authorization": f"Bearer {address.key}"} if address.key else {}
    try:
        return httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip", **key},
            timeout=PATIENT,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
    except (ValueError, ImportError, httpx.InvalidURL):  # whose text may quote a password
        raise InputError(
            "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: write "
            "http://host:port (socks5:// needs the package socksio), or unset the variable"
        ) from None


async def _exchange(
    address: Address, client: httpx.AsyncClient, request: httpx.Request, most: int
) -> str:
    """Send a request and return the text of the reply. Raises [`ServerError`]."""
    for hop in range(HOPS + 1):
        if hop:
            before_resend.get()()
        try:
            async with aclosing(await client.send(request, stream=True)) as response:
                body = await _read(address, response, most)
        except httpx.HTTPError as error:
            name = address.hide(f"{type(error).__name__}: {error}".rstrip(": "))
            fix = "Check that the server runs and the URL is right"
            if address.url.startswith("https:") and "certificate" not in name:
                fix += "; if it speaks plain HTTP, write http://"
            message = f"no reply from {address.url} ({name}). {fix}."
            raise ServerError(message, kind="connection") from None
        if response.is_error:
            raise http_error(address, response, body)
        onward = response.next_request
        if onward is None:
            return body
        status, sender, target = response.status_code, request.url, onward.url
        where = address.hide(response.headers["location"])
        moved = f"{address.url} answered {status}: it has moved to {where}"
        if onward.method != request.method:
            raise ServerError(f"{moved}. Write the new address", status=status)
        if (target.scheme, target.netloc) != (sender.scheme, sender.netloc):
            moved += ", another server, which was sent nothing"
            raise ServerError(f"{moved}. If you trust it, write its address", status=status)
        request = onward
    raise ServerError(f"{moved}, and so on: {HOPS + 1} redirects of one request", status=status)


async def _read(address: Address, response: httpx.Response, most: int) -> str:
    """The text of a response of at most so many bytes, as sent and unpacked.

    Raises [`ServerError`]. Of an error that cannot be read the status says enough.
    """
    encoding = response.headers.get("content-encoding", "identity").lower()
    gzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    body, sent = bytearray(), 0
    try:
        async for chunk in response.aiter_raw():
            sent += len(chunk)
            # One byte too many at most, whatever a few bytes unpack to: it takes no time either.
            body += gzip.decompress(chunk, most + 1 - len(body)) if gzip else chunk
            if max(sent, len(body)) > most:
                raise ValueError(f"larger than the limit of {most:,} bytes")
        return body.decode()  # JSON is UTF-8, whatever the headers say
    except (ValueError, zlib.error) as error:
        if response.is_error:
            return ""
        raise protocol_error(address, f"{error} (encoding: {encoding})") from None


def _models(address: Address) -> dict[str, dict[str, Any]]:
    listed = get_json(address, "/v1/models")
    rows = listed.get("data") if isinstance(listed, dict) else None
    return {str(row["id"]): row for row in rows or () if isinstance(row, dict) and "id" in row}


def only_model(address: Address) -> str:
    """The one model that an OpenAI-style server lists. Raises [`SpecError`], [`ServerError`]."""
    try:
        names = list(_models(address))
    except ServerError as error:
        # transformers serve fails here with 500 where there is no Hub cache.
        if error.kind != "http" or error.status in WRONG_SERVER:
            raise
        names = []
    if len(names) == 1:
        return names[0]
    examples = f" ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
    listing = f"lists {len(names)} models{examples}" if names else "does not list its models"
    raise SpecError(f"{address.url} {listing}; say which one: openai:{address.url}#model")


def http_error(address: Address, response: httpx.Response, body: str) -> ServerError:
    """The `ServerError` for a response with an error status."""
    status = response.status_code
    message = address.hide(_message(body)).rstrip(".") or "no text"
    quota = status == 402 or (status in (403, 429) and bool(_QUOTA.search(body)))
    fix = ""
    if quota:
        fix = " Nothing more can be asked with this key until its account is topped up."
    elif status in (401, 403):
        fix = " Set HF_TOKEN (tgi:) or OPENAI_API_KEY (openai:) to a key it accepts."
    elif status == 404:
        fix = " Check the path (OpenAI-style servers want /v1) and the model after '#'."
    return ServerError(
        f"{address.url} answered {status}: {message}.{fix}",
        kind="quota" if quota else "http",
        status=status,
        retry_after=retry_after(response.headers),
        body=body,
    )


def _message(body: str) -> str:
    """The sentence in an error's body: TGI, OpenAI and FastAPI each put it elsewhere."""
    try:
        message = read_json(body)
    except ValueError:
        return body
    for name in ("error", "message", "detail"):
        if isinstance(message, dict) and name in message:
            message = message[name]
    return message if isinstance(message, str) else body


def timeout_error(address: Address, seconds: float) -> ServerError:
    """The `ServerError` for a reply that did not come in time."""
    fix = "Raise the timeout, or send fewer requests at once."
    message = f"{address.url} did not answer in time ({seconds:g} s). {fix}"
    return ServerError(message, kind="timeout")


def protocol_error(address: Address, what: str) -> ServerError:
    """The `ServerError` for a reply that is not what the protocol says."""
    return ServerError(
        f"{address.url} sent a reply that cannot be used: {address.hide(what).rstrip('.')}. Check "
        "that the URL leads to the server itself, not to a web page or another API.",
        kind="protocol",
    )


def read_chat_reply(address: Address, body: str) -> ChatReply:
    """A chat completion. Raises [`ServerError`]."""
    try:
        reply = read_json(body)
    except ValueError as error:
        what = error if "nested" in str(error) else "no JSON"
        raise protocol_error(address, f"{what}: {body[:200].strip() or 'nothing'}") from None
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise protocol_error(address, f"no choices in {_message(json.dumps(reply))[:200]}")
    message = choices[0].get("message")
    content = message.get("content") if isinstance(message, dict) else 0
    if isinstance(content, list):  # parts, of which those of text count
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(message, dict) or not isinstance(content, str | None):
        raise protocol_error(address, f"no message in {str(choices[0])[:200]}")
    finish = choices[0].get("finish_reason")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    usage = reply.get("usage")
    return ChatReply(
        # No text at all is what a server sends when the limit fell within the thinking.
        text=content or "",
        finish_reason=_FINISH_REASONS.get(finish, finish) if isinstance(finish, str) else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        model=_name(address, reply.get("model")),
        system_fingerprint=_name(address, reply.get("system_fingerprint")),
        host=urlsplit(address.url).hostname,
    )


def _name(address: Address, value: Any) -> str | None:
    """A name that a server gives, without anything that could be markup."""
    text = address.hide(value) if isinstance(value, str) else ""
    return re.sub(r"[^\w.:@/+-]+", " ", text)[:100].strip() or None


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of a `Retry-After` header; its other form, a date, is not heeded.

    >>> retry_after({"retry-after": "1.5"})
    1.5
    """
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    # "nan" is a float too, and no time to wait. A year is as good as for ever.
    return None if math.isnan(seconds) else min(max(seconds, 0.0), 86_400 * 365)


class ServerClient:
    """One model of one server."""

    max_concurrency: int | None = None

    def __init__(self, address: Address, *, model: str) -> None:
        self.address = address
        self.model = model
        # A model outlives event loops, and connections belong to the loop that opened them.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    @classmethod
    def load(cls, address: Address, _options: Any) -> Self:
        """A client for a server, which is asked for its model where none is named."""
        return cls(address, model=address.model or only_model(address))

    def context_length(self) -> int | None:
        """Tokens of a prompt and its reply together, where the server says it.

        vLLM and SGLang do, in /v1/models. Raises [`ServerError`].
        """
        length = _models(self.address).get(self.model, {}).get("max_model_len")
        return length if isinstance(length, int) and length > 0 else None

    async def _post(self, url: str, body: Mapping[str, Any], most: int) -> str:
        """Send JSON and return the text of a reply with so much content. Raises [`ServerError`]."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = _connect(self.address)
        request = self._clients[loop].build_request("POST", url, json=body)
        return await _exchange(self.address, self._clients[loop], request, REPLY_BYTES + most)


class ChatClient(ServerClient):
    """What the chat servers share: the common part of a request's body, and how a reply is read."""

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            "max_tokens": sampling.max_tokens,
            "temperature": max(sampling.temperature, 0.0),
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if request.stop:
            body["stop"] = list(request.stop)
        return body

    async def _complete(
        self, base: str, body: Mapping[str, Any], request: ChatRequest
    ) -> ChatReply:
        most = TOKEN_BYTES * request.sampling.max_tokens
        return read_chat_reply(
            self.address, await self._post(f"{base}/chat/completions", body, most)
        )
