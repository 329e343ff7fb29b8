"""Text Generation Inference, `tgi:http://host:port`.

TGI is in maintenance: for a new installation take vLLM or SGLang (`openai.py`). It guides decoding
by `{"type": "json", "value": schema}`, refuses `top_p` 1 and takes `temperature` 0 as greedy. Its
contract has no `chat_template_kwargs`, so thinking is switched off by Qwen3's own `/no_think` in
the last message; other thinking models need a chat template that does not think.
"""

from __future__ import annotations

import re

from rpd_metric.errors import SpecError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest
from rpd_metric.models.failures import ServerError
from rpd_metric.models.http import ChatClient, get_json
from rpd_metric.models.spec import Address

# Qwen3 models that think unless told not to; the later 2507, Coder and Next ones do not, and
# Qwen3.5 no longer knows the switch.
_THINKING_QWEN = re.compile(r"qwen3(?![.\d])(?!.*(2507|coder|next|embedding|reranker|vl))", re.I)


class TGIChat(ChatClient):
    """A Text Generation Inference server."""

    _context: int | None = None

    @classmethod
    def load(cls, address: Address, _options: ChatOptions) -> TGIChat:
        """Ask a server for its model's name and limits. Raises [`SpecError`], [`ServerError`]."""
        try:
            info = get_json(address, "/info")
        except ServerError as error:
            # With the name given, stored replies can be used while the server is down.
            if address.model is None or error.kind == "http":
                raise
            return cls(address, model=address.model)
        if not isinstance(info, dict) or not isinstance(info.get("model_id"), str):
            raise SpecError(
                f"{address.url} has no /info page as TGI has; for vLLM, SGLang, llama.cpp or "
                f"transformers serve write openai:{address.root}/v1#model"
            )
        served: str = info["model_id"]
        if address.model is not None and address.model != served:
            raise SpecError(
                f"{address.url} serves {served!r}, not {address.model!r}; "
                "correct the name after '#', or leave it out"
            )
        chat = cls(address, model=served)
        chat.max_concurrency = info.get("max_concurrent_requests") or None
        chat._context = info.get("max_total_tokens")
        return chat

    def context_length(self) -> int | None:
        """Tokens of a prompt and its reply together, as the server said when it was loaded."""
        return self._context

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request; see [`~chat.Chat`]. Raises [`ServerError`]."""
        sampling = request.sampling
        body = self._body(request)
        if not sampling.thinking and _THINKING_QWEN.search(self.model):
            body["messages"][-1]["content"] += " /no_think"
        if sampling.temperature > 0 and 0 < sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if request.schema is not None:
            body["response_format"] = {"type": "json", "value": dict(request.schema)}
        return await self._complete(f"{self.address.root}/v1", body, request)
