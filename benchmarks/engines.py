"""Scoring by this process, by worker processes and by Ray actors.

    python benchmarks/engines.py

All engines score the same problems (the packaged sample, repeated under new names) with models
that run here (`extractive`, `minilm`), each in a process that has not loaded them yet, one thread
each. `start` is what an engine takes for one problem, mostly for loading models: it is what
processes and actors have to win back.

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

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["RAY_AUTH_MODE"] = "disabled"  # nobody else is on this cluster

from machine import machine, markdown

ENGINES = {
    "this process": [],
    "--num-proc 2": ["--num-proc", "2"],
    "--engine ray --num-proc 2": ["--engine", "ray", "--num-proc", "2"],
}


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


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=200, help="problems that are scored")
    args = parser.parse_args()
    print(machine(("torch", "sentence-transformers", "ray")), flush=True)
    print(f"\n{args.problems} problems of 6 solutions\n")
    print(markdown(engines(args.problems)))


if __name__ == "__main__":
    main()
