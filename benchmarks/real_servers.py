"""The whole client against real vLLM with a real, if small, model: `make real-servers`.

    python benchmarks/real_servers.py --vllm build/real-servers [--limit 6] [--tokens 200]

Serves SmolLM2-135M-Instruct and all-MiniLM-L6-v2 with vLLM on this machine's CPU and runs `rpd`
against them as a user would: curate with and without guided decoding, the same killed twice with
SIGKILL and gone on, a judge, embeddings beside the packaged encoder's, and pass@k. Prints one table
and the health line of each run, and asks vLLM's own /metrics twice a second how many of its slots
were busy. Not part of `make test`: it needs 3.4 GB of packages and half an hour of two cores.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from tabulate import tabulate

from parts.kill_loop import contents
from parts.rows import write_rows
from parts.smollm2 import NAME, missing, smollm2
from parts.transformers_serve import served
from rpd_metric.models.sentence_transformer import minilm_path
from rpd_metric.models.spec import load_embedder

SLOTS = 16
CHAT = (
    *("--dtype", "bfloat16", "--max-model-len", "8192"),
    *("--max-num-seqs", str(SLOTS), "--enforce-eager"),
)
POOLING = ("--runner", "pooling", "--dtype", "float32")
KILL_AFTER = 45.0
RUNNING = re.compile(r"^vllm:num_requests_running\S* ([\d.]+)", re.MULTILINE)


def serving(
    vllm: Path, model: Path, name: str, options: tuple[str, ...], log: Path
) -> AbstractContextManager[str]:
    """Serve a model folder; gives the server's root URL."""
    command = [vllm / "bin" / "vllm", "serve", model, *options, "--served-model-name", name]
    return served(
        command,
        log,
        seconds=600,
        VLLM_TARGET_DEVICE="cpu",
        VLLM_CPU_KVCACHE_SPACE="2",
        VLLM_NO_USAGE_STATS="1",
    )


class Trial:
    """One command after the other, each a row of the table."""

    def __init__(self, folder: Path, chat: str, args: argparse.Namespace) -> None:
        self.folder, self.chat, self.args = folder, chat, args
        self.spec = f"openai:{chat}/v1#{NAME}"
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        """Keep a line for below the table, and say it at once."""
        self.notes.append(line)
        print(line, file=sys.stderr, flush=True)

    def command(self, name: str, *options: str) -> list[str]:
        """`rpd curate` with a store of its own."""
        return [
            *(sys.executable, "-m", "rpd_datasets.cli", "curate", "sample", "--seed", "0"),
            *("--limit", str(self.args.limit), "--num-problems", "4", "--num-solutions", "2"),
            *("--summarizer", self.spec, "--max-tokens", str(self.args.tokens)),
            *("--store", str(self.folder / f"{name}.sqlite"), "--keep-going"),
            *("--output", str(self.folder / name), *options),
        ]

    def run(self, label: str, command: list[str]) -> str:
        """Run a command to its end and note what it took; gives the error of one that failed."""
        began, seen = time.monotonic(), [0.0]
        with tempfile.TemporaryFile("w+") as messages:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages)
            while process.poll() is None:
                time.sleep(0.5)
                gauge = RUNNING.search(httpx2.get(f"{self.chat}/metrics").text)
                seen.append(float(gauge[1]) / SLOTS if gauge else 0.0)
            messages.seek(0)
            output = messages.read()
        row = {
            "run": label,
            "exit": process.returncode,
            "seconds": round(time.monotonic() - began, 1),
            "slots busy": f"{statistics.fmean(seen):.1%}",
        }
        for name, pattern in (
            ("requests", r"([\d,]+) requests: "),
            ("new tokens", r"and ([\d,]+) new tokens"),
            ("looped", r"([\d,]+) replies looped"),
        ):
            match = re.search(pattern, output)
            row[name] = match[1] if match else None
        self.rows.append(row)
        print(row, file=sys.stderr, flush=True)  # the table comes at the end, minutes later
        # The error comes before the line that names the command's help.
        error = " ".join(output.strip().splitlines()[-2:]) if process.returncode else ""
        if error:
            self.note(f"{label}: {error}")
        return error

    def curate(self, label: str, name: str, *options: str) -> None:
        """A whole run, with what became of its summaries and of its groupings."""
        self.run(label, self.command(name, *options))
        manifest = self.folder / name / "manifest.json"
        if manifest.exists():
            outcome = json.loads(manifest.read_text())["outcome"]
            self.note(f"{label}: {json.dumps([outcome['steps'], outcome['strategies']])}")

    def killed(self, label: str, name: str) -> None:
        """A run killed twice and gone on; compared with an undisturbed one from its replies.

        From its replies, because a server that batches does not repeat itself to the last digit.
        """
        for _ in range(2):
            with suppress(subprocess.TimeoutExpired):  # a run that takes longer meets SIGKILL
                subprocess.run(
                    self.command(name, "--guided"),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=KILL_AFTER,
                )
        went_on = self.run(label, self.command(name, "--guided"))
        again = self.command(name, "--guided")
        again[again.index("--output") + 1] = str(self.folder / f"{name}-again")
        undisturbed = self.run(f"{label}, from its replies", again)
        compared = same(self.folder / name, self.folder / f"{name}-again")
        if went_on != undisturbed:
            compared = "DIFFERENT messages"
        self.note(f"{label}: {compared}")


def same(first: Path, second: Path) -> str:
    """Whether two runs left the same files with the same bytes.

    Where nothing could be chosen that is what they rejected, with the reasons.
    """
    if not first.exists() and not second.exists():
        first, second = (folder.with_name(f"{folder.name}.partial") for folder in (first, second))
        left, right = (
            {file.name: file.read_bytes() for file in folder.glob("rejects-*.jsonl")}
            for folder in (first, second)
        )
    else:
        left, right = contents(first), contents(second)
    if not left or left != right:
        unequal = [name for name in left | right if left.get(name) != right.get(name)]
        return f"DIFFERENT: {unequal}"
    return f"byte-equal: {', '.join(left)}, {sum(map(len, left.values())):,} bytes"


def embeddings(url: str) -> str:
    """How far vLLM's vectors are from the packaged encoder's, and that over-long texts are met."""
    texts = [f"Step {number}: bound the remainder by lemma {number % 7}." for number in range(200)]
    server = load_embedder(f"openai:{url}/v1#minilm")
    apart = np.abs(server.encode(texts) - load_embedder("minilm").encode(texts)).max()
    long = np.isfinite(server.encode(["word " * 3000, "short"])).all(axis=1).sum()
    cut = getattr(server, "texts_cut", None)
    return (
        f"largest difference to minilm over {len(texts)} texts: {apart:.1e}; of a long and a short "
        f"text {cut} cut, {long} with a vector"
    )


def pass_at_k(trial: Trial) -> list[str]:
    """pass@k of two problems by the same server."""
    # As many as AIME has; two of them are asked.
    rows = ({"ID": str(n), "Problem": f"What is {n} + 3?", "Answer": n + 3} for n in range(30))
    tasks = write_rows(trial.folder / "tasks.jsonl", rows)
    return [
        *(sys.executable, "recipes/passk.py", "run", "--benchmark", "aime24", "--data", str(tasks)),
        *("--model", trial.spec, "--samples", "4", "--runs", "1", "--limit", "2"),
        *("--max-tokens", "100", "--name", "smollm2", "--output", str(trial.folder / "passk")),
    ]


# Run by the environment with vLLM: the same seed gives the same text, on whatever loop; a schema
# holds; a foreign solution surprises, as much as through transformers; what does not fit the
# context is an error of its own.
_IN_PROCESS = """
import asyncio, json, sys
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import ChatRequest, Sampling
from rpd_metric.models.spec import load_chat
from rpd_metric.steps.chat_summarizer import steps_schema

if __name__ == "__main__":
    chat = load_chat("vllm:" + sys.argv[1])
    def ask(text, schema=None, **sampling):
        one = ChatRequest(({"role": "user", "content": text},), Sampling(**sampling), schema)
        return asyncio.run(chat(one))
    one, two = (ask("Name a number.", max_tokens=16, temperature=0.8, seed=1) for _ in range(2))
    assert one.text == two.text, (one, two)
    guided = ask("Solve x = 1.", steps_schema(), max_tokens=400, seed=2)
    assert guided.finish_reason == "length" or json.loads(guided.text)["logical_steps"]
    asked = "A box holds 27 pencils. How many pencils are in 6 boxes?"
    texts = ("There are 27 x 6 = 162 pencils.", "Es sind 27 x 6 = 162 Stifte.")
    plain, foreign = (chat.surprise(asked, text) for text in texts)
    student = load_chat("hf:" + sys.argv[1])
    away = max(abs(chat.surprise(asked, text) - student.surprise(asked, text)) for text in texts)
    assert 0 < plain < foreign and away < 0.05, (plain, foreign, away)
    try:
        ask("word " * 9000, max_tokens=16)
    except ModelError as error:
        print(f"in process: seeds, schema, surprise ({away:.3f} apart), context:", error)
"""


def in_process(vllm: Path, model: Path, folder: Path) -> str:
    """`vllm:FOLDER`, by the environment that has vLLM."""
    script = folder / "in_process.py"  # a file, because vLLM's workers import it
    script.write_text(_IN_PROCESS)
    settings = {"max_model_len": 8192, "max_num_seqs": 4, "enforce_eager": True}
    done = subprocess.run(
        [vllm / "bin" / "python", script, model],
        env=os.environ
        | {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "RPD_VLLM_ARGS": json.dumps(settings),
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_CPU_KVCACHE_SPACE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("in process")]
    return lines[0] if lines else f"in process: FAILED\n{done.stderr[-2000:]}"


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vllm", type=Path, required=True, help="environment with vLLM for CPUs")
    parser.add_argument("--limit", type=int, default=6, help="problems of the packaged sample")
    parser.add_argument("--tokens", type=int, default=200, help="of a summary")
    args = parser.parse_args()
    if lacking := missing():
        raise SystemExit(lacking)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with serving(args.vllm, smollm2(), NAME, CHAT, folder / "chat.log") as chat:
            trial = Trial(folder, chat, args)
            trial.curate("curate", "undisturbed")
            trial.curate("curate --guided", "guided", "--guided")
            trial.killed("guided, killed twice, gone on", "killed")
            judge = [
                *(sys.executable, "-m", "rpd_datasets.cli", "judge", "sample", "--limit", "6"),
                *("--judge", trial.spec, "--task", "problems"),
                *("--store", str(folder / "judge.sqlite")),
            ]
            trial.run("judge", judge)
            trial.run("pass@k", pass_at_k(trial))
        with serving(args.vllm, minilm_path(), "minilm", POOLING, folder / "emb.log") as url:
            trial.note(f"embeddings: {embeddings(url)}")
        trial.note(in_process(args.vllm, smollm2(), folder))
        print(tabulate(trial.rows, headers="keys"), "", *trial.notes, sep="\n")


if __name__ == "__main__":
    main()
