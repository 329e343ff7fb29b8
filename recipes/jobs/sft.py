# /// script
# requires-python = ">=3.11"
# dependencies = ["rpd-metric[training]"]
# ///
"""Supervised fine-tuning inside a Hugging Face Job: the run's checkpoints on a mounted volume.

    hf jobs uv run --flavor a100-large --timeout 12h --secrets HF_TOKEN \
        -v hf://buckets/USER/rpd:/bucket recipes/jobs/sft.py \
        qwen3-4b-base/sft/rpd_1p3s.yaml --run diverse-1p3s \
        --repository https://github.com/OWNER/REPOSITORY \
        --data USER/diverse-math --push_to_hub true --hub_model_id USER/qwen3-4b-diverse

A job that is killed is started again with the same line: the newest whole checkpoint is copied to
the volume once a minute, and the next job goes on from it. Options that this script does not know
go to `recipes/sft.py`, and a configuration is found below `recipes/configs`. Both come from the
repository, which is cloned; where this script lies in it, nothing is. Where the package is not on
an index, add `--with git+https://github.com/OWNER/REPOSITORY`.

Runs on any machine: `python recipes/jobs/sft.py tiny/sft.yaml --run test --data FILE --volume out
--model_name_or_path FOLDER`. Not run on Jobs so far; tested as the script that it is.
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
    """This script's options, and those of `recipes/sft.py`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", help="below recipes/configs, or a path")
    parser.add_argument("--run", required=True, help="names the run's folder on the volume")
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
    if (around / "sft.py").is_file():
        return around
    if not args.repository:
        raise SystemExit("sft.py: name the repository of the recipes with --repository URL")
    clone = args.work / "repository"
    if not clone.exists():
        branch = ("--branch", args.revision) if args.revision else ()
        subprocess.run(
            ["git", "clone", "--depth", "1", *branch, args.repository, clone], check=True
        )
    return Path(clone / "recipes")


def copy_whole(source: Path, target: Path) -> None:
    """Put a copy of a file or folder where the next job finds it, whole or not at all."""
    partial = target.with_name(f"{target.name}.partial")
    if source.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial)
        shutil.rmtree(target, ignore_errors=True)
    else:
        shutil.copyfile(source, partial)
    os.replace(partial, target)


def copy_back(output: Path, kept: Path) -> None:
    """Keep the newest whole checkpoint and the run's own files, and nothing older."""
    from rpd_datasets.training.record import last_checkpoint

    if not output.exists():
        return
    kept.mkdir(parents=True, exist_ok=True)
    newest = last_checkpoint(output)
    if newest is not None and not (kept / newest.name).exists():
        copy_whole(newest, kept / newest.name)
        for older in kept.glob("checkpoint-*"):
            if older.name != newest.name:
                shutil.rmtree(older)
    for file in output.iterdir():
        if file.is_file() and not file.name.endswith(".partial"):
            copy_whole(file, kept / file.name)


def main(given: Sequence[str] | None = None) -> int:
    """Fetch the run, train, and put it back; returns the exit status of `recipes/sft.py`."""
    args, rest = arguments(given)
    args.work.mkdir(parents=True, exist_ok=True)
    scripts = recipes(args)
    config = scripts / "configs" / args.config
    output, kept = args.work / args.run, args.volume / args.run
    if not output.exists() and kept.exists():
        shutil.copytree(kept, output, ignore=shutil.ignore_patterns("*.partial"))
    command = [
        *(sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"),
        *(str(scripts / "sft.py"), "--config", str(config if config.is_file() else args.config)),
        *("--output_dir", str(output), *rest),
    ]
    run = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: run.send_signal(signal.SIGTERM))
    ended = threading.Event()

    def copy_now_and_then() -> None:
        while not ended.wait(SECONDS_BETWEEN_COPIES):
            copy_back(output, kept)

    copying = threading.Thread(target=copy_now_and_then)
    copying.start()
    try:
        return run.wait()
    finally:
        ended.set()
        copying.join()
        copy_back(output, kept)


if __name__ == "__main__":
    sys.exit(main())
