# /// script
# requires-python = ">=3.11"
# dependencies = ["rpd-metric[offline,servers,vllm]"]
# ///
"""Curation inside a Hugging Face Job: vLLM in the job, the store of replies on a mounted volume.

    hf jobs uv run --flavor a100-large --timeout 8h --secrets HF_TOKEN \
        -v hf://buckets/USER/rpd:/bucket recipes/jobs/curate.py \
        open-thoughts/OpenThoughts3-1.2M --only domain=math --limit 2000 --model Qwen/Qwen3-14B \
        --repo USER/diverse-math

A job that is killed is started again with the same line: the replies are copied to the volume every
minute and when the job ends, and the next one goes on from them. SQLite's log does not work on a
network file system, so the store itself lies on the job's own disk. Options that this script does
not know go to `rpd curate`. Where the package is not on an index, add `--with
git+https://github.com/OWNER/REPOSITORY`.

Runs on any machine: `python recipes/jobs/curate.py sample --summarizer extractive --work out`.
Not run on Jobs so far; tested as the script that it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

SECONDS_BETWEEN_COPIES = 60.0


def arguments(given: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """This script's options, and those of `rpd curate`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("input", help="as for rpd curate")
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--model", default="Qwen/Qwen3-14B", help="served by vLLM in this process")
    models.add_argument("--summarizer", help="another summarizer, e.g. extractive")
    parser.add_argument("--repo", help="dataset to push the result to")
    parser.add_argument(
        "--volume", type=Path, default=Path("/bucket"), help="what outlives the job"
    )
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of this machine")
    return parser.parse_known_args(given)


def copy_back(store: Path, volume: Path) -> None:
    """Put a copy of the store where the next job finds it, whole or not at all."""
    if not store.exists():
        return
    from rpd_metric.models.store import ReplyStore

    volume.mkdir(parents=True, exist_ok=True)
    here, there = store.with_suffix(".copy"), volume / f"{store.name}.partial"
    with ReplyStore(store, create=False) as opened:
        opened.copy(here)
    shutil.copyfile(here, there)
    here.unlink()
    os.replace(there, volume / store.name)


def main(given: Sequence[str] | None = None) -> int:
    """Fetch the store, curate, and put the store back; returns `rpd curate`'s exit status."""
    args, rest = arguments(given)
    store = args.work / "replies.sqlite"
    args.work.mkdir(parents=True, exist_ok=True)
    if not store.exists() and (args.volume / store.name).exists():
        shutil.copyfile(args.volume / store.name, store)
    command = [
        *(sys.executable, "-m", "rpd_datasets.cli", "curate", args.input, "--overwrite"),
        *("--summarizer", args.summarizer or f"vllm:{args.model}"),
        *("--store", str(store), "--output", str(args.work / "curated"), *rest),
        *(("--push-to-hub", args.repo) if args.repo else ()),
    ]
    run = subprocess.Popen(command)
    # A job that is stopped gets SIGTERM: rpd then finishes what is in flight.
    signal.signal(signal.SIGTERM, lambda *_: run.send_signal(signal.SIGTERM))
    ended = threading.Event()

    def copy_now_and_then() -> None:
        while not ended.wait(SECONDS_BETWEEN_COPIES):
            copy_back(store, args.volume)

    copying = threading.Thread(target=copy_now_and_then)
    copying.start()
    try:
        return run.wait()
    finally:
        ended.set()
        copying.join()
        copy_back(store, args.volume)


if __name__ == "__main__":
    sys.exit(main())
