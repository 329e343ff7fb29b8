"""Chat models behind a spec string: TGI, OpenAI-compatible servers, in process.

    tgi:http://host:port              Text Generation Inference, through huggingface_hub
    openai:http://host:port/v1#model  vLLM, SGLang, llama.cpp, transformers serve, hosted APIs
    hf:model-id  hf:model-id?4bit     in this process, see inprocess.py
    auto:http://host:port             asks the server which of the first two it is

Several servers with one model are named with commas, see `balance.py`.

Every call is one attempt: a client raises `ServerError` and leaves retries, concurrency and
storage to `scheduler.py`. Keys come from HF_TOKEN (tgi:) and OPENAI_API_KEY (openai:), are sent to
the server that the spec names and appear nowhere else.

What differs between servers, as far as it matters here:

- TGI guides decoding by `{"type": "json", "value": schema}`. It refuses `top_p` 1 and takes
  `temperature` 0 as greedy. Its contract has no `chat_template_kwargs`, so thinking is
  switched off by Qwen3's own `/no_think` in the last message; other thinking models need a
  chat template that does not think.
- `transformers serve NAME` answers only to the very name that it was started with, while its
  `/v1/models` lists the Hub cache (or fails where there is none): the spec needs `#NAME`. A
  folder served from beside it has a short name: `cd models && transformers serve tiny`. It
  needs `transformers[serving]` (fastapi, uvicorn, openai, accelerate), ignores
  `response_format` and refuses fields that it does not know with 422. With
  `--continuous-batching` the first request's temperature and top_p hold for all later ones;
  `max_tokens` is per request.
- Hosted APIs refuse `chat_template_kwargs`, newer ones `max_tokens`. When an error names such
  a field, the request is sent again without it (or under its new name), once, and the server
  is remembered.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, cast

import httpx2

from rpd_metric.errors import MissingExtraError, SpecError
from rpd_metric.inference.balance import ChatServers, addresses
from rpd_metric.inference.chat import Chat, ChatReply, ChatRequest
from rpd_metric.inference.http import (
    CONNECT_SECONDS,
    NO_KEY,
    Address,
    PerLoop,
    get_json,
    http_error,
    only_model,
    parse_address,
    protocol_error,
    timeout_error,
    transport_error,
    unknown_spec,
)
from rpd_metric.inference.scheduler import ServerError

logger = logging.getLogger(__name__)

FORMS = {
    "tgi": "tgi:http://host:port",
    "openai": "openai:http://host:port/v1#model",
    "hf": "hf:model-id",
    "auto": "auto:http://host:port",
}

# Qwen3 models that think unless told not to; the later 2507, Coder and Next ones do not, and
# Qwen3.5 no longer knows the switch.
_THINKING_QWEN = re.compile(r"qwen3(?![.\d])(?!.*(2507|coder|next|embedding|reranker|vl))", re.I)

_FINISH_REASONS = {"eos_token": "stop", "stop_sequence": "stop"}


def load_chat(
    spec: str | Chat,
    *,
    timeout: float = 600.0,
    device: str | None = None,
    dtype: str = "auto",
    batch_size: int = 8,
) -> Chat:
    """Load the chat model that a spec names.

    `tgi:` and `auto:` ask the server for its model's name and limits; `openai:` asks only
    when no model is given after `#`.

    Args:
        spec (`str` or [`Chat`]): One of the forms above. A chat model is returned as it is.
        timeout (`float`): Seconds for one whole reply, from request to last byte.
        device, dtype, batch_size: For `hf:` models, see [`~inprocess.load_in_process`].

    Returns:
        [`Chat`]: Servers also have `max_concurrency`, the requests that they take at once
        (`None` where they do not say), and `aclose()`.

    Raises:
        [`SpecError`]: The spec has none of these forms, or holds a secret.
        [`ServerError`]: The server cannot be asked for its model.
        [`MissingExtraError`]: The packages for it are not installed.
        [`ModelError`]: An `hf:` model cannot be loaded.
    """
    if not isinstance(spec, str):
        if not callable(spec):
            raise SpecError(f"a chat model is a spec string or a Chat, not {type(spec).__name__}")
        return spec
    kind, _, rest = spec.strip().partition(":")
    if kind not in FORMS:
        raise unknown_spec(kind, FORMS, "chat model")
    if not rest:
        raise SpecError(f"{kind}: names no model; write {FORMS[kind]}")
    if kind == "hf":
        from rpd_metric.inference.in_process import load_in_process

        return load_in_process(rest, device=device, dtype=dtype, batch_size=batch_size)
    if len(several := addresses(rest)) > 1:
        return ChatServers([load_chat(f"{kind}:{one}", timeout=timeout) for one in several])
    if kind == "auto":
        return _find_out(rest, timeout=timeout)
    if kind == "tgi":
        return _load_tgi(parse_address(kind, rest, key_variable="HF_TOKEN"), timeout=timeout)
    return _load_openai(parse_address(kind, rest, key_variable="OPENAI_API_KEY"), timeout=timeout)


def _find_out(rest: str, *, timeout: float) -> Chat:
    """Ask an unknown server what it is: TGI and TEI have /info, the others only /v1/models."""
    # Without a key: which one it takes is not known before it has said what it is.
    stranger = parse_address("auto", rest, key_variable="")
    try:
        info = get_json(stranger, "/info")
    except ServerError as error:
        if error.status in (401, 403):
            raise SpecError(
                f"{stranger.url} wants a key before it says what it is; "
                "write tgi:URL (key in HF_TOKEN) or openai:URL#model (key in OPENAI_API_KEY)"
            ) from None
        if error.kind != "http":
            raise
        info = None
    if isinstance(info, dict) and "model_type" in info and "model_id" in info:
        raise SpecError(
            f"{stranger.url} serves embeddings ({info['model_id']}), not chat; "
            f"use it as the embedder: tei:{stranger.url}"
        )
    if isinstance(info, dict) and "max_total_tokens" in info:
        return _load_tgi(parse_address("tgi", rest, key_variable="HF_TOKEN"), timeout=timeout)
    address = parse_address("openai", rest, key_variable="OPENAI_API_KEY")
    versioned = Address(f"{address.root}/v1", address.model, address.key)
    return _load_openai(versioned, timeout=timeout)


def _load_tgi(address: Address, *, timeout: float) -> TGIChat:
    try:
        info = get_json(address, "/info")
    except ServerError as error:
        # With the name given, stored replies can be used while the server is down.
        if address.model is None or error.kind == "http":
            raise
        return TGIChat(address, model=address.model, max_concurrency=None, timeout=timeout)
    if not isinstance(info, dict) or not isinstance(info.get("model_id"), str):
        raise SpecError(
            f"{address.url} has no /info page as TGI has; for vLLM, SGLang, llama.cpp or "
            f"transformers serve write openai:{address.root}/v1#model"
        )
    served: str = info["model_id"]
    if address.model is not None and address.model != served:
        raise SpecError(
            f"{address.url} serves {served!r}, not {address.model!r}; "
            "mend what stands after '#', or leave it out"
        )
    limit = info.get("max_concurrent_requests")
    return TGIChat(
        address,
        model=served,
        max_concurrency=limit if isinstance(limit, int) and limit > 0 else None,
        timeout=timeout,
    )


def _load_openai(address: Address, *, timeout: float) -> OpenAIChat:
    model = address.model or only_model(address, "openai")
    return OpenAIChat(address, model=model, timeout=timeout)


class TGIChat:
    """A Text Generation Inference server, through `huggingface_hub.AsyncInferenceClient`.

    Args:
        address ([`~connection.Address`]): Where it listens.
        model (`str`): What it serves.
        max_concurrency (`int`, *optional*): Requests that it takes at once.
        timeout (`float`): Seconds for one whole reply.
    """

    def __init__(
        self, address: Address, *, model: str, max_concurrency: int | None, timeout: float
    ) -> None:
        self.model = model
        self.max_concurrency = max_concurrency
        self._address = address
        self._timeout = timeout
        self._clients = PerLoop(self._make_client)

    def __repr__(self) -> str:
        return f"TGIChat({self._address.url!r}, model={self.model!r})"

    def _make_client(self) -> Any:
        from huggingface_hub import AsyncInferenceClient

        limits = httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS)
        client = AsyncInferenceClient(
            base_url=self._address.url,
            token=self._address.key or NO_KEY,
            timeout=cast(Any, limits),  # handed on to httpx as it is
        )
        # The client's own connections come from a process-wide factory. It pools 100 of them
        # and refuses every host, localhost too, under HF_HUB_OFFLINE=1, which is about the
        # Hub. Putting ours where it keeps its own leaves that factory alone.
        client._async_client = httpx2.AsyncClient(
            timeout=limits,
            follow_redirects=True,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        )
        return client

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`Chat`]. Raises [`ServerError`]."""
        from huggingface_hub.errors import HfHubHTTPError

        sampling = request.sampling
        greedy = sampling.temperature <= 0
        body: dict[str, Any] = {
            "messages": self._messages(request),
            "max_tokens": sampling.max_tokens,
            "temperature": 0.0 if greedy else sampling.temperature,
            "top_p": sampling.top_p if not greedy and 0 < sampling.top_p < 1 else None,
            "seed": sampling.seed,
        }
        if request.schema is not None:
            body["response_format"] = {"type": "json", "value": dict(request.schema)}
        started = time.perf_counter()
        try:
            reply = await asyncio.wait_for(
                self._clients.get().chat_completion(**body), self._timeout
            )
        # Two classes before Python 3.11; the second is also the client's own timeout.
        except (asyncio.TimeoutError, TimeoutError):  # noqa: UP041
            raise timeout_error(self._address, f"{self._timeout:g} s") from None
        except HfHubHTTPError as error:
            answer = error.response
            raise http_error(
                self._address, answer.status_code, answer.headers, answer.text
            ) from None
        except httpx2.HTTPError as error:
            raise transport_error(self._address, error) from None
        except ValueError as error:  # not JSON, or JSON of another shape
            raise protocol_error(self._address, str(error)) from None
        return _to_reply(self._address, reply, time.perf_counter() - started)

    def _messages(self, request: ChatRequest) -> list[dict[str, str]]:
        messages = [dict(message) for message in request.messages]
        if not request.sampling.thinking and _THINKING_QWEN.search(self.model):
            for message in reversed(messages):
                if message["role"] == "user":
                    message["content"] += " /no_think"
                    break
        return messages

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop()
        if client is not None:
            await client._async_client.aclose()
            await client.close()


class OpenAIChat:
    """Any server that speaks OpenAI's chat protocol, through `openai.AsyncOpenAI`.

    Args:
        address ([`~connection.Address`]): Where it listens; the path usually ends in `/v1`.
        model (`str`): The model to ask for.
        timeout (`float`): Seconds for one whole reply.
    """

    max_concurrency: int | None = None

    def __init__(self, address: Address, *, model: str, timeout: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(
                "a spec 'openai:...'", extra="servers", module=error.name or "openai"
            ) from error
        self.model = model
        self._openai = openai
        self._address = address
        self._timeout = timeout
        self._refused: frozenset[str] = frozenset()
        self._clients = PerLoop(self._make_client)

    def __repr__(self) -> str:
        return f"OpenAIChat({self._address.url!r}, model={self.model!r})"

    def _make_client(self) -> Any:
        return self._openai.AsyncOpenAI(
            base_url=self._address.url,
            api_key=self._address.key or NO_KEY,
            max_retries=0,
            timeout=httpx2.Timeout(self._timeout, connect=CONNECT_SECONDS),
        )

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`Chat`]. Raises [`ServerError`]."""
        openai = self._openai
        started = time.perf_counter()
        try:
            reply = await asyncio.wait_for(self._ask(request), self._timeout)
        except (asyncio.TimeoutError, openai.APITimeoutError):  # noqa: UP041
            raise timeout_error(self._address, f"{self._timeout:g} s") from None
        except openai.APIStatusError as error:
            answer = error.response
            raise http_error(
                self._address, answer.status_code, answer.headers, answer.text
            ) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise transport_error(self._address, cause) from None
        except (httpx2.HTTPError, ConnectionError) as error:  # in mid-body
            raise transport_error(self._address, error) from None
        except ValueError as error:  # not JSON
            raise protocol_error(self._address, str(error)) from None
        return _to_reply(self._address, reply, time.perf_counter() - started)

    async def _ask(self, request: ChatRequest) -> Any:
        refused = self._refused
        client = self._clients.get()
        while True:
            body = _openai_body(self.model, request, refused)
            try:
                # chat.completions.create() sends the same, but walks through the messages and
                # builds a model of the reply: 2.9 ms of CPU a request where this takes 2.1.
                reply = await client.post("/chat/completions", body=body, cast_to=httpx2.Response)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
                said = error.response.text
                named = [name for name in _OPTIONAL if name in body and name in said]
                if not named:
                    raise
                refused = refused | {named[0]}
                continue
            # Remembered only now: an error may quote a field that was not its cause.
            for name in refused - self._refused:
                logger.warning("%s refuses %s: %s", self._address.url, name, _OPTIONAL[name])
            self._refused |= refused
            return reply.json()

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop()
        if client is not None:
            await client.close()


# Fields that some servers refuse, and what going without them means.
_OPTIONAL = {
    "chat_template_kwargs": "a model that thinks aloud will do so",
    "response_format": "replies are not guided by the schema",
    "max_tokens": "sending max_completion_tokens instead",
}


def _openai_body(model: str, request: ChatRequest, refused: frozenset[str]) -> dict[str, Any]:
    sampling = request.sampling
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    body: dict[str, Any] = {
        "model": model,
        "messages": [dict(message) for message in request.messages],
        "temperature": max(sampling.temperature, 0.0),
        "top_p": sampling.top_p,
        limit: sampling.max_tokens,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if request.schema is not None and "response_format" not in refused:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if "chat_template_kwargs" not in refused:
        body["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return body


def _to_reply(address: Address, reply: Any, seconds: float) -> ChatReply:
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
