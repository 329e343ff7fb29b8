"""What `rpd curate` costs beside its encoder, and the encoder beside `SentenceTransformer.encode`.

    python benchmarks/whole_curation.py [FILE] [--problems N] [--tiny N]

FILE is JSONL with `problem` and `solutions`; left out, it is the real solutions beside the
repository where they are, and the packaged sample otherwise. Three ways, interleaved in one run,
with minilm on one core, models loaded before:

- `encode`: `SentenceTransformer.encode` of all distinct texts of all problems in one call, as it is
  by default;
- `encoder`: this project's encoder on the same texts, problem by problem, as curation calls it;
- `curate`: the whole of `curate_dataset`, from the file to the written folder.

Choices are compared with those of a run whose vectors come from `SentenceTransformer.encode`.
Goals: `curate` at most 1.15 times `encode`, `encoder` twice as fast as `encode`, equal choices.
`--tiny N` times the whole for N problems with four solutions of a dozen words: goal 400 a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch read them

import numpy as np
from machine import machine, markdown

from rpd_datasets import CurationConfig, FilterConfig, curate_dataset
from rpd_datasets.curation.models import Models
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.tokens import token_counter
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.kinds import load_embedder
from rpd_metric.models.sentence_transformer import SentenceTransformerEmbedder, minilm_path
from rpd_metric.steps.extractive import ExtractiveSummarizer

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "data" / "multi_solution" / "candidates.jsonl"
WAYS = ("encode", "encoder", "curate")


class Recorded:
    """An encoder that remembers what it was asked, call by call."""

    def __init__(self, encode: Callable[[Sequence[str]], Any]) -> None:
        self.name = "minilm"
        self.calls: list[list[str]] = []
        self._encode = encode

    def encode(self, texts: Sequence[str]) -> Any:
        """Encode, and remember."""
        self.calls.append(list(texts))
        return self._encode(texts)


def measure(source: str, problems: int, rounds: int) -> dict[str, Any]:
    """Seconds of CPU and of the clock for each way: the best of some rounds."""
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(minilm_path()), device="cpu")
    ours = SentenceTransformerEmbedder("minilm", str(minilm_path()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        def curate(name: str, embedder: Embedder) -> dict[str, list[int]]:
            ours.forget()
            curated = curate_dataset(
                source,
                folder / name,
                CurationConfig(num_problems=problems, filters=FilterConfig(require_complete=False)),
                spec=InputSpec(limit=problems),
                models=Models(ExtractiveSummarizer(), embedder, token_counter("estimate")),
                overwrite=True,
            )
            return dict(zip(curated.dataset["problem"], curated.dataset["selected"], strict=True))

        recorded = Recorded(
            lambda texts: plain.encode(list(texts), show_progress_bar=False, prompt="")
        )
        expected = curate("plain", recorded)
        texts = list(dict.fromkeys(text for call in recorded.calls for text in call))
        found = curate("ours", ours)  # draws figures once, too, so that fonts are read

        def encoder() -> None:
            ours.forget()
            for call in recorded.calls:
                ours.encode(call)

        calls: dict[str, Callable[[], object]] = {
            "encode": lambda: plain.encode(texts, show_progress_bar=False, prompt=""),
            "encoder": encoder,
            "curate": lambda: curate("ours", ours),
        }
        cpu = dict.fromkeys(WAYS, float("inf"))
        wall = dict(cpu)
        for _ in range(rounds):
            for way in WAYS:
                began, spent = time.perf_counter(), time.process_time()
                calls[way]()
                wall[way] = min(wall[way], time.perf_counter() - began)
                cpu[way] = min(cpu[way], time.process_time() - spent)
        tokens = plain.tokenizer(texts, truncation=True, max_length=plain.max_seq_length)
    return {
        "problems": len(found),
        "texts": len(texts),
        "tokens": sum(map(len, tokens["input_ids"])),
        "cpu": cpu,
        "wall": wall,
        "equal_choices": sum(found[name] == expected.get(name) for name in found),
        "equal_order": list(found) == list(expected),
    }


def tiny(problems: int) -> dict[str, Any]:
    """Problems with four solutions of a dozen words, with the encoder and without."""

    class Random:
        name = "random"

        def encode(self, texts: Sequence[str]) -> Any:
            """Vectors that cost nothing."""
            return np.random.default_rng(0).standard_normal((len(texts), 384)).astype(np.float32)

    rates = {}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "tiny.jsonl"
        with file.open("w", encoding="utf-8") as rows:
            for n in range(problems):
                solutions = [
                    f"Attempt {i} at problem {n}. Work it out. The answer is {n}." for i in range(4)
                ]
                rows.write(json.dumps({"problem": f"Problem {n}", "solutions": solutions}) + "\n")
        for name, embedder in (
            ("without its encoder", Random()),
            ("whole", load_embedder("minilm")),
        ):
            models = Models(ExtractiveSummarizer(), embedder, token_counter("estimate"))
            config = CurationConfig(num_problems=50, filters=FilterConfig(require_complete=False))
            began = time.process_time()
            curate_dataset(str(file), Path(scratch) / name, config, models=models)
            rates[name] = problems / (time.process_time() - began)
    return rates


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="JSONL with problems and solutions")
    parser.add_argument("--problems", type=int, default=40, help="the first so many")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    parser.add_argument("--tiny", type=int, metavar="N", help="time N tiny problems instead")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    about = machine(["torch", "sentence-transformers"])
    if options.tiny:
        rates = tiny(options.tiny)
        said = ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items())
        print(f"{about}; {options.tiny:,} tiny problems, per second of CPU: {said}")
        return 0
    file = options.file or (REAL if REAL.is_file() else None)
    if file is not None and not file.is_file():
        print(f"{file} is not a file; pass JSONL, or nothing", file=sys.stderr)
        return 2
    found = measure("sample" if file is None else str(file), options.problems, options.rounds)
    cpu, wall = found["cpu"], found["wall"]
    table: list[dict[str, object]] = [
        {
            "way": way,
            "CPU s": f"{cpu[way]:.2f}",
            "seconds": f"{wall[way]:.2f}",
            "CPU time / encode": f"{cpu[way] / cpu['encode']:.2f}",
        }
        for way in WAYS
    ]
    print(
        f"{about}; minilm, {found['problems']} problems, {found['texts']:,} distinct texts, "
        f"{found['tokens']:,} tokens\n\n{markdown(table)}\n\n"
        f"encode / encoder: {cpu['encode'] / cpu['encoder']:.2f}. Equal choices in "
        f"{found['equal_choices']} of {found['problems']} problems, problems in "
        f"{'the same' if found['equal_order'] else 'another'} order"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
