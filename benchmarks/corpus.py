"""How does curation grow with the corpus? Time and memory from 1,000 to 53,125 problems.

    python benchmarks/corpus.py [--sizes 1000 10000 53125] [--quick]

A synthetic corpus shaped like OpenThoughts3's mathematics (53,125 problems with 16 solutions, one
row each, in random order) goes through `curate_folder`: grouping, filters, a prompt per solution,
the flow of requests, the store of replies, the parser, embeddings, distances, ranking, selection
and writing. The models are stand-ins that answer at once, so that what is measured is the pipeline.
Every figure comes from a process of its own; memory is the most that was resident in it.

Beside it, in the same run: how long minilm would take for the same distinct steps on one thread,
from its speed on a sample of them.

Goals: memory under 2 GB and flat; time per problem within 10 % between sizes; the pipeline under
10 % of the time of embedding with minilm.

`python benchmarks/corpus.py` with the default sizes takes about half an hour on 2 idle cores
and 5 GB of disk; `--quick` a minute or two.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before numpy loads its BLAS

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from machine import machine, markdown, peak_memory
from synthetic import LAYOUTS, SOLUTIONS, Corpus, HashingEmbedder, InstantChat

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.run import curate_folder
from rpd_datasets.inputs.source import open_source
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import RPDError
from rpd_metric.models.flow import Flow
from rpd_metric.models.store import ReplyStore
from rpd_metric.steps.chat_summarizer import ChatSummarizer
from rpd_metric.steps.extractive import ExtractiveSummarizer

SIZES = (1000, 10_000, 53_125)
QUICK = (100, 400)
MINILM_TEXTS = 512
Figures = dict[str, Any]


def generate(options: argparse.Namespace, folder: Path) -> Figures:
    """Write the corpus."""
    _corpus(options).write(folder / "corpus.parquet", options.layout)
    return {"bytes": (folder / "corpus.parquet").stat().st_size}


def curate(options: argparse.Namespace, folder: Path) -> Figures:
    """Run the pipeline."""
    embedder = HashingEmbedder()
    config = CurationConfig(
        problems="rpd",
        solutions="rpd",
        num_problems=options.num_problems,
        num_solutions=options.num_solutions,
    )
    with ReplyStore(folder / "replies.sqlite") as store:
        summarizer: Any = ExtractiveSummarizer()
        if options.summarizer == "chat":
            summarizer = ChatSummarizer(Flow(InstantChat(_corpus(options)), store=store))
        models = Models(summarizer, embedder, token_counter("estimate"))
        began, cpu = time.perf_counter(), time.process_time()
        corpus = folder / "corpus.parquet"
        report = curate_folder(
            [
                (
                    lambda scratch, reject: open_source(corpus, scratch=scratch, on_reject=reject),
                    config.num_problems,
                )
            ],
            folder / "curated",
            config,
            models,
            describe=lambda _: {},
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "seconds": seconds,
        "cpu": cpu,
        "problems": len(report.scores),
        "usable": sum(score.num_usable for score in report.scores),
        "encoded": embedder.texts,
    }


def minilm(options: argparse.Namespace, _: Path) -> Figures:
    """How fast minilm encodes the corpus's steps."""
    from rpd_metric.models.sentence_transformer import SentenceTransformerEmbedder, minilm_path

    corpus = Corpus(10**6, options.characters, options.seed)
    texts: dict[str, None] = {}
    number = 0
    while len(texts) < MINILM_TEXTS:
        texts.update(dict.fromkeys(_steps(corpus, number)))
        number += 1
    embedder = SentenceTransformerEmbedder("minilm", str(minilm_path()))
    embedder.encode(list(texts)[:64])
    embedder.forget()
    began, cpu = time.perf_counter(), time.process_time()
    embedder.encode(list(texts))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"texts": len(texts), "seconds": seconds, "cpu": cpu}


def _steps(corpus: Corpus, number: int) -> Iterator[str]:
    for index in range(SOLUTIONS):
        yield from corpus.steps(number, index)


def _corpus(options: argparse.Namespace) -> Corpus:
    return Corpus(options.problems, options.characters, options.seed)


PARTS = {"generate": generate, "curate": curate, "minilm": minilm}


def in_a_process(part: str, options: argparse.Namespace, problems: int, folder: Path) -> Figures:
    """Run one part in a process of its own."""
    print(f"{part}, {problems} problems ...", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, __file__, "--part", part],
        input=pickle.dumps(({**vars(options), "problems": problems}, folder)),
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    print(f"  {figures}", file=sys.stderr)
    return figures


def one_part(part: str) -> None:
    """The other end of `in_a_process`."""
    settings, folder = pickle.loads(sys.stdin.buffer.read())
    try:
        figures = PARTS[part](argparse.Namespace(**settings), folder)
    except RPDError as error:
        sys.exit(str(error))
    print(json.dumps({**figures, "peak": peak_memory()}))


def measure(options: argparse.Namespace) -> Figures:
    """All parts at all sizes."""
    results: Figures = {"machine": machine(["numpy", "scipy", "pyarrow"]), "sizes": {}}
    # First, because it is the part that may not be installed.
    results["minilm"] = in_a_process("minilm", options, MINILM_TEXTS // SOLUTIONS, Path())
    for problems in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.scratch) as name:
            folder = Path(name)
            found = results["sizes"][problems] = {}
            found["corpus"] = in_a_process("generate", options, problems, folder)
            found["curate"] = in_a_process("curate", options, problems, folder)
    return results


def table(results: Figures, options: argparse.Namespace) -> str:
    """The results as Markdown."""
    sizes = results["sizes"]
    rate = results["minilm"]["texts"] / results["minilm"]["seconds"]
    cpu_per_text = results["minilm"]["cpu"] / results["minilm"]["texts"]
    first = next(iter(sizes.values()))["curate"]
    rows = []
    for problems, found in sizes.items():
        ours = found["curate"]
        growth = (ours["cpu"] / problems) / (first["cpu"] / first["problems"])
        rows.append(
            {
                "problems": f"{problems:,}",
                "solutions": f"{problems * SOLUTIONS:,}",
                "seconds": f"{ours['seconds']:.0f}",
                "problems/s": f"{problems / ours['seconds']:.0f}",
                "CPU ms per problem": f"{1000 * ours['cpu'] / problems:.1f}",
                "against the first size": f"{growth:.2f}",
                "peak MB": f"{ours['peak'] / 2**20:.0f}",
                "distinct steps": f"{ours['encoded']:,}",
                "minilm for these, s": f"{ours['encoded'] / rate:,.0f}",
                "CPU / minilm's": f"{ours['cpu'] / (ours['encoded'] * cpu_per_text):.1%}",
            }
        )
    return (
        f"{results['machine']}; layout {options.layout}, {options.characters} characters a "
        f"solution, summarizer {options.summarizer}; minilm {rate:.0f} texts/s on one thread\n\n"
        f"{markdown(rows)}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="numbers of problems")
    parser.add_argument("--quick", action="store_true", help=f"the sizes {QUICK}")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="of the rows")
    parser.add_argument("--characters", type=int, default=2000, help="of a solution")
    parser.add_argument("--summarizer", choices=("chat", "extractive"), default="chat")
    parser.add_argument("--num-problems", type=int, default=100, help="to choose")
    parser.add_argument("--num-solutions", type=int, default=3, help="to choose of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="where the files go for a while")
    parser.add_argument("--json", action="store_true", help="all figures as one JSON object")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.part:
        one_part(options.part)
        return 0
    options.sizes = options.sizes or (QUICK if options.quick else SIZES)
    try:
        results = measure(options)
    except subprocess.CalledProcessError:
        return 2  # it has said why
    print(json.dumps(results) if options.json else table(results, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
