"""A model folder sampled in static batches and continuously, in processes of their own.

    PYTHONPATH=. python benchmarks/batching.py --model FOLDER

Both answer the same requests with the same seeds through the chat model that `passk.py --model
FOLDER` uses. Lengths differ as they do in an evaluation: a batch ends with its longest reply, which
is what continuous batching saves. CPU time per token is comparable on a busy machine, too, with
`--threads 1`: more threads wait for each other by spinning.

What it leaves out: servers, and more than one GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from machine import machine, markdown, peak_memory

from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.in_process import load_in_process

# Short answers and long ones.
QUESTIONS = (
    "What is 17 + 25? Answer with the number.",
    "Name the capital of France.",
    "Tell me a long story about a lighthouse.",
    "How many legs has a spider?",
    "Explain how a bicycle stays upright.",
    "Which is larger, 9 or 11?",
)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Answer all requests in this process."""
    import torch

    torch.set_num_threads(args.threads)
    chat = load_in_process(
        str(args.model), dtype=args.dtype, batch_size=args.batch_size, batching=args.batching
    )
    loaded = peak_memory()

    async def ask(count: int, tokens: int) -> list[ChatReply]:
        free = asyncio.Semaphore(chat.max_concurrency or count)

        async def one(number: int) -> ChatReply:
            sampling = Sampling(temperature=0.6, max_tokens=tokens, seed=number)
            question = QUESTIONS[number % len(QUESTIONS)]
            async with free:
                return await chat(ChatRequest(({"role": "user", "content": question},), sampling))

        return await asyncio.gather(*(one(number) for number in range(count)))

    asyncio.run(ask(2, 2))  # what the first call prepares
    started, worked = time.perf_counter(), time.process_time()
    replies = asyncio.run(ask(args.requests, args.max_tokens))
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    tokens = [reply.completion_tokens or 0 for reply in replies]
    return {
        "batching": args.batching,
        "seconds": round(seconds, 1),
        "tokens/s": round(sum(tokens) / seconds, 1),
        "CPU ms/token": round(1000 * cpu / sum(tokens), 1),
        "mean tokens": round(sum(tokens) / len(tokens), 1),
        "longest": max(tokens),
        "memory beside the model, MB": round((peak_memory() - loaded) / 1e6),
        "texts": [reply.text for reply in replies],
    }


def main() -> None:
    """Run both ways and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder with a chat model")
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batching", choices=("static", "continuous"), help="only this one")
    args = parser.parse_args()
    if args.batching:
        print(json.dumps(run(args)))
        return
    rows = []
    for batching in ("static", "continuous"):
        command = [sys.executable, __file__, *sys.argv[1:], "--batching", batching]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = (row.pop("texts") for row in rows)
    equal = sum(a == b for a, b in zip(first, second, strict=True))
    print(f"{machine(['torch', 'transformers'])}, {args.threads} threads, {args.model.name}\n")
    print(markdown(rows))
    speed = rows[1]["tokens/s"] / rows[0]["tokens/s"]
    work = rows[1]["CPU ms/token"] / rows[0]["CPU ms/token"]
    print(
        f"\ncontinuous / static: {speed:.2f} in tokens/s, {work:.2f} in CPU time per token; "
        f"equal replies: {equal} of {len(first)}"
    )


if __name__ == "__main__":
    main()
