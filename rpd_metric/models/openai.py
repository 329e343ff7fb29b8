"""Servers that speak OpenAI's protocol, `openai:http://host:port/v1#model`: chat and embeddings.

vLLM, SGLang, llama.cpp, `transformers serve`, TEI's /v1 and hosted APIs. Some refuse
`chat_template_kwargs` or `max_tokens`, or know no JSON schema: the request is then sent again
without the field or under its new name, and that is remembered.

`transformers serve NAME` answers only to the very name that it was started with, which its
`/v1/models` does not list. With `--continuous-batching` the first request's temperature and top_p
hold for all later ones.
"""

from __future__ import annotations

import logging
from typing import Any

from rpd_metric.models.chat import ChatReply, ChatRequest, before_resend
from rpd_metric.models.failures import ServerError
from rpd_metric.models.http import TOKEN_BYTES, ServerClient, read_chat_reply

logger = logging.getLogger(__name__)

# What some servers refuse, and what going without it means.
_OPTIONAL = {
    "skip_special_tokens": "a stop that is a special token may go unseen",
    "chat_template_kwargs": "a model that thinks aloud will do so",
    "max_tokens": "sending max_completion_tokens instead",
    "json_schema": "sending json_object with the schema instead",
    "json_object": "replies are not guided by the schema",
}


class OpenAIChat(ServerClient):
    """A server that speaks OpenAI's chat protocol."""

    _refused: frozenset[str] = frozenset()  # of `_OPTIONAL`

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`~chat.Chat`]. Raises [`ServerError`]."""
        url = f"{self.address.url}/chat/completions"
        refused = self._refused
        first: ServerError | None = None
        while True:
            body = _chat_body(self.model, request, refused)
            try:
                text = await self._post(url, body, TOKEN_BYTES * request.sampling.max_tokens)
            except ServerError as error:
                if error.status not in (400, 422, 500):
                    raise
                # What the server said before anything was left out is the better answer.
                first = first or error
                named = _refused_by(error, body)
                if named is None:
                    raise first from None
                refused = refused | {named}
                before_resend.get()()
            else:
                # Remembered only now: an error may quote a field that was not its cause.
                for name in sorted(refused - self._refused):
                    logger.warning("%s refuses %s: %s", self.address.url, name, _OPTIONAL[name])
                self._refused |= refused
                return read_chat_reply(self.address, text)


def _refused_by(error: ServerError, body: dict[str, Any]) -> str | None:
    """What an error is about, as far as the server names something that can be left out."""
    form: str | None = body.get("response_format", {}).get("type")
    names = ("response_format", "json_schema", "json_object")
    # llama-cpp-python's server answers a schema with 500, whatever it says.
    if form and (error.status == 500 or any(name in error.body for name in names)):
        return form
    sent = () if error.status == 500 else body
    return next((name for name in _OPTIONAL if name in sent and name in error.body), None)


def _chat_body(model: str, request: ChatRequest, refused: frozenset[str]) -> dict[str, Any]:
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
    if request.stop:
        body["stop"] = list(request.stop)
        # Without it vLLM and SGLang drop special tokens before they look for a stop.
        if "skip_special_tokens" not in refused:
            body["skip_special_tokens"] = False
    if request.schema is not None and "json_schema" not in refused:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif request.schema is not None and "json_object" not in refused:
        body["response_format"] = {"type": "json_object", "schema": dict(request.schema)}
    if "chat_template_kwargs" not in refused:
        body["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return body
