"""How well a server's slots are used, and what that costs the client.

    python benchmarks/client.py [--requests 5000]

A local server with 64 slots and a log-normal spread of latencies, which refuses what comes
beyond its slots with 429, is driven in four ways, each in a process of its own, with a fresh
server in another:

    flow       Flow over the TGI client, which knows the server's limit; replies are stored
    learned    Flow over the OpenAI client, which has to find the limit out; replies are stored
    batch      64 requests, wait for all of them, the next 64; same client as `flow`
    map        datasets.map with an async function and a semaphore of 64; same client

Utilisation is the server's: slot-seconds used over slot-seconds there were, from the first
request to the last reply, so filling up and running out count. CPU is that of the client's
process between the first request and the last reply; memory is its peak, and the growth over
what it held before the first request. Goals: 95 % or more, 2 ms or less per request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import load_chat
from rpd_metric.models.store import ReplyStore

ROOT = Path(__file__).resolve().parents[1]
SLOTS = 64
MODEL = "slow-model"
WAYS = ("flow", "learned", "batch", "map")


def prompt(number: int, characters: int) -> str:
    """A distinct prompt of about a solution's length."""
    line = f"Problem {number}: complete the square, compare coefficients, solve for x. "
    return (line * (characters // len(line) + 1))[:characters]


def request_for(text: str) -> ChatRequest:
    """The request for one solution."""
    return ChatRequest(({"role": "user", "content": text},), template="benchmark")


def requests(options: argparse.Namespace) -> Iterator[ChatRequest]:
    """All requests, made one by one."""
    for number in range(options.requests):
        yield request_for(prompt(number, options.characters))


async def through_flow(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """The way this project does it."""
    spec = f"tgi:{url}" if options.way == "flow" else f"openai:{url}/v1#{MODEL}"
    with tempfile.TemporaryDirectory() as folder, ReplyStore(f"{folder}/replies") as store:
        chat: Any = load_chat(spec)
        flow = Flow(chat, store=store)
        # More workers than slots: one is always ready to step in.
        async for _ in run_bounded(requests(options), flow, max_in_flight=4 * SLOTS):
            pass
        await chat.aclose()
        return {"replies": store.count(), "flow": str(flow.stats)}


async def in_batches(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Batch and wait."""
    chat: Any = load_chat(f"tgi:{url}")
    replies: list[ChatReply] = []
    batch: list[ChatRequest] = []
    for request in requests(options):
        batch.append(request)
        if len(batch) == SLOTS:
            replies += await asyncio.gather(*map(chat, batch))
            batch = []
    replies += await asyncio.gather(*map(chat, batch))
    await chat.aclose()
    return {"replies": len(replies)}


def through_map(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """`datasets.map` with an async function and a fixed semaphore."""
    import datasets

    datasets.disable_progress_bars()
    datasets.disable_caching()
    chat = load_chat(f"tgi:{url}")
    turn = asyncio.Semaphore(SLOTS)

    async def ask(row: dict[str, str]) -> dict[str, str]:
        async with turn:
            return {"reply": (await chat(request_for(row["prompt"]))).text}

    rows = datasets.Dataset.from_dict(
        {"prompt": [prompt(number, options.characters) for number in range(options.requests)]}
    )
    return {"replies": len(rows.map(ask))}


async def warm_up(spec: str) -> None:
    """One request, and nothing left open."""
    chat: Any = load_chat(spec)
    await chat(request_for("warm"))
    await chat.aclose()


def fetch(url: str) -> dict[str, Any]:
    """A small JSON page of the server."""
    with urllib.request.urlopen(url) as answer:
        return dict(json.load(answer))


def one_way(options: argparse.Namespace) -> None:
    """Run one way in this process and print its figures as JSON."""
    if options.way == "map":
        import datasets  # noqa: F401  (its import is no part of the measurement)
    command = [sys.executable, "-m", "parts.slow_server", "--slots", str(SLOTS)]
    command += ["--median", str(options.median), "--sigma", str(options.sigma)]
    server = subprocess.Popen(
        command, cwd=ROOT / "tests", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    # One request before the clock starts: imports and the connection's set-up.
    for spec in (f"openai:{url}/v1#{MODEL}", f"tgi:{url}"):
        asyncio.run(warm_up(spec))
    fetch(f"{url}/measures?reset=1")
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    if options.way == "map":
        outcome = through_map(url, options)
    else:
        work = in_batches if options.way == "batch" else through_flow
        outcome = asyncio.run(work(url, options))
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    measures = fetch(f"{url}/measures")
    server.communicate(input="\n")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {
        "way": options.way,
        "replies": outcome["replies"],
        "seconds": seconds,
        "utilisation": measures["utilisation"],
        "refused": measures["outcomes"].get("429", 0),
        "cpu_ms_per_request": 1000 * cpu / options.requests,
        "peak_mb": after.ru_maxrss / 1024,
        "growth_mb": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }
    print(json.dumps(row))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--median", type=float, default=0.5, help="seconds per reply")
    parser.add_argument("--sigma", type=float, default=0.5, help="spread of their logarithm")
    parser.add_argument("--characters", type=int, default=8000, help="of a prompt")
    parser.add_argument("--way", choices=WAYS, help="only this one, its figures as JSON")
    parser.add_argument("--json", action="store_true", help="all figures as one JSON object")
    options = parser.parse_args()
    if options.way:
        one_way(options)
        return
    rows = []
    for way in WAYS:
        print(f"{way} ...", file=sys.stderr)
        command = [sys.executable, __file__, "--way", way]
        for name in ("requests", "median", "sigma", "characters"):
            command += [f"--{name}", str(getattr(options, name))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout))
    first = rows[0]
    for row in rows:
        row["times_slower_than_flow"] = row["seconds"] / first["seconds"]
        row["times_the_cpu_of_flow"] = row["cpu_ms_per_request"] / first["cpu_ms_per_request"]
    if options.json:
        print(json.dumps({"slots": SLOTS, "requests": options.requests, "rows": rows}))
        return
    print(f"{options.requests} requests, {SLOTS} slots, median latency {options.median} s")
    print(
        f"{'way':<10}{'seconds':>9}{'x flow':>8}{'slots used':>12}{'refused':>9}"
        f"{'CPU ms/req':>12}{'x flow':>8}{'peak MB':>9}{'growth MB':>11}"
    )
    for row in rows:
        print(
            f"{row['way']:<10}{row['seconds']:>9.1f}{row['times_slower_than_flow']:>8.2f}"
            f"{row['utilisation']:>12.1%}{row['refused']:>9}{row['cpu_ms_per_request']:>12.2f}"
            f"{row['times_the_cpu_of_flow']:>8.2f}{row['peak_mb']:>9.0f}{row['growth_mb']:>11.1f}"
        )


if __name__ == "__main__":
    main()
