"""A chat server with a fixed number of slots, a spread of latencies, and faults on demand.

It speaks OpenAI's and TGI's chat protocol as far as the flow's tests and `benchmarks/client.py`
need it, refuses with 429 whatever comes while its slots are taken, and measures how well they
were used. `fake_tgi.py` is the one that checks what it receives against TGI's contract.

As a process of its own, from the folder `tests`:

    python -m parts.slow_server --slots 64 --median 0.4 --sigma 0.5
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import time
from collections import Counter, deque
from dataclasses import dataclass

from aiohttp import web

from parts.http_server import LocalServer

MODEL = "slow-model"
_REPLY = "### Analysis\nThe solution completes the square and compares coefficients. " * 8


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request, instead of a reply or on the way of it."""

    status: int | None = None
    retry_after: str | None = None
    reset: bool = False
    hang: bool = False
    body_takes: float = 0.0
    cut_body: bool = False
    content_type: str = "application/json"
    finish_reason: str = "stop"


class SlowServer(LocalServer):
    """See the module. `faults` is consumed request by request; what is left over is served.

    Args:
        slots: Requests served at once.
        median: Median seconds per reply; the spread is log-normal.
        sigma: Standard deviation of the logarithm of the seconds.
        seed: For the latencies.
        owner: What /v1/models calls the server. One with a name, as "vllm", or "" keeps a queue
            instead of refusing, and says on /metrics how many requests it works on.
    """

    def __init__(
        self,
        *,
        slots: int = 64,
        median: float = 0.0,
        sigma: float = 0.0,
        seed: int = 0,
        owner: str | None = None,
    ) -> None:
        super().__init__()
        self.slots = slots
        self.owner = owner
        self._places = asyncio.Semaphore(slots)
        self.faults: deque[Fault] = deque()
        self.bodies: list[dict] = []
        self.keep_bodies = True
        self.median = median
        self._sigma = sigma
        self._random = random.Random(seed)
        self.reset_measures()

    def reset_measures(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.busy = 0
        self.most_busy = 0
        self._slot_seconds = 0.0
        self._first: float | None = None
        self._last = 0.0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/info", self._info)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/measures", self._measures)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_id": MODEL,
                "max_concurrent_requests": self.slots,
                "max_total_tokens": 32768,
            }
        )

    async def _models(self, _: web.Request) -> web.Response:
        row = {"id": MODEL, "object": "model", "owned_by": self.owner or "somebody"}
        return web.json_response({"object": "list", "data": [row]})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=f"vllm:num_requests_running {self.busy}\n")

    async def _measures(self, request: web.Request) -> web.Response:
        row = self.measures()
        if request.query.get("reset"):
            self.reset_measures()
        return web.json_response(row)

    def measures(self) -> dict:
        """Use of the slots from the first request to the last reply, its ramps included."""
        seconds = self._last - (self._first or 0.0)
        return {
            "seconds": seconds,
            "utilisation": self._slot_seconds / (self.slots * seconds) if seconds > 0 else 0.0,
            "most_busy": self.most_busy,
            "outcomes": dict(self.outcomes),
        }

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.keep_bodies:
            self.bodies.append(body)
        if self.owner is not None:
            async with self._places:
                return await self._serve(request)
        if self.busy >= self.slots:
            self.outcomes["429"] += 1
            return _error(429, "all slots are taken")
        return await self._serve(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.popleft() if self.faults else Fault()
        began = time.monotonic()
        self._first = self._first or began
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            return await self._answer(request, fault)
        finally:
            self.busy -= 1
            self._last = time.monotonic()
            self._slot_seconds += self._last - began

    async def _answer(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.hang:
            self.outcomes["hang"] += 1
            await asyncio.sleep(3600)
        if fault.reset:
            self.outcomes["reset"] += 1
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault.status is not None:
            self.outcomes[str(fault.status)] += 1
            headers = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            return _error(fault.status, "asked to fail", headers)
        if self.median:
            await asyncio.sleep(self._random.lognormvariate(0.0, self._sigma) * self.median)
        payload = json.dumps(_reply(fault.finish_reason)).encode()
        if fault.cut_body:
            payload = payload[: len(payload) // 2]
        self.outcomes["cut body" if fault.cut_body else "200"] += 1
        if not fault.body_takes:
            return web.Response(body=payload, content_type=fault.content_type)
        response = web.StreamResponse(headers={"Content-Type": fault.content_type})
        await response.prepare(request)
        pieces = 10
        for start in range(0, len(payload), -(-len(payload) // pieces)):
            await asyncio.sleep(fault.body_takes / pieces)
            await response.write(payload[start : start - (-len(payload) // pieces)])
        return response


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": "overloaded"}}, status=status, headers=headers
    )


def _reply(finish_reason: str) -> dict:
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": "slow",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": _REPLY},
            }
        ],
        "usage": {"prompt_tokens": 2000, "completion_tokens": 150, "total_tokens": 2150},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--median", type=float, default=0.4)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--owner", help="keep a queue, and be called so")
    options = parser.parse_args()
    server = SlowServer(**vars(options))
    server.keep_bodies = False
    with server:
        print(server.url, flush=True)
        # Until the parent goes away or sends the end of its input.
        input()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        main()
