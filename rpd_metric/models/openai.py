"""Servers that speak OpenAI's protocol, `openai:http://host:port/v1#model`: chat and embeddings.

vLLM, SGLang, llama.cpp, `transformers serve`, TEI's /v1 and hosted APIs, through the `openai`
package. What differs between them, as far as it matters here:

- `transformers serve NAME` answers only to the very name that it was started with, while its
  `/v1/models` lists the Hub cache (or fails where there is none): the spec needs `#NAME`. A
  folder served from beside it has a short name: `cd models && transformers serve tiny`. It
  needs `transformers[serving]` (fastapi, uvicorn, openai, accelerate), ignores
  `response_format` and refuses fields that it does not know with 422. With
  `--continuous-batching` the first request's temperature and top_p hold for all later ones;
  `max_tokens` is per request.
- Hosted APIs refuse `chat_template_kwargs`, newer ones `max_tokens`. When an error names such
  a field, the request is sent again without it (or under its new name), once, and the server
  is remembered. So is what it makes of `response_format`: some know no JSON schema, and
  llama-cpp-python's server answers one with 500.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from rpd_metric.errors import MissingExtraError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest
from rpd_metric.models.http import (
    NO_KEY,
    PATIENT,
    PerLoop,
    context_length,
    http_error,
    moved,
    only_model,
    protocol_error,
    read_chat_reply,
    transport_error,
)
from rpd_metric.models.spec import Address

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)


class OpenAIClient:
    """What the clients share: the package, the connections, and its errors as ours."""

    def __init__(self, address: Address, *, model: str) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(
                "a spec 'openai:...'", extra="servers", module=error.name or "openai"
            ) from error
        self.model = model
        self.address = address
        self._openai = openai
        self._clients = PerLoop(self._make_client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address.url!r}, model={self.model!r})"

    def _make_client(self) -> Any:
        return self._openai.AsyncOpenAI(
            base_url=self.address.url,
            api_key=self.address.key or NO_KEY,
            max_retries=0,
            timeout=PATIENT,
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        openai = self._openai
        try:
            yield
        except openai.APIStatusError as error:
            raise http_error(self.address, error.response) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise transport_error(self.address, cause) from None
        except (httpx2.HTTPError, ConnectionError) as error:  # in mid-body
            raise transport_error(self.address, error) from None
        except ValueError as error:  # not JSON
            raise protocol_error(self.address, str(error)) from None

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop()
        if client is not None:
            await client.close()


class OpenAIChat(OpenAIClient):
    """Any server that speaks OpenAI's chat protocol, through `openai.AsyncOpenAI`.

    Args:
        address ([`~spec.Address`]): Where it listens; the path usually ends in `/v1`.
        model (`str`): The model to ask for.
    """

    max_concurrency: int | None = None

    def __init__(self, address: Address, *, model: str) -> None:
        super().__init__(address, model=model)
        self._refused: frozenset[str] = frozenset()
        self._guide = 0  # index into _GUIDES, or beyond it

    @classmethod
    def load(cls, address: Address, _options: ChatOptions) -> OpenAIChat:
        """A client for a server, which is asked for its model where none is named."""
        model = address.model or only_model(address, "openai")
        return cls(address, model=model)

    def context_length(self) -> int | None:
        """Tokens that prompt and reply may have together; `None` where the server does not say.

        Raises:
            [`ServerError`]: It cannot be asked.
        """
        return context_length(self.address, self.model)

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`~chat.Chat`]. Raises [`ServerError`]."""
        started = time.perf_counter()
        with self._errors():
            reply = await self._ask(request)
            moved(self.address, reply)
            text = reply.content.decode()  # JSON is UTF-8, whatever the headers say
        return read_chat_reply(self.address, text, time.perf_counter() - started)

    async def _ask(self, request: ChatRequest) -> Any:
        # Raw, because building models of a reply takes longer than reading it.
        create = self._clients.get().chat.completions.with_raw_response.create
        refused, guide = self._refused, self._guide
        first: Exception | None = None
        while True:
            body = _chat_body(self.model, request, refused, guide)
            try:
                reply = await create(**body)
            except self._openai.APIStatusError as error:
                first = first or error
                if error.status_code not in (400, 422, 500):
                    raise
                named = _named_in(error.response.text, body)
                if named == "response_format" or (
                    error.status_code == 500 and "response_format" in body
                ):
                    guide += 1
                elif named is None or error.status_code == 500:
                    # What the server said before anything was left out is the better answer.
                    raise first from None
                else:
                    refused = refused | {named}
                continue
            # Remembered only now: an error may quote a field that was not its cause.
            self._remember(refused, guide)
            return reply.http_response

    def _remember(self, refused: frozenset[str], guide: int) -> None:
        for name in refused - self._refused:
            logger.warning("%s refuses %s: %s", self.address.url, name, _OPTIONAL[name])
        self._refused |= refused
        if guide > self._guide:
            self._guide = guide
            logger.warning(
                "%s refuses response_format %s: %s",
                self.address.url,
                _GUIDES[guide - 1],
                f"sending {_GUIDES[guide]}"
                if guide < len(_GUIDES)
                else "replies are not guided by the schema",
            )


# Fields that some servers refuse, and what going without them means.
_OPTIONAL = {
    "chat_template_kwargs": "a model that thinks aloud will do so",
    "max_tokens": "sending max_completion_tokens instead",
}
# How a schema is sent, the next one where a server refuses it: OpenAI's own way, the one of
# llama.cpp's server in Python, none.
_GUIDES = ("json_schema", "json_object with a schema")


def _named_in(said: str, body: dict[str, Any]) -> str | None:
    """The field that an error is about, as far as the server names one that can be left out."""
    if "response_format" in body and any(
        name in said for name in ("response_format", "json_schema", "json_object")
    ):
        return "response_format"
    sent = body.keys() | body["extra_body"].keys()
    return next((name for name in _OPTIONAL if name in sent and name in said), None)


def _chat_body(
    model: str, request: ChatRequest, refused: frozenset[str], guide: int
) -> dict[str, Any]:
    sampling = request.sampling
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    body: dict[str, Any] = {
        "model": model,
        "messages": [dict(message) for message in request.messages],
        "temperature": max(sampling.temperature, 0.0),
        "top_p": sampling.top_p,
        limit: sampling.max_tokens,
        "extra_body": {},
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if request.schema is not None and guide == 0:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema is not None and guide == 1:
        body["response_format"] = {"type": "json_object", "schema": dict(request.schema)}
    if "chat_template_kwargs" not in refused:
        body["extra_body"]["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return body
