"""A fake Text Generation Inference server: real HTTP, TGI's contract, errors on demand.

What it receives and what it sends is checked against TGI's own OpenAPI file where that file is
given (`CONTRACT`); a breach is kept in `violations` and raised when the server closes. It
generates nothing: a function of the request's JSON makes the text.

    with FakeTGI(reply=lambda body: "hello", faults=[Fault.status(503)]) as server:
        ...  # server.url, server.requests

The first chat request meets the first fault, and so on; `None` or the list's end means none.

The file has no upper bounds: `top_p` must lie strictly between 0 and 1 and `max_tokens` with the
prompt within `max_total_tokens`, as the real server has it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator

from parts.http_server import LocalServer

CONTRACT = Path(__file__).parents[3] / "shared" / "tgi" / "openapi.json"

SUMMARY = """### Analysis
The solution counts one set in two ways.

//boxed{"logical_steps": [
{"step_title": "Set up", "step_description": "Define the set that is counted."},
{"step_title": "Count", "step_description": "Count it by rows and by columns."},
{"step_title": "Compare", "step_description": "Equate both counts and solve."}]}"""


@dataclass(frozen=True)
class Fault:
    """An error status in the place of one reply."""

    code: int
    text: str
    headers: Mapping[str, str]

    @classmethod
    def status(cls, code: int, text: str = "out of order", **headers: str) -> Fault:
        """Header names are written with underscores; `text` may be the whole body, as JSON."""
        return cls(code, text, {name.replace("_", "-"): one for name, one in headers.items()})


@dataclass(frozen=True)
class Received:
    """One chat request as it came."""

    body: dict[str, Any]
    headers: Mapping[str, str]


class FakeTGI(LocalServer):
    """The server; a context manager.

    Args:
        reply: Makes the text of a reply from the request's JSON.
        seconds: Time that one reply takes.
        crowd: Nothing is answered before so many requests were in flight at once.
        faults: What goes wrong, in the order of arrival.
        finish_reason: As sent with every reply.
        info: Changes to the /info page, e.g. `{"max_concurrent_requests": 4}`.
        has_info: Whether there is such a page; without it this looks like another server.
        models: Names on /v1/models.
        key: A bearer token that chat requests must carry.
        refuses: Fields that are answered with 400, as hosted APIs do.
    """

    def __init__(
        self,
        *,
        reply: Callable[[dict[str, Any]], str] = lambda body: SUMMARY,
        seconds: float = 0.0,
        crowd: int = 0,
        faults: Iterable[Fault | None] = (),
        finish_reason: str = "stop",
        info: Mapping[str, Any] | None = None,
        has_info: bool = True,
        models: Iterable[str] = ("Qwen/Qwen3-14B",),
        key: str | None = None,
        refuses: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self.reply = reply
        self.seconds = seconds
        self.crowd = crowd
        self.faults = list(faults)
        self.finish_reason = finish_reason
        self.has_info = has_info
        self.models = list(models)
        self.key = key
        self.refuses = list(refuses)
        self.info: dict[str, Any] = {
            "model_id": "Qwen/Qwen3-14B",
            "model_pipeline_tag": "text-generation",
            "max_concurrent_requests": 128,
            "max_best_of": 2,
            "max_stop_sequences": 4,
            "max_input_tokens": 16384,
            "max_total_tokens": 20480,
            "validation_workers": 2,
            "max_client_batch_size": 4,
            "router": "text-generation-router",
            "version": "3.3.6-dev0",
            **(info or {}),
        }
        self.requests: list[Received] = []
        self.violations: list[str] = []
        self.most_in_flight = 0
        self.answered = 0
        self._in_flight = 0

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        super().__exit__(kind, *rest)
        if kind is None and self.violations:
            raise AssertionError("breach of TGI's contract:\n" + "\n".join(self.violations))

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_get("/info", self._get_info)
        app.router.add_get("/v1/models", self._get_models)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def _get_info(self, request: web.Request) -> web.StreamResponse:
        if not self.has_info:
            raise web.HTTPNotFound
        return self._send("Info", self.info)

    async def _get_models(self, request: web.Request) -> web.StreamResponse:
        rows = [
            {"id": one, "object": "model", "created": 0, "owned_by": one} for one in self.models
        ]
        return web.json_response({"object": "list", "data": rows})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        fault = self.faults.pop(0) if self.faults else None
        if self._in_flight >= self.info["max_concurrent_requests"]:
            return self._error(429, "Model is overloaded")
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        self.requests.append(Received(body, dict(request.headers)))
        try:
            response = await self._answer(request, body, fault)
            self.answered += 1
            return response
        finally:
            self._in_flight -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], fault: Fault | None
    ) -> web.StreamResponse:
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            sent = request.headers.get("Authorization", "nothing")
            return self._error(401, f"Incorrect API key provided: {sent}")
        if self.has_info:  # otherwise it plays another server, whose contract this is not
            self._check("ChatRequest", body, "request")
        refused = next((name for name in self.refuses if name in body), None)
        if refused is not None:
            return self._error(400, f"Unrecognized request argument supplied: {refused}")
        if not 0 < (body.get("top_p") or 0.5) < 1 and self.has_info:
            return self._error(422, "`top_p` must be > 0.0 and < 1.0")
        if (body.get("max_tokens") or 1) >= self.info["max_total_tokens"]:
            return self._error(422, "`inputs` tokens + `max_new_tokens` too many")
        if fault is not None and fault.text.startswith("{"):
            return web.json_response(text=fault.text, status=fault.code, headers=fault.headers)
        if fault is not None:
            return self._error(fault.code, fault.text, fault.headers)
        await asyncio.sleep(self.seconds)
        while self.most_in_flight < self.crowd:
            await asyncio.sleep(0.01)
        text = self.reply(body)
        prompt = sum(len(message["content"]) for message in body["messages"]) // 4
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self.finish_reason,
            "logprobs": None,
        }
        reply = {
            "id": "",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": self.info["model_id"],
            "system_fingerprint": "3.3.6-dev0-sha",
            "choices": [choice],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": len(text) // 4,
                "total_tokens": prompt + len(text) // 4,
            },
        }
        return self._send("ChatCompletion", reply)

    def _error(
        self, status: int, text: str, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        body = {"error": text, "error_type": "of the fake"}
        return self._send("ErrorResponse", body, status=status, headers=headers)

    def _send(self, schema: str, body: dict[str, Any], **options: Any) -> web.Response:
        self._check(schema, body, "reply")
        return web.json_response(body, **options)

    def _check(self, schema: str, body: object, what: str) -> None:
        if CONTRACT.exists():
            of = {"$ref": f"#/components/schemas/{schema}", "components": _components()}
            self.violations += [
                f"{what}: {schema}{error.json_path[1:]}: {error.message[:200]}"
                for error in Draft202012Validator(of).iter_errors(body)
            ]


@cache
def _components() -> Any:
    """TGI's OpenAPI 3.0 schemas as JSON Schema."""
    return _to_json_schema(json.loads(CONTRACT.read_text(encoding="utf-8"))["components"])


def _to_json_schema(node: Any) -> Any:
    if isinstance(node, list):
        return [_to_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {
        name: _to_json_schema(value)
        for name, value in node.items()
        if name not in ("nullable", "example", "discriminator")
    }
    return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain
