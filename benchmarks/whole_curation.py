"""What `rpd curate` costs beside its encoder, and the encoder beside `SentenceTransformer.encode`.

    python benchmarks/whole_curation.py [--source FILE] [--problems N]

FILE is JSONL with `problem` and `solutions`: the real solutions beside the repository where they
are, and the packaged sample otherwise. Three ways, interleaved in one run,
with minilm on one core, models loaded before:

- `encode`: `SentenceTransformer.encode` of all distinct texts of all problems in one call, as it is
  by default;
- `encoder`: this project's encoder on the same texts, problem by problem, as curation calls it;
- `curate`: the whole of `curate_dataset`, from the file to the written folder.

Choices are compared with those of a run whose vectors come from `SentenceTransformer.encode`.
Goals: `curate` at most 1.15 times `encode`, `encoder` twice as fast as `encode`, equal choices.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch read them

from machine import machine, markdown

from rpd_datasets import CurationConfig, FilterConfig, curate_dataset
from rpd_datasets.curation.models import Models
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.tokens import token_counter
from rpd_metric.models.embedders import Embedder
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
        figures = curate("ours", ours)  # draws figures once, too, so that fonts are read

        def encoder() -> None:
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
        "problems": len(figures),
        "texts": len(texts),
        "tokens": sum(map(len, tokens["input_ids"])),
        "cpu": cpu,
        "wall": wall,
        "equal_choices": sum(figures[name] == expected.get(name) for name in figures),
        "equal_order": list(figures) == list(expected),
    }


def main() -> None:
    """Measure and print."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = str(REAL) if REAL.is_file() else "sample"
    parser.add_argument("--source", default=default, help="JSONL with problems and solutions")
    parser.add_argument("--problems", type=int, default=40, help="the first so many")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = machine(["torch", "sentence-transformers"])
    figures = measure(options.source, options.problems, options.rounds)
    cpu, wall = figures["cpu"], figures["wall"]
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
        f"{about}; minilm, {figures['problems']} problems, {figures['texts']:,} distinct texts, "
        f"{figures['tokens']:,} tokens\n\n{markdown(table)}\n\n"
        f"encode / encoder: {cpu['encode'] / cpu['encoder']:.2f}. Equal choices in "
        f"{figures['equal_choices']} of {figures['problems']} problems, problems in "
        f"{'the same' if figures['equal_order'] else 'another'} order"
    )


if __name__ == "__main__":
    main()
