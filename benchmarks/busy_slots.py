"""How full a vLLM server is kept, by its own count: this client, a plain one, and vLLM's own.

    vllm serve MODEL --port 8000 --max-num-seqs 256
    python benchmarks/busy_slots.py --url http://localhost:8000 --model MODEL --slots 256 \
        [--requests 24 5000] [--tokens 300] [--vllm-bench vllm]
    python benchmarks/busy_slots.py --fake 16 [--owner vllm] --requests 24 400

The same kind of prompts (summaries of the packaged sample, numbered so that no two are equal) in
the same run, one way after the other:

    flow        this project's scheduler and store; the number in flight is found out
    semaphore   openai.AsyncOpenAI with a semaphore of 256 and gather
    bench       `vllm bench serve` on random prompts of about the same length, where it is given

Requests per second are the client's; the share of busy slots is `vllm:num_requests_running` on the
server's /metrics, asked four times a second, over `--slots`, from the first request to the last
reply. Meant for a machine with a GPU; a CPU build of vLLM shows that it works. `--fake` takes a
local stand-in with so many slots and a queue before them instead; it says who it is with `--owner`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx2
import openai
from tabulate import tabulate

from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_metric.models.chat import ChatRequest, Sampling
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import load_chat
from rpd_metric.models.retry import RequestRules
from rpd_metric.models.store import ReplyStore
from rpd_metric.steps.chat_summarizer import ChatSummarizer

ROOT = Path(__file__).resolve().parents[1]
RUNNING = re.compile(rb"^vllm:num_requests_running\S* ([\d.]+)", re.MULTILINE)


def prompts(chat: Any, args: argparse.Namespace, count: int, first: int) -> list[ChatRequest]:
    """So many requests of a curation, no two alike, numbered from `first`."""
    summarizer = ChatSummarizer(chat, sampling=Sampling(max_tokens=args.tokens))
    with tempfile.TemporaryDirectory() as scratch:
        source = open_source("sample", InputSpec(), scratch=Path(scratch), on_reject=print)
        texts = [(one.problem, text) for one in source for text in one.solutions]
    found = []
    for number, (problem, text) in enumerate(islice(cycle(texts), count), first):
        request = summarizer.request(f"{number}. {problem}", text)
        assert request is not None, "no solution of the sample is empty"
        found.append(replace(request, schema=None))
    return found


def measured(args: argparse.Namespace, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that some work takes, and the mean share of busy slots meanwhile."""
    seen: list[float] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.25):
            with urllib.request.urlopen(f"{args.url}/metrics", timeout=10) as page:
                found = RUNNING.search(page.read())
            seen.append(float(found[1]) if found else 0.0)

    thread = threading.Thread(target=look)
    thread.start()
    began = time.monotonic()
    try:
        work()
    finally:
        seconds = time.monotonic() - began
        ended.set()
        thread.join()
    return seconds, statistics.fmean(seen or [0.0]) / args.slots


async def by_flow(requests: Iterable[ChatRequest], spec: str, store: Path) -> None:
    """This project's way."""
    with ReplyStore(store) as replies:
        chat: Any = load_chat(spec)
        flow = Flow(chat, store=replies, rules=RequestRules(longest_reply=0))
        async for _ in run_bounded(requests, flow, max_in_flight=1024, ordered=False):
            pass
        await chat.aclose()


async def by_semaphore(requests: Iterable[ChatRequest], args: argparse.Namespace) -> None:
    """The way of a short script."""
    places = asyncio.Semaphore(256)
    limits = httpx2.Limits(max_connections=None)
    http = httpx2.AsyncClient(limits=limits, timeout=None)
    client = openai.AsyncOpenAI(base_url=f"{args.url}/v1", api_key="none", http_client=http)

    async def one(request: ChatRequest) -> None:
        async with places:
            await client.chat.completions.create(
                model=args.model,
                messages=[dict(message) for message in request.messages],  # type: ignore[misc]
                temperature=request.sampling.temperature,
                top_p=request.sampling.top_p,
                max_tokens=request.sampling.max_tokens,
            )

    async with http:
        await asyncio.gather(*(one(request) for request in requests))


async def warm_up(requests: Sequence[ChatRequest], args: argparse.Namespace) -> None:
    """The first request pays for what both ways use."""
    await by_semaphore(requests, args)


def by_bench(args: argparse.Namespace, count: int, prompt_tokens: int) -> None:
    """vLLM's own client."""
    command = [args.vllm_bench, "bench", "serve", "--base-url", args.url, "--model", args.model]
    command += ["--endpoint", "/v1/completions", "--dataset-name", "random"]
    command += ["--num-prompts", str(count), "--max-concurrency", "256"]
    command += ["--random-input-len", str(prompt_tokens), "--random-output-len", str(args.tokens)]
    subprocess.run(
        [*command, *(("--tokenizer", args.tokenizer) if args.tokenizer else ())], check=True
    )


@contextmanager
def fake(args: argparse.Namespace) -> Iterator[None]:
    """A local server with so many slots and a queue, as the server to measure."""
    command = [sys.executable, "-m", "parts.slow_server", "--slots", str(args.fake)]
    command += ["--median", str(args.median), "--owner", args.owner]
    server = subprocess.Popen(
        command, cwd=ROOT / "tests", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    args.url, args.model, args.slots = server.stdout.readline().strip(), "slow-model", args.fake
    try:
        yield
    finally:
        server.communicate(input="\n")


def rows_of(args: argparse.Namespace, count: int, first: int) -> list[dict[str, object]]:
    """Each way with so many requests, numbered from `first` for each way anew."""
    spec = f"openai:{args.url}/v1#{args.model}"
    chat = load_chat(spec)
    requests, others = (prompts(chat, args, count, first + n * count) for n in range(2))
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "replies.sqlite"
        ways: dict[str, Callable[[], object]] = {
            "flow": lambda: asyncio.run(by_flow(requests, spec, store)),
            "semaphore of 256": lambda: asyncio.run(by_semaphore(others, args)),
        }
        if args.vllm_bench:
            characters = sum(len(one["content"]) for r in requests for one in r.messages)
            ways["vllm bench serve"] = lambda: by_bench(args, count, characters // count // 4)
        for name, work in ways.items():
            seconds, busy = measured(args, work)
            rows.append(
                {
                    "requests": count,
                    "way": name,
                    "seconds": round(seconds, 2),
                    "requests/s": round(count / seconds, 2),
                    "slots busy": f"{busy:.1%}",
                }
            )
    rows[0]["flow / semaphore"] = round(
        float(str(rows[1]["seconds"])) / float(str(rows[0]["seconds"])), 2
    )
    return rows


def main() -> None:
    """Measure each way and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="of the server, without /v1")
    parser.add_argument("--model", help="as the server calls it")
    parser.add_argument("--slots", type=int, help="its --max-num-seqs")
    parser.add_argument("--fake", type=int, metavar="SLOTS", help="a local stand-in instead")
    parser.add_argument(
        "--owner", default="", help="what the stand-in calls itself: vllm, or nothing"
    )
    parser.add_argument("--median", type=float, default=1.0, help="seconds of its replies")
    parser.add_argument("--requests", type=int, nargs="+", default=[5000])
    parser.add_argument("--tokens", type=int, default=300, help="of each reply, at most")
    parser.add_argument("--vllm-bench", metavar="COMMAND", help="vllm, or the path of it")
    parser.add_argument("--tokenizer", help="for vllm bench, where the model's name is no folder")
    args = parser.parse_args()
    if not args.fake and not (args.url and args.model and args.slots):
        parser.error("name the server with --url, --model and --slots, or take --fake SLOTS")
    rows, first = [], 0
    with fake(args) if args.fake else nullcontext():
        asyncio.run(
            warm_up(prompts(load_chat(f"openai:{args.url}/v1#{args.model}"), args, 1, 10**9), args)
        )
        for count in args.requests:
            rows += rows_of(args, count, first)
            first += 2 * count
    print(tabulate(rows, headers="keys"))


if __name__ == "__main__":
    main()
