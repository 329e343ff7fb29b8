"""What `rpd curate` costs beside its encoders, and beside `SentenceTransformer.encode`.

    python benchmarks/whole_curation.py [--source FILE] [--problems N] [--all-cores]

FILE is JSONL with `problem` and `solutions`: the real solutions beside the repository where they
are, and the packaged sample otherwise. All ways encode the same texts, those that curation by the
default distance encodes: steps by minilm, pieces by taught.

On one core, models loaded before, interleaved in one process:

- `encode`: `SentenceTransformer.encode` of all distinct texts of all problems in one call, as it is
  by default;
- `encoder`: this project's encoders on the same texts, problem by problem, as curation calls them;
- `curate`: the whole of `curate_dataset`, from the file to the written folder.

Choices are compared with those of a run whose vectors come from `SentenceTransformer.encode`.
Goals: `curate` at most 1.15 times `encode`, `encoder` twice as fast as `encode`, equal choices.

With `--all-cores`, each in a process of its own, from start to end, models loaded on the way: the
command `rpd curate` as it is by default (from 200 problems on, a process for each core), in one
process and on Ray, and `encode` on as many threads, or in as many processes of one thread, as there
are cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
if "--all-cores" not in sys.argv and "--encode" not in sys.argv:
    os.environ |= ONE_THREAD  # before numpy and torch read them

import numpy as np
from machine import machine, markdown

from rpd_datasets import CurationConfig, FilterConfig, curate_dataset
from rpd_datasets.curation.models import Models
from rpd_datasets.inputs.source import InputSpec
from rpd_datasets.tokens import token_counter
from rpd_metric.models.sentence_transformer import minilm_path
from rpd_metric.models.spec import Embedder, load_embedder
from rpd_metric.steps.extractive import ExtractiveSummarizer

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "data" / "multi_solution" / "candidates.jsonl"
ENCODERS = ("minilm", "taught")
Texts = Mapping[str, Sequence[str]]


class Recorded:
    """An encoder that remembers what it was asked, call by call."""

    def __init__(self, name: str, encode: Callable[[Sequence[str]], Any]) -> None:
        self.name = name
        self.calls: list[list[str]] = []
        self._encode = encode

    def encode(self, texts: Sequence[str]) -> Any:
        """Encode, and remember."""
        self.calls.append(list(texts))
        return self._encode(texts)

    @property
    def texts(self) -> list[str]:
        """All that it was asked, each once."""
        return list(dict.fromkeys(text for call in self.calls for text in call))


def curate(
    source: str, output: Path, problems: int, encoders: Mapping[str, Embedder]
) -> dict[str, list[int]]:
    """Curate in this process; returns what was selected of each problem."""
    config = CurationConfig(num_problems=problems, filters=FilterConfig(require_complete=False))
    models = Models(ExtractiveSummarizer(), encoders["minilm"], token_counter("estimate"))
    with patch("rpd_metric.measure.load_embedder", lambda name, **_: encoders[name]):
        spec = InputSpec(limit=problems)
        curated = curate_dataset(source, output, config, spec=spec, models=models, overwrite=True)
    return dict(zip(curated.dataset["problem"], curated.dataset["selected"], strict=True))


def plain_encoders() -> dict[str, Callable[[Sequence[str]], Any]]:
    """`SentenceTransformer.encode` of both encoders."""
    from sentence_transformers import SentenceTransformer

    from rpd_metric.models.minilm import read_changes

    models = {name: SentenceTransformer(str(minilm_path()), device="cpu") for name in ENCODERS}
    weights = dict(models["taught"][0].auto_model.named_parameters())
    for name, change in read_changes().items():
        weights[name].data += change

    def encode(name: str) -> Callable[[Sequence[str]], Any]:
        return lambda texts, **options: models[name].encode(
            list(texts), show_progress_bar=False, prompt="", **options
        )

    return {name: encode(name) for name in ENCODERS}


def on_one_core(source: str, problems: int, rounds: int, scratch: Path) -> str:
    """The table of the three ways, and whether choices agree."""
    import torch

    torch.set_num_threads(1)
    encode = plain_encoders()
    ours = {name: load_embedder(name) for name in ENCODERS}
    recorded = {name: Recorded(name, encode[name]) for name in ENCODERS}
    expected = curate(source, scratch / "plain", problems, recorded)
    selected = curate(source, scratch / "ours", problems, ours)  # figures are drawn once: fonts
    ways = {
        "encode": lambda: [encode[name](of.texts) for name, of in recorded.items()],
        "encoder": lambda: [
            ours[name].encode(call) for name, of in recorded.items() for call in of.calls
        ],
        "curate": lambda: curate(source, scratch / "ours", problems, ours),
    }
    table = best_of(ways, rounds, "CPU s")
    equal = sum(selected[name] == expected.get(name) for name in selected)
    order = "the same" if list(selected) == list(expected) else "another"
    counts = ", ".join(f"{len(of.texts):,} by {name}" for name, of in recorded.items())
    return (
        f"one core, {len(selected)} problems, distinct texts: {counts}\n\n{table}\n\n"
        f"Equal choices in {equal} of {len(selected)} problems, problems in {order} order"
    )


def on_all_cores(source: str, problems: int, rounds: int, scratch: Path) -> str:
    """The table of the command and of `encode`, each from start to end."""
    rng = np.random.default_rng(0)
    # Which texts are encoded does not depend on their vectors.
    recorded = {
        name: Recorded(name, lambda texts: rng.random((len(texts), 8))) for name in ENCODERS
    }
    curate(source, scratch / "recorded", problems, recorded)
    texts = scratch / "texts.json"
    texts.write_text(json.dumps({name: of.texts for name, of in recorded.items()}))
    cores = len(os.sched_getaffinity(0))
    ray = ["--engine", "ray", "--num-proc", str(cores)]
    rpd = [sys.executable, "-m", "rpd_datasets.cli", "curate", source, "--limit", str(problems)]
    rpd += ["--no-require-complete", "--num-problems", str(problems), "--overwrite"]
    rpd += ["--output", str(scratch / "out")]
    own = [sys.executable, __file__, "--encode", str(texts)]

    def run(command: list[str], env: Mapping[str, str]) -> None:
        subprocess.run(command, env=os.environ | env, check=True, capture_output=True)

    ways = {
        "encode, threads": lambda: run(own, {"OMP_NUM_THREADS": str(cores)}),
        "encode, processes": lambda: run([*own, "--num-proc", str(cores)], ONE_THREAD),
        "rpd curate": lambda: run(rpd, {}),
        "rpd curate --num-proc 1": lambda: run([*rpd, "--num-proc", "1"], {}),
        "rpd curate --engine ray": lambda: run([*rpd, *ray], {"RAY_AUTH_MODE": "disabled"}),
    }
    return f"{cores} cores, {problems} problems\n\n{best_of(ways, rounds, 'seconds')}"


def best_of(ways: Mapping[str, Callable[[], object]], rounds: int, compared: str) -> str:
    """The best of some rounds of each way, interleaved; one column is beside the first way's."""
    best = {way: {"CPU s": float("inf"), "seconds": float("inf")} for way in ways}
    for _ in range(rounds):
        for way, call in ways.items():
            before = os.times()
            call()
            *cpu, seconds = (after - was for after, was in zip(os.times(), before, strict=True))
            for name, value in (("CPU s", sum(cpu)), ("seconds", seconds)):
                best[way][name] = min(best[way][name], value)
    first, title = next(iter(best.values()))[compared], f"{compared} / {next(iter(best))}"
    rows = ({**figures, title: figures[compared] / first} for figures in best.values())
    return markdown(
        [
            {"way": way, **{name: f"{value:.2f}" for name, value in row.items()}}
            for way, row in zip(best, rows, strict=True)
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = str(REAL) if REAL.is_file() else "sample"
    parser.add_argument("--source", default=default, help="JSONL with problems and solutions")
    parser.add_argument("--problems", type=int, help="the first so many (40; 400 on all cores)")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    parser.add_argument("--all-cores", action="store_true", help="the command, from start to end")
    parser.add_argument("--encode", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--num-proc", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.encode:
        pool = {"device": ["cpu"] * options.num_proc} if options.num_proc > 1 else {}
        encode = plain_encoders()
        for name, texts in json.loads(options.encode.read_text()).items():
            encode[name](texts, **pool)
        return
    problems = options.problems or (400 if options.all_cores else 40)
    measure = on_all_cores if options.all_cores else on_one_core
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(options.source, problems, options.rounds, Path(scratch))
    print(f"{machine(['torch', 'sentence-transformers'])}; {figures}")


if __name__ == "__main__":
    main()
