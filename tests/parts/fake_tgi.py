"""A fake Text Generation Inference server: real HTTP, TGI's contract, faults on demand.

What it receives and what it sends is checked against TGI's own OpenAPI file where that file is
given (`CONTRACT`); a breach is kept in `violations` and raised when the server closes. It
generates nothing: a function of the request's JSON makes the text.

    with FakeTGI(reply=lambda body: "hello", faults=[Fault.status(503)]) as server:
        ...  # server.url, server.requests, server.restart()

The first chat request meets the first fault, and so on; `None` or the list's end means none.

Where the contract file and the real server differ (known gaps):

- `response_format` of type `json_object` is an alias that the server takes for `json`; the file
  does not name it. `huggingface_hub` sends it when it is given `json_schema`.
- `/v1/models` answers with a list object; the file says one bare model.
- `nullable` stands beside `allOf` and `type` as OpenAPI 3.0 has it; JSON Schema needs a union.
- The file has no upper bounds: `top_p` must lie strictly between 0 and 1 and `max_tokens` with
  the prompt within `max_total_tokens`; the server answers 422 (done here).
- Bodies that are no JSON are refused in plain text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
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
    """Something that goes wrong with one reply; made by the functions below."""

    kind: str
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    text: str = ""

    @classmethod
    def status(cls, code: int, text: str = "out of order", **headers: str) -> Fault:
        """An error status; header names are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls("status", code=code, headers=named, text=text)

    @classmethod
    def reset(cls) -> Fault:
        """The connection is torn down instead of a reply."""
        return cls("reset")

    @classmethod
    def hang(cls) -> Fault:
        """No reply, ever."""
        return cls("hang")

    @classmethod
    def slow(cls, seconds: float) -> Fault:
        """A good reply whose body trickles in over so many seconds."""
        return cls("slow", seconds=seconds)

    @classmethod
    def truncated(cls) -> Fault:
        """Half of the JSON, as a complete body."""
        return cls("truncated")

    @classmethod
    def cut(cls) -> Fault:
        """Half of the body that the headers promised, then the end of the connection."""
        return cls("cut")

    @classmethod
    def empty_choices(cls) -> Fault:
        """A well-formed reply without a choice."""
        return cls("empty_choices")

    @classmethod
    def web_page(cls) -> Fault:
        """Status 200 with HTML, as a proxy's error page."""
        return cls("web_page", text="<html><body>Bad gateway</body></html>")


@dataclass(frozen=True)
class Received:
    """One chat request as it came."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    in_flight: int


class FakeTGI(LocalServer):
    """The server; a context manager.

    Args:
        reply: Makes the text of a reply from the request's JSON.
        seconds: Time that one reply takes.
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
        self.overloaded = self.answered = 0
        self._in_flight = 0
        self._contract = _Contract(CONTRACT) if CONTRACT.exists() else None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is None and self.violations:
            raise AssertionError("breach of TGI's contract:\n" + "\n".join(self.violations))

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_get("/info", self._get_info)
        app.router.add_get("/health", self._get_health)
        app.router.add_get("/v1/models", self._get_models)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    @property
    def in_flight(self) -> int:
        """Chat requests that are being answered now."""
        return self._in_flight

    async def _get_info(self, request: web.Request) -> web.StreamResponse:
        if not self.has_info:
            return web.Response(status=404, text="Not Found")
        return self._send("Info", self.info)

    async def _get_health(self, request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def _get_models(self, request: web.Request) -> web.StreamResponse:
        rows = [
            {"id": name, "object": "model", "created": 0, "owned_by": name} for name in self.models
        ]
        for row in rows:
            self._check("ModelInfo", row, "reply")
        return web.json_response({"object": "list", "data": rows})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ValueError:
            return web.Response(status=422, text="Failed to parse the request body as JSON")
        fault = self.faults.pop(0) if self.faults else None
        if self._in_flight >= self.info["max_concurrent_requests"]:
            self.overloaded += 1
            return self._error(429, "Model is overloaded", "overloaded")
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        self.requests.append(Received(body, dict(request.headers), self._in_flight))
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
            return self._error(401, f"Incorrect API key provided: {sent}", "unauthorized")
        if self.has_info:  # otherwise it plays another server, whose contract this is not
            self._check("ChatRequest", body, "request")
        refused = next((name for name in self.refuses if name in body), None)
        if refused is not None:
            return self._error(400, f"Unrecognized request argument supplied: {refused}", "invalid")
        if not 0 < (body.get("top_p") or 0.5) < 1 and self.has_info:
            return self._error(422, "`top_p` must be > 0.0 and < 1.0", "validation")
        if (body.get("max_tokens") or 1) >= self.info["max_total_tokens"]:
            return self._error(422, "`inputs` tokens + `max_new_tokens` too many", "validation")
        if fault is not None and fault.kind == "status":
            if fault.text.startswith("{"):
                return web.Response(
                    status=fault.code,
                    text=fault.text,
                    headers=fault.headers,
                    content_type="application/json",
                )
            return self._error(fault.code, fault.text, "generation", fault.headers)
        if fault is not None and fault.kind == "hang":
            await asyncio.sleep(3600)
        if fault is not None and fault.kind == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        await asyncio.sleep(self.seconds)
        if fault is not None and fault.kind == "web_page":
            return web.Response(text=fault.text, content_type="text/html")
        text = self.reply(body)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": self.finish_reason,
            "logprobs": None,
        }
        prompt = sum(len(message["content"]) for message in body["messages"]) // 4
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4,
            "total_tokens": prompt + len(text) // 4,
        }
        reply = {
            "id": "",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": self.info["model_id"],
            "system_fingerprint": "3.3.6-dev0-sha",
            "choices": [] if fault is not None and fault.kind == "empty_choices" else [choice],
            "usage": usage,
        }
        if fault is None or fault.kind == "empty_choices":
            return self._send("ChatCompletion", reply)
        raw = json.dumps(reply).encode()
        if fault.kind == "truncated":
            return web.Response(body=raw[: len(raw) // 2], content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(raw)
        await response.prepare(request)
        if fault.kind == "cut":
            await response.write(raw[: len(raw) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        for start in range(0, len(raw), len(raw) // 20 + 1):
            await response.write(raw[start : start + len(raw) // 20 + 1])
            await asyncio.sleep(fault.seconds / 20)
        await response.write_eof()
        return response

    def _send(self, schema: str, body: dict[str, Any]) -> web.Response:
        self._check(schema, body, "reply")
        return web.json_response(body)

    def _error(
        self, status: int, text: str, kind: str, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        body = {"error": text, "error_type": kind}
        self._check("ErrorResponse", body, "reply")
        return web.json_response(body, status=status, headers=headers)

    def _check(self, schema: str, body: dict[str, Any], what: str) -> None:
        if self._contract is not None:
            self.violations += [f"{what}: {line}" for line in self._contract.errors(schema, body)]


class _Contract:
    """TGI's OpenAPI 3.0 schemas as JSON Schema."""

    def __init__(self, path: Path) -> None:
        components = json.loads(path.read_text(encoding="utf-8"))["components"]
        self._components = _to_json_schema(components)

    def errors(self, schema: str, body: object) -> list[str]:
        validator = Draft202012Validator(
            {"$ref": f"#/components/schemas/{schema}", "components": self._components}
        )
        return [f"{schema}{error.json_path[1:]}: {error.message[:200]}"
                for error in validator.iter_errors(body)]  # fmt: skip


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
