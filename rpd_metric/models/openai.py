"""Servers that speak OpenAI's protocol, `openai:http://host:port/v1#model`: chat and embeddings.

vLLM, SGLang, llama.cpp, `transformers serve`, TEI's /v1 and hosted APIs, through the `openai`
package. Some refuse `chat_template_kwargs` or `max_tokens`, or know no JSON schema: the request is
then sent again without the field or under its new name, and that is remembered.

`transformers serve NAME` answers only to the very name that it was started with, which its
`/v1/models` does not list. With `--continuous-batching` the first request's temperature and top_p
hold for all later ones.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from rpd_metric.errors import MissingExtraError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest
from rpd_metric.models.http import (
    NO_KEY,
    PATIENT,
    ServerClient,
    context_length,
    moved,
    only_model,
    read_chat_reply,
)
from rpd_metric.models.spec import Address

logger = logging.getLogger(__name__)

# What some servers refuse, and what going without it means.
_OPTIONAL = {
    "chat_template_kwargs": "a model that thinks aloud will do so",
    "max_tokens": "sending max_completion_tokens instead",
    "json_schema": "sending json_object with the schema instead",
    "json_object": "replies are not guided by the schema",
}


class OpenAIClient(ServerClient):
    """A server of chat or of embeddings."""

    def __init__(self, address: Address, *, model: str) -> None:
        super().__init__(address, model=model)
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(
                "a spec 'openai:...'", extra="servers", module=error.name or "openai"
            ) from error
        self._openai = openai

    def _make_client(self) -> Any:
        return self._openai.AsyncOpenAI(
            base_url=self.address.url,
            api_key=self.address.key or NO_KEY,
            max_retries=0,
            timeout=PATIENT,
        )

    def _errors(self) -> AbstractContextManager[None]:
        return self._raising(self._openai.APIStatusError, self._openai.APIConnectionError)


class OpenAIChat(OpenAIClient):
    """A server that speaks OpenAI's chat protocol."""

    def __init__(self, address: Address, *, model: str) -> None:
        super().__init__(address, model=model)
        self._refused: frozenset[str] = frozenset()  # of `_OPTIONAL`

    @classmethod
    def load(cls, address: Address, _options: ChatOptions) -> OpenAIChat:
        """A client for a server, which is asked for its model where none is named."""
        return cls(address, model=address.model or only_model(address))

    def context_length(self) -> int | None:
        """Tokens of a prompt and its reply, if the server says it. Raises [`ServerError`]."""
        return context_length(self.address, self.model)

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`~chat.Chat`]. Raises [`ServerError`]."""
        with self._errors():
            reply = await self._ask(request)
            moved(self.address, reply)
            text = reply.content.decode()  # JSON is UTF-8, whatever the headers say
        return read_chat_reply(self.address, text)

    async def _ask(self, request: ChatRequest) -> Any:
        # Raw, because building models of a reply takes longer than reading it.
        create = self._client().chat.completions.with_raw_response.create
        refused = self._refused
        first: Exception | None = None
        while True:
            body = _chat_body(self.model, request, refused)
            try:
                reply = await create(**body)
            except self._openai.APIStatusError as error:
                if error.status_code not in (400, 422, 500):
                    raise
                # What the server said before anything was left out is the better answer.
                first = first or error
                named = _refused_by(error.status_code, error.response.text, body)
                if named is None:
                    raise first from None
                refused = refused | {named}
            else:
                # Remembered only now: an error may quote a field that was not its cause.
                for name in sorted(refused - self._refused):
                    logger.warning("%s refuses %s: %s", self.address.url, name, _OPTIONAL[name])
                self._refused |= refused
                return reply.http_response


def _refused_by(status: int, said: str, body: dict[str, Any]) -> str | None:
    """What an error is about, as far as the server names something that can be left out."""
    form: str | None = body.get("response_format", {}).get("type")
    names = ("response_format", "json_schema", "json_object")
    # llama-cpp-python's server answers a schema with 500, whatever it says.
    if form and (status == 500 or any(name in said for name in names)):
        return form
    sent = () if status == 500 else body.keys() | body["extra_body"].keys()
    return next((name for name in _OPTIONAL if name in sent and name in said), None)


def _chat_body(model: str, request: ChatRequest, refused: frozenset[str]) -> dict[str, Any]:
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
    if request.schema is not None and "json_schema" not in refused:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema is not None and "json_object" not in refused:
        body["response_format"] = {"type": "json_object", "schema": dict(request.schema)}
    if "chat_template_kwargs" not in refused:
        body["extra_body"]["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return body
