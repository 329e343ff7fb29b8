# /// script
# requires-python = ">=3.11"
# dependencies = ["rpd-metric[grading,servers,vllm]"]
# ///
"""pass@k inside a Hugging Face Job: vLLM in the job, replies and results on a mounted volume.

    hf jobs uv run --flavor a100-large --timeout 8h --secrets HF_TOKEN \
        -v hf://buckets/USER/rpd:/bucket recipes/jobs/passk.py \
        qwen3-4b-base/passk/aime24.yaml --run diverse-1p3s --model USER/qwen3-4b-diverse \
        --repository https://github.com/OWNER/REPOSITORY

A job that is killed is started again with the same line: the replies are copied to the volume every
minute and when the job ends, and the next one goes on from them. Samples, verdicts, results and
report end in a folder named after the run and the benchmark. Options that this script does not
know go to `recipes/passk.py run`, and a configuration is found below `recipes/configs`. Both come
from the repository, which is cloned; where this script lies in it, nothing is. Where the package is
not on an index, add `--with git+https://github.com/OWNER/REPOSITORY`.

Runs on any machine: `python recipes/jobs/passk.py qwen3-4b-base/passk/aime24.yaml --run test --spec
openai:http://localhost:8000/v1#NAME --volume out`. Not run on Jobs so far; tested as the script
that it is.
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
    """This script's options, and those of `recipes/passk.py run`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", help="below recipes/configs, or a path")
    parser.add_argument("--run", required=True, help="what tables and folders call the model")
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument("--model", help="served by vLLM in this process")
    models.add_argument("--spec", help="another model, e.g. openai:URL#NAME or hf:FOLDER")
    parser.add_argument("--repository", help="where the recipes are cloned from")
    parser.add_argument("--revision", help="of the repository: a branch or a tag")
    parser.add_argument(
        "--volume", type=Path, default=Path("/bucket"), help="what outlives the job"
    )
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of this machine")
    return parser.parse_known_args(given)


def recipes(args: argparse.Namespace) -> Path:
    """The folder of the recipes: around this script, or cloned."""
    around = Path(__file__).resolve().parents[1]
    if (around / "passk.py").is_file():
        return around
    if not args.repository:
        raise SystemExit("passk.py: name the repository of the recipes with --repository URL")
    clone = args.work / "repository"
    if not clone.exists():
        branch = ("--branch", args.revision) if args.revision else ()
        subprocess.run(
            ["git", "clone", "--depth", "1", *branch, args.repository, clone], check=True
        )
    return Path(clone / "recipes")


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
    """Fetch the store, sample, grade and report; returns the exit status of `recipes/passk.py`."""
    args, rest = arguments(given)
    args.work.mkdir(parents=True, exist_ok=True)
    scripts = recipes(args)
    config = scripts / "configs" / args.config
    config = config if config.is_file() else Path(args.config)
    store = args.work / f"{args.run}.sqlite"
    output = args.work / args.run / config.stem
    if not store.exists() and (args.volume / store.name).exists():
        shutil.copyfile(args.volume / store.name, store)
    command = [
        *(sys.executable, str(scripts / "passk.py"), "run", "--config", str(config)),
        *("--model", args.spec or f"vllm:{args.model}", "--name", args.run),
        *("--store", str(store), "--output", str(output), *rest),
    ]
    run = subprocess.Popen(command)
    # A job that is stopped gets SIGTERM: what is in flight is then finished.
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
        if output.exists():
            kept = args.volume / args.run / config.stem
            shutil.copytree(output, kept, dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
