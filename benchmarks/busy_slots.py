"""How well a server's slots are used beside a plain semaphore, its ramps included.

    python benchmarks/busy_slots.py [--slots 64] [--requests 5000]

The same kind of prompts, one way after the other:

    named       Flow with the server's number of slots as `max_in_flight`; replies are stored
    unknown     Flow that is told nothing, and starts at 64; replies are stored
    semaphore   openai.AsyncOpenAI with a semaphore of as many as there are slots, and its retries

A stand-in in another process serves so many at a time, with a log-normal spread of latencies,
refuses what comes beyond them with 429, and measures itself: slot-seconds used over slot-seconds
there were, from the first request to the last reply. CPU is this process's. What a real vLLM says
of its slots during a run is in the table of `make real-servers`.
"""

import argparse
import asyncio
import multiprocessing
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2
import openai
from aiohttp import web
from tabulate import tabulate

from rpd_metric.models.chat import ChatRequest, Sampling
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import load_chat
from rpd_metric.models.store import ReplyStore

MESSAGE = {"role": "assistant", "content": "The solution completes the square. " * 16}
REPLY = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}],
    "usage": {"prompt_tokens": 2000, "completion_tokens": 150},
}
# Of the stand-in's latencies: the median, and the spread of their logarithm.
SECONDS, SIGMA = 0.5, 0.5
PROMPT = "complete the square, compare coefficients, solve for x. " * 143


def stand_in(pipe: Connection, slots: int) -> None:
    """Serve until the other end of the pipe closes."""
    rng = random.Random(0)
    busy, used, refused = 0, 0.0, 0
    moments: list[float] = []

    async def chat(request: web.Request) -> web.Response:
        nonlocal busy, used, refused
        await request.read()
        if busy >= slots:
            refused += 1
            return web.json_response({"error": {"message": "all slots are taken"}}, status=429)
        began = time.monotonic()
        busy += 1
        await asyncio.sleep(rng.lognormvariate(0.0, SIGMA) * SECONDS)
        busy -= 1
        moments.extend((began, time.monotonic()))
        used += moments[-1] - began
        return web.json_response(REPLY)

    async def measures(_: web.Request) -> web.Response:
        nonlocal used, refused
        row = {"busy": used / (slots * (max(moments) - min(moments))), "refused": refused}
        moments.clear()
        used, refused = 0.0, 0
        return web.json_response(row)

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        app.router.add_get("/measures", measures)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def requests(args: argparse.Namespace, way: str) -> list[ChatRequest]:
    """Distinct prompts of about a solution's length."""
    sampling = Sampling(max_tokens=300)
    return [
        ChatRequest(({"role": "user", "content": f"{way} {n}: {PROMPT}"},), sampling)
        for n in range(args.requests)
    ]


async def by_flow(args: argparse.Namespace, way: str) -> None:
    """This project's way."""
    named = args.slots if way == "named" else None
    options = RequestOptions(max_in_flight=named, longest_reply=0)
    with tempfile.TemporaryDirectory() as folder, ReplyStore(Path(folder, "replies")) as store:
        chat: Any = load_chat(f"openai:{args.url}/v1#m")
        flow = Flow(chat, options, store=store)
        work = requests(args, way)
        async for _ in run_bounded(work, flow, max_in_flight=4 * args.slots):
            pass


async def by_semaphore(args: argparse.Namespace, way: str) -> None:
    """The way of a short script."""
    places = asyncio.Semaphore(args.slots)
    client = openai.AsyncOpenAI(base_url=f"{args.url}/v1", api_key="none", timeout=None)

    async def answer(request: ChatRequest) -> None:
        async with places:
            await client.chat.completions.create(
                model="m",
                messages=[dict(message) for message in request.messages],  # type: ignore[misc]
                max_tokens=request.sampling.max_tokens,
            )

    async with client:
        await asyncio.gather(*(answer(request) for request in requests(args, way)))


def row_of(args: argparse.Namespace, way: str) -> dict[str, object]:
    """One way's figures."""
    work = by_semaphore if way == "semaphore" else by_flow
    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work(args, way))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    figures = httpx2.get(f"{args.url}/measures").json()
    return {
        "way": way,
        "seconds": round(seconds, 2),
        "requests/s": round(args.requests / seconds, 2),
        "slots busy": round(figures["busy"], 3),
        "refused": figures["refused"],
        "CPU ms/request": round(1000 * cpu / args.requests, 2),
    }


def main() -> None:
    """Measure each way and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slots", type=int, default=64, help="that the stand-in has")
    parser.add_argument("--requests", type=int, default=5000)
    args = parser.parse_args()
    receiver, sender = multiprocessing.Pipe()
    multiprocessing.Process(target=stand_in, args=(sender, args.slots), daemon=True).start()
    args.url = receiver.recv()
    asyncio.run(by_semaphore(argparse.Namespace(**(vars(args) | {"requests": 1})), "warm up"))
    rows = [row_of(args, way) for way in ("named", "unknown", "semaphore")]
    print(tabulate(rows, headers="keys"))


if __name__ == "__main__":
    main()
