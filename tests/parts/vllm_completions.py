"""A vLLM server, as far as scoring texts goes: real HTTP, vLLM's shapes, a real tiny model.

`/tokenize` and `/v1/completions` with `prompt_logprobs` answer as vLLM 0.32's do (its
`entrypoints/serve/tokenize/protocol.py` and `entrypoints/openai/completion/protocol.py`): token ids
are the keys of JSON objects, the first token has null, and a prompt that leaves no room for one new
token is refused with 400. One new token is always made. `refusals` are statuses to answer first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiohttp import web

from parts.http_server import LocalServer

NAME = "student"


class VLLMCompletions(LocalServer):
    """Serves a model's folder by the name `student`.

    Args:
        folder: The model and its tokenizer.
        context: What `max_model_len` says.
        refusals: Statuses that the first requests meet.
        without: What this server does not have: `"tokenize"` or `"prompt_logprobs"`.
    """

    def __init__(
        self, folder: Path, *, context: int = 512, refusals: Iterable[int] = (), without: str = ""
    ) -> None:
        super().__init__()
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.context = context
        self.refusals = list(refusals)
        self.without = without
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.at_once = self.most_at_once = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        if self.without != "tokenize":
            app.router.add_post("/tokenize", self.tokenize)
        app.router.add_post("/v1/completions", self.completions)
        return app

    async def models(self, _: web.Request) -> web.Response:
        one = {"id": NAME, "object": "model", "owned_by": "vllm", "max_model_len": self.context}
        return web.json_response({"object": "list", "data": [one]})

    async def _read(self, request: web.Request) -> dict[str, Any]:
        if self.refusals:
            status = self.refusals.pop(0)
            raise _error(status, "out of order")
        body: dict[str, Any] = await request.json()
        self.requests.append((request.path, body))
        if body["model"] != NAME:
            raise _error(404, f"The model `{body['model']}` does not exist.")
        return body

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if "messages" in body:
            if not self.tokenizer.chat_template:
                raise _error(400, "you must provide a chat template if the tokenizer has none")
            text = self.tokenizer.apply_chat_template(
                body["messages"], tokenize=False, add_generation_prompt=True
            )
        else:
            text = body["prompt"]
            assert body["add_special_tokens"] is False
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return web.json_response(
            {"count": len(ids), "max_model_len": self.context, "tokens": ids, "token_strs": None}
        )

    async def completions(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        ids = body["prompt"]
        if len(ids) + body["max_tokens"] > self.context:
            raise _error(400, f"This model's maximum context length is {self.context} tokens.")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.02)  # others may come meanwhile
        self.at_once -= 1
        rows, new = self._score(ids, body["prompt_logprobs"])
        choice = {
            "index": 0,
            "text": self.tokenizer.decode([new]),
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
            "prompt_logprobs": None if self.without == "prompt_logprobs" else rows,
        }
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1}
        return web.json_response(
            {"id": "cmpl-1", "object": "text_completion", "model": NAME, "created": 0}
            | {"choices": [choice], "usage": usage}
        )

    def _score(self, ids: list[int], top: int) -> tuple[list[Any], int]:
        """Per token what vLLM says of it, with the `top` likeliest beside it; and a new token."""
        import torch

        with torch.inference_mode():
            table = self.model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
        rows: list[Any] = [None]
        for place, token in enumerate(ids[1:]):
            scores = table[place]
            shown = [token, *scores.topk(top).indices.tolist()] if top else [token]
            rows.append(
                {
                    str(one): {
                        "logprob": float(scores[one]),
                        "rank": int((scores > scores[one]).sum()) + 1,
                        "decoded_token": self.tokenizer.decode([one]),
                    }
                    for one in shown
                }
            )
        return rows, int(table[-1].argmax())


def _error(status: int, message: str) -> web.HTTPException:
    """An error in the shape of vLLM's."""

    class Error(web.HTTPException):
        status_code = status

    detail = {"message": message, "type": "BadRequestError", "param": None, "code": status}
    return Error(text=json.dumps({"error": detail}), content_type="application/json")
