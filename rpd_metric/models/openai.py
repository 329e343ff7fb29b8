"""Servers that speak OpenAI's protocol, `openai:http://host:port/v1#model`: chat and embeddings.

vLLM, SGLang, llama.cpp, `transformers serve`, TEI's /v1 and hosted APIs. Some refuse
`chat_template_kwargs` or `max_tokens`, or know no JSON schema: the request is then sent again
without the field or under its new name, and that is remembered.

`transformers serve NAME` answers only to the very name that it was started with, which its
`/v1/models` does not list. With `--continuous-batching` the first request's temperature and top_p
hold for all later ones.
"""

import logging
from typing import Any

from rpd_metric.models.chat import ChatReply, ChatRequest, before_resend
from rpd_metric.models.failures import ServerError
from rpd_metric.models.http import ChatClient

logger = logging.getLogger(__name__)

# What some servers refuse, and what going without it means.
_OPTIONAL = {
    "skip_special_tokens": "a stop that is a special token may go unseen",
    "chat_template_kwargs": "a model that thinks aloud will do so",
    "max_tokens": "sending max_completion_tokens instead",
    "json_schema": "sending json_object with the schema instead",
    "json_object": "replies are not guided by the schema",
}


class OpenAIChat(ChatClient):
    """A server that speaks OpenAI's chat protocol."""

    _refused: frozenset[str] = frozenset()  # of `_OPTIONAL`

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`~chat.Chat`]. Raises [`ServerError`]."""
        refused = self._refused
        first: ServerError | None = None
        while True:
            body = self._accepted(request, refused)
            try:
                reply = await self._complete(self.address.url, body, request)
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
                return reply

    def _accepted(self, request: ChatRequest, refused: frozenset[str]) -> dict[str, Any]:
        body = self._body(request) | {"top_p": request.sampling.top_p}
        if "max_tokens" in refused:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if request.stop and "skip_special_tokens" not in refused:
            # Without it vLLM and SGLang drop special tokens before they look for a stop.
            body["skip_special_tokens"] = False
        if request.schema is not None and "json_schema" not in refused:
            schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and "json_object" not in refused:
            body["response_format"] = {"type": "json_object", "schema": dict(request.schema)}
        if "chat_template_kwargs" not in refused:
            body["chat_template_kwargs"] = {"enable_thinking": request.sampling.thinking}
        return body


def _refused_by(error: ServerError, body: dict[str, Any]) -> str | None:
    """What an error is about, as far as the server names something that can be left out."""
    form: str | None = body.get("response_format", {}).get("type")
    names = ("response_format", "json_schema", "json_object")
    # llama-cpp-python's server answers a schema with 500, whatever it says.
    if form and (error.status == 500 or any(name in error.body for name in names)):
        return form
    sent = () if error.status == 500 else body
    return next((name for name in _OPTIONAL if name in sent and name in error.body), None)
