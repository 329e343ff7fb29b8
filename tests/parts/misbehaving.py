"""A chat server that misbehaves, one mode each, and what a run of summaries makes of it.

`MODES` names each mode with how it answers and how the run has to end. `python -m
parts.misbehaving` (with `tests` on the path) runs all of them with the real waits, several at
once, and prints the table of benchmarks/servers.md: requests, paid twice, seconds, last line.
"""

import argparse
import asyncio
import gzip
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web

from parts.fake_tgi import SUMMARY
from parts.http_server import LocalServer
from rpd_metric.errors import RPDError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import load_chat
from rpd_metric.models.store import ReplyStore
from rpd_metric.steps.chat_summarizer import ChatSummarizer

CUT = web.ResponseKey("cut", bool)
Answer = web.StreamResponse | Awaitable[web.StreamResponse]


NUMBERS = count()


def summary() -> str:
    """Another one each time, as from a server that reads what it is sent."""
    return SUMMARY.replace("by rows", f"by {next(NUMBERS)} rows")


def reply(content: Any = ..., finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion."""
    content = summary() if content is ... else content
    message = {"role": "assistant", "content": content, **message}
    usage = {"prompt_tokens": 500, "completion_tokens": 80}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


REPLY = json.dumps(reply()).encode()


def ok(content: Any = ..., finish: Any = "stop", **message: Any) -> web.Response:
    """A completion, sent as it should be."""
    return web.json_response(reply(content, finish, **message))


def error(status: int, message: str, after: str | None = None, **more: str) -> web.Response:
    """An error as OpenAI words it."""
    headers = {} if after is None else {"Retry-After": after}
    body = {"error": {"message": message, **more}}
    return web.json_response(body, status=status, headers=headers)


class Misbehaving(LocalServer):
    """The server; a context manager. `sent` counts requests by body, `paid` those answered."""

    def __init__(self, mode: str, outage: float) -> None:
        super().__init__()
        self.answer = MODES[mode][0]
        self.outage = outage
        self.sent: Counter[bytes] = Counter()
        self.paid: Counter[bytes] = Counter()
        self.busy = self.number = 0
        self.began = 0.0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/moved/v1/chat/completions", served)
        return app

    @property
    def down(self) -> bool:
        return time.monotonic() - self.began < self.outage

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.began = self.began or time.monotonic()
        self.number += 1
        self.sent[body] += 1
        self.busy += 1
        try:
            answer = self.answer(self, request)
            response = await answer if isawaitable(answer) else answer
        finally:
            self.busy -= 1
        if response.status == 200 and CUT not in response:
            self.paid[body] += 1
        return response


async def served(*_: object) -> web.Response:
    """After the time that a reply takes."""
    await asyncio.sleep(0.02)
    return ok()


async def hung(_: Misbehaving, __: web.Request) -> Any:
    await asyncio.sleep(3600)


def torn(_: Misbehaving, request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)


async def cut(_: Misbehaving, request: web.Request) -> web.StreamResponse:
    """Half of the body that the headers promised."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(REPLY)
    await response.prepare(request)
    await response.write(REPLY[: len(REPLY) // 2])
    assert request.transport is not None
    request.transport.close()
    response[CUT] = True
    return response


async def trickled(_: Misbehaving, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    body = json.dumps(reply()).encode()
    for start in range(0, len(body), 200):
        await response.write(body[start : start + 200])
        await asyncio.sleep(0.01)
    return response


def gzipped(_: Misbehaving, __: web.Request) -> web.Response:
    response = ok()
    response.enable_compression(web.ContentCoding.gzip)
    return response


def bomb(_: Misbehaving, __: web.Request) -> web.Response:
    """64 MiB of spaces, in 64 KiB of gzip."""
    return raw(BOMB, **{"Content-Encoding": "gzip"})


def moved(origin: str = "", path: str = "/moved/v1/chat/completions") -> web.Response:
    """A redirect that repeats the request, prompt included."""
    return web.Response(status=307, headers={"Location": origin + path})


def raw(body: bytes, **headers: str) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})


BOMB = gzip.compress(b" " * 2**26)
NESTED = b"[" * 200_000 + b"]" * 200_000
THOUGHT = "Let me think about this once more, slowly. "
USAGE = ("prompt_tokens", "completion_tokens")
DONE = r"^100 of 100"
STOPPED = r"Replies so far are kept\.$"

# How it answers the nth request, and how the run ends.
MODES: dict[str, tuple[Callable[[Misbehaving, web.Request], Answer], str]] = {
    "nothing unusual": (served, DONE),
    "chunks of a body": (trickled, DONE),
    "gzip": (gzipped, DONE),
    "content in parts": (lambda s, r: ok([{"type": "text", "text": summary()}]), DONE),
    "no finish reason": (lambda s, r: ok(finish=None), DONE),
    "thoughts in the content": (lambda s, r: ok(f"<think>{THOUGHT}</think>{summary()}"), DONE),
    "redirect 307": (lambda s, r: moved(), DONE),
    "redirect 307 to another server": (
        lambda s, r: moved(s.url.replace("127.0.0.1", "localhost")),
        r"server/v1 answered 307: it has moved to http://localhost:\d+/moved\S+, another server",
    ),
    "redirects in a circle": (
        lambda s, r: moved(path="/v1/chat/completions"),
        r"answered 307: it has moved to /v1/chat/completions, and so on: 4 redirects",
    ),
    "redirect 301": (
        lambda s, r: web.Response(status=301, headers={"Location": "/moved/v1/chat/completions"}),
        r"answered 301: it has moved to /moved/v1/chat/completions\. ",
    ),
    "every fifth connection torn": (lambda s, r: torn(s, r) if s.number % 5 == 0 else ok(), DONE),
    "every fifth body cut": (lambda s, r: cut(s, r) if s.number % 5 == 0 else ok(), DONE),
    "every tenth 500": (lambda s, r: error(500, "oops") if s.number % 10 == 0 else ok(), DONE),
    "every twentieth hangs": (
        lambda s, r: hung(s, r) if s.number % 20 == 0 else served(),
        r"^(9[5-9]|100) of 100",
    ),
    "every fourth too long": (
        lambda s, r: error(400, f"too many tokens: {s.number}") if s.number % 4 == 0 else ok(),
        r"^75 of 100",
    ),
    "429 past eight at once": (
        lambda s, r: error(429, "overloaded") if s.busy > 8 else served(),
        DONE,
    ),
    "429 until a time, Retry-After": (
        lambda s, r: error(429, "later", after="1") if s.down else ok(),
        DONE,
    ),
    "503 for a while": (lambda s, r: error(503, "loading") if s.down else ok(), DONE),
    "torn for a while": (lambda s, r: torn(s, r) if s.down else ok(), DONE),
    "429 for ever": (lambda s, r: error(429, "slow down"), rf"slow down.*{STOPPED}"),
    "Retry-After an hour": (
        lambda s, r: error(429, "slow down", after="3600"),
        r"asks to wait 3,600 s.*slow down",
    ),
    "503 for ever": (lambda s, r: error(503, "no model"), r"only fails: .* answered 503: no model"),
    "500 for ever": (lambda s, r: error(500, "broken"), r"only fails: .* answered 500: broken"),
    "torn for ever": (torn, r"no reply from .*RemoteProtocolError"),
    "hangs for ever": (hung, r"only fails: .* did not reply in time"),
    "quota spent": (
        lambda s, r: error(429, "You exceeded your current quota", code="insufficient_quota"),
        r"answered 429: You exceeded your current quota\. Nothing more can be asked",
    ),
    "wrong key": (lambda s, r: error(401, "no such key"), r"answered 401: no such key.*OPENAI"),
    "401 after ten replies": (
        lambda s, r: error(401, "revoked") if s.number > 10 else served(),
        rf"answered 401: revoked\. Set .*{STOPPED}",
    ),
    "one 403 among replies": (
        lambda s, r: error(403, "who?") if s.number == 10 else served(),
        DONE,
    ),
    "wrong model, 404": (lambda s, r: error(404, "no model x"), r"answered 404: no model x"),
    "wrong model, 400": (
        lambda s, r: error(400, "Invalid model name passed in model=x"),
        r"^25 requests to m failed.*Invalid model name",
    ),
    "no choices": (lambda s, r: web.json_response({"choices": []}), r"25 .*no choices"),
    "an error as 200": (
        lambda s, r: web.json_response({"error": {"message": "CUDA out of memory"}}),
        r"25 requests to m.*CUDA out of memory",
    ),
    "a web page as 200": (
        lambda s, r: web.Response(text="<html>Bad gateway</html>", content_type="text/html"),
        r"25 requests to m.*Bad gateway",
    ),
    "half of the JSON": (lambda s, r: raw(REPLY[:99]), r"25 requests to m.*no JSON"),
    "says gzip, is none": (
        lambda s, r: raw(REPLY, **{"Content-Encoding": "gzip"}),
        r"25 requests to m.*incorrect header check \(encoding: gzip\)",
    ),
    "gzip bomb": (bomb, r"25 requests to m.*larger than the limit of 2,359,296 bytes"),
    "gzip in gzip": (
        lambda s, r: raw(gzip.compress(BOMB), **{"Content-Encoding": "gzip, gzip"}),
        r"25 requests to m.*can't decode byte.*\(encoding: gzip, gzip\)",
    ),
    "nested deeply": (lambda s, r: raw(NESTED), r"25 requests to m.*nested too deeply"),
    "Latin-1 instead of UTF-8": (
        lambda s, r: raw(json.dumps(reply("é"), ensure_ascii=False).encode("latin-1")),
        r"25 requests to m.*",
    ),
    "absurd counts": (
        lambda s, r: web.json_response(
            reply() | {"usage": {"prompt_tokens": -1, "completion_tokens": 10**30}}
        ),
        DONE,
    ),
    "zero usage": (
        lambda s, r: web.json_response(reply() | {"usage": dict.fromkeys(USAGE, 0)}),
        r"^the budget is spent: 8 requests, 16,384 new tokens and 0\.0",
    ),
    "constant summary": (
        lambda s, r: ok(SUMMARY),
        rf"different solutions of one problem the same steps.*--keep-going.*{STOPPED}",
    ),
    "other model": (lambda s, r: web.json_response(reply() | {"model": "other"}), DONE),
    "thinks until the limit": (
        lambda s, r: ok(None, "length", reasoning_content=THOUGHT),
        r"none of the first \d+ replies.*thought until the limit.*turn thinking off",
    ),
    "thoughts and no content": (
        lambda s, r: ok(None, "stop", reasoning_content=THOUGHT),
        r"none of the first \d+ replies.*turn thinking off, or raise --max-tokens",
    ),
    "empty content": (lambda s, r: ok(""), r"none of the first \d+ replies.*--keep-going"),
    "prose": (
        lambda s, r: ok("I'd be glad to help."),
        r"of m could be used: \"I'd be glad to help",
    ),
    "cut at the limit": (
        lambda s, r: ok("### Analysis\nWe start", "length"),
        r"none of the first \d+ replies.*raise --max-tokens",
    ),
}


# Eight requests of 2,048 tokens fit in, and no ninth.
BUDGETS = {"zero usage": {"max_cost": 0.018, "price_in": 0.1, "price_out": 1.0}}


@dataclass(frozen=True)
class Outcome:
    """What a run made of a server."""

    distinct: int  # requests that were sent, or that a good server would have been sent
    requests: int
    paid_twice: int
    seconds: float
    last_line: str


def run(mode: str, folder: Path, *, timeout: float, outage: float) -> Outcome:
    """Summarise 100 solutions with a server of that mode."""
    problems = [(f"Problem {n}", [f"Solution {k} of {n}" for k in range(4)]) for n in range(25)]
    with Misbehaving(mode, outage) as server:
        chat: Any = load_chat(f"openai:{server.url}/v1#m")
        began = time.monotonic()
        with ReplyStore(folder / "replies.sqlite") as store:
            flow = Flow(chat, RequestOptions(timeout=timeout, **BUDGETS.get(mode, {})), store=store)

            async def work() -> int:
                summarizer, good = ChatSummarizer(flow), 0
                results = run_bounded(
                    problems, lambda one: summarizer.summarize(*one), max_in_flight=32
                )
                async with aclosing(results):
                    async for summaries in results:
                        good += sum(one.ok for one in summaries)
                return good

            try:
                line = f"{asyncio.run(work())} of 100 solutions are summarised"
            except RPDError as failure:
                line = str(failure)
        seconds = time.monotonic() - began
        line = re.sub(r"http://127\.0\.0\.1:\d+", "http://server", line)
        twice = sum(count - 1 for count in server.paid.values())
        distinct = max(100, len(server.sent))
        return Outcome(distinct, server.sent.total(), twice, seconds, line)


def main() -> None:
    """Run every mode, several at once, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, default=30.0)
    parser.add_argument("--outage", type=float, default=20.0, help="seconds of a passing one")
    parser.add_argument("--at-once", type=int, default=8)
    args = parser.parse_args()

    def row(mode: str) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            found = run(mode, Path(folder), timeout=args.timeout, outage=args.outage)
        return [mode, found.requests, found.paid_twice, round(found.seconds, 1), found.last_line]

    from tabulate import tabulate  # not where the lowest versions are tested

    with ThreadPoolExecutor(args.at_once) as pool:
        head = ["server", "requests", "paid_twice", "seconds", "last_line"]
        print(tabulate(pool.map(row, MODES), head, tablefmt="github"))


if __name__ == "__main__":
    main()
