"""Scoring by this process, by worker processes and by Ray actors; and how fast replies are stored.

    python benchmarks/engines.py

All engines score the same problems (the packaged sample, repeated under new names) with models
that run here (`extractive`, `minilm`), each in a process that has not loaded them yet, one thread
each. `start` is what an engine takes for one problem, mostly for loading models: it is what
processes and actors have to win back. The second table is the store of replies as actors of a
cluster use it: a look-up and a write for each reply, over Ray, against the same in one process.

What it leaves out: several machines, GPUs and servers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["RAY_AUTH_MODE"] = "disabled"  # nobody else is on this cluster

from machine import machine, markdown

ENGINES = {
    "this process": [],
    "--num-proc 2": ["--num-proc", "2"],
    "--engine ray --ray-actors 2": ["--engine", "ray", "--ray-actors", "2"],
}
REPLY_LETTERS = 900


def seconds(problems: Path, options: list[str]) -> float:
    """What `rpd curate` takes from start to end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        command = [sys.executable, "-m", "rpd_datasets.cli", "curate", str(problems)]
        command += ["--output", f"{folder}/out", "--num-problems", "1", *options]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started


def write_problems(path: Path, count: int) -> None:
    """The sample's problems again and again, none the same."""
    sample = Path(__file__).parents[1] / "rpd_datasets" / "sample"
    rows = [
        json.loads(line)
        for file in sorted(sample.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    with path.open("w", encoding="utf-8") as file:
        for index in range(count):
            row = rows[index % len(rows)]
            row = {**row, "problem": f"({index}) {row['problem']}"}
            file.write(json.dumps(row) + "\n")


def engines(count: int) -> list[dict[str, object]]:
    """One row for each engine."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder, "one.jsonl"), Path(folder, "many.jsonl")
        write_problems(one, 1)
        write_problems(many, count)
        for name, options in ENGINES.items():
            start = seconds(one, options)
            whole = seconds(many, options)
            base = whole if not rows else float(str(rows[0]["seconds"]))
            rows.append(
                {
                    "engine": name,
                    "start": f"{start:.1f}",
                    "seconds": f"{whole:.1f}",
                    "this process / engine": f"{base / whole:.2f}",
                }
            )
    return rows


def pairs_a_second(replies: Any, count: int) -> float:
    """A look-up and a write for each of so many replies."""
    from rpd_metric.models.chat import ChatReply
    from rpd_metric.models.store import RequestKeys

    started = time.perf_counter()
    for index in range(count):
        key = f"{os.getpid():032x}{index:032x}"
        keys = RequestKeys(key, key, 100, "model", "")
        replies.find(keys, other_lengths=False)
        replies.keep(keys, ChatReply("x" * REPLY_LETTERS, "stop"))
    return count / (time.perf_counter() - started)


def stores(count: int) -> list[dict[str, object]]:
    """One row for each way to the store."""
    import ray

    from rpd_datasets.curation.engines.ray_cluster import RemoteReplies, StoreActor
    from rpd_metric.models.store import ReplyStore

    with tempfile.TemporaryDirectory() as folder:
        with ReplyStore(Path(folder, "here.sqlite")) as store:
            here = pairs_a_second(store, count)
        ray.init(
            address="local",
            include_dashboard=False,
            num_cpus=2,
            object_store_memory=100_000_000,
            logging_level="ERROR",
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
        )
        try:
            actor = ray.remote(StoreActor).options(num_cpus=0).remote(f"{folder}/actor.sqlite")
            call = ray.remote(pairs_a_second)
            ray.get([call.remote(RemoteReplies(actor), 10) for _ in range(2)])  # workers start
            started = time.perf_counter()
            ray.get([call.remote(RemoteReplies(actor), count // 2) for _ in range(2)])
            there = 2 * (count // 2) / (time.perf_counter() - started)
        finally:
            ray.shutdown()
    return [
        {"store": "in one process", "pairs a second": f"{here:,.0f}", "ratio": "1.00"},
        {
            "store": "an actor, asked by two workers",
            "pairs a second": f"{there:,.0f}",
            "ratio": f"{there / here:.2f}",
        },
    ]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=200, help="problems that are scored")
    parser.add_argument("--replies", type=int, default=2000, help="replies that are stored")
    args = parser.parse_args()
    print(machine(("torch", "sentence-transformers", "ray")), flush=True)
    print(f"\n{args.problems} problems of 6 solutions\n")
    print(markdown(engines(args.problems)), flush=True)
    print(f"\n{args.replies} replies of {REPLY_LETTERS} characters\n")
    print(markdown(stores(args.replies)))


if __name__ == "__main__":
    main()
