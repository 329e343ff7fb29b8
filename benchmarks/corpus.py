"""How does curation grow with the corpus? Time and memory from 1,000 to 53,125 problems.

    python benchmarks/corpus.py [--sizes 1000 10000 53125]

A synthetic corpus shaped like OpenThoughts3's mathematics (53,125 problems with 16 solutions, one
row each, in random order) goes through `curate_folder`: grouping, filters, a prompt per solution,
the flow of requests, the store of replies, the parser, embeddings, distances, ranking, selection
and writing. The models are stand-ins that answer at once, so that what is measured is the pipeline.
Every figure comes from a process of its own; memory is the most that was resident in it.

Each solution follows one of its problem's few strategies, a strategy is three to five steps, and a
step is put in one of several wordings, so that strategies repeat and wordings mostly do not. A text
is a function of the numbers of problem and solution, and the chat model knows the steps of a
solution from the label in its text. One solution in 50 is cut off before its answer. What the
corpus leaves out is sense: only shapes and amounts are those of real data.

Beside it, in the same run: how long minilm would take for the same distinct steps on one thread,
from its speed on a sample of them.

Goals: memory under 2 GB and flat; time per problem within 10 % between sizes; the pipeline under
10 % of the time of embedding with minilm.

The default sizes take half an hour on 2 idle cores and 5 GB of disk.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before numpy loads its BLAS

import argparse
import json
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from machine import machine, markdown, peak_memory
from pyarrow.parquet import ParquetWriter

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.run import curate_folder
from rpd_datasets.inputs.source import open_source
from rpd_datasets.tokens import token_counter
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.flow import Flow
from rpd_metric.models.spec import load_embedder
from rpd_metric.models.store import ReplyStore
from rpd_metric.steps.chat_summarizer import ChatSummarizer

SIZES = (1000, 10_000, 53_125)
SOLUTIONS = 16
MAX_STRATEGIES = 6
CUT_OFF_EVERY = 50
ROWS_PER_GROUP = 1000
Figures = dict[str, Any]

METHODS = (
    *("complete the square", "count in two ways", "draw the altitude", "find an invariant"),
    *("factor the difference", "integrate by parts", "introduce coordinates", "use induction"),
    *("pass to the complement", "set up a recursion", "split into cases", "telescope the sum"),
)
OBJECTS = ("the circle", "the digits", "the lattice points", "the polynomial", "the sequence")
WORDINGS = tuple(
    start + end
    for start in (
        "{Method} for {thing}",
        "To handle {thing}, {method}",
        "First {method} on {thing}",
    )
    for end in (".", " and keep the result.", " to reduce it to a known form.", ", and simplify.")
)
WORKING = (
    "Write $\\frac{{{a}}}{{{b}}} + x_{{{c}}} = \\sqrt{{{d}}}$ and multiply out.",
    "Hmm, wait. With $n = {a}$ the left side is {b}, not {c}; let me check that again.",
    "That gives $\\binom{{{a}}}{{2}} = {b} \\cdot {c} + {d}$ choices, each counted once.",
    "Let me define $f(x) = {a}x^2 - {b}x + {c}$; its value at {d} is what is asked for.",
)
LABEL = re.compile(r"Attempt (\d+) at problem (\d+)\.")
# A row of OpenThoughts3.
SCHEMA = pa.schema(
    {
        "difficulty": pa.int64(),
        "source": pa.string(),
        "domain": pa.string(),
        "conversations": pa.list_(pa.struct({"from": pa.string(), "value": pa.string()})),
    }
)


@dataclass(frozen=True)
class Corpus:
    """So many problems, with solutions of about so many characters (OpenThoughts3: some 30,000)."""

    problems: int
    characters: int = 2000

    def problem(self, number: int) -> str:
        """The text of a problem."""
        return (
            f"Problem {number}. Given ${number % 97}x^2 + y = {number}$ and a condition on the "
            f"sequence, find the largest value that ${number}x + y$ takes, and prove that it is."
        )

    def strategy(self, number: int, solution: int) -> list[tuple[str, str]]:
        """What a solution does: its methods, each with what it is used on."""
        random = Random(f"{number}/strategies")
        strategies = [
            [
                (method, f"{random.choice(OBJECTS)} of problem {number}")
                # Each method once: a summary that repeats a step is refused.
                for method in random.sample(METHODS, random.randint(3, 5))
            ]
            for _ in range(random.randint(1, MAX_STRATEGIES))
        ]
        return strategies[Random(f"{number}/{solution}").randrange(len(strategies))]

    def steps(self, number: int, solution: int) -> list[str]:
        """The summary of a solution."""
        random = Random(f"{number}/{solution}/wording")
        return [
            random.choice(WORDINGS).format(
                Method=method[0].upper() + method[1:], method=method, thing=thing
            )
            for method, thing in self.strategy(number, solution)
        ]

    def solution(self, number: int, solution: int) -> str:
        """The text of a solution: its label, its working, and an answer unless it is cut off."""
        random = Random(f"{number}/{solution}/text")
        parts = [f"Attempt {solution} at problem {number}."]
        length = 0
        phases = self.strategy(number, solution)
        each = self.characters // len(phases)
        for position, (method, thing) in enumerate(phases, start=1):
            parts.append(f"\nLet me {method} for {thing}.")
            while length < position * each:
                a, b, c, d = (int(random.random() * 97) + 2 for _ in range(4))
                line = WORKING[int(random.random() * len(WORKING))].format(a=a, b=b, c=c, d=d)
                parts.append(line)
                length += len(line) + 1
        if random.randrange(CUT_OFF_EVERY) == 0:
            return " ".join(parts) + " Now we can multiply this by the"
        return " ".join(parts) + f"\nThe answer is $\\boxed{{{random.randrange(1000)}}}$."

    def write(self, path: Path) -> None:
        """Write the corpus as Parquet, one row per solution in random order."""
        order = np.random.default_rng(0).permutation(self.problems * SOLUTIONS)
        rows = map(self._row, order.tolist())
        with ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            while chunk := list(islice(rows, ROWS_PER_GROUP)):
                writer.write_table(pa.Table.from_pylist(chunk, schema=SCHEMA))

    def _row(self, place: int) -> dict[str, Any]:
        number, solution = divmod(place, SOLUTIONS)
        turns = [
            {"from": "human", "value": self.problem(number)},
            {"from": "gpt", "value": self.solution(number, solution)},
        ]
        about = {"difficulty": 1 + number % 10, "source": "synthetic", "domain": "math"}
        return {**about, "conversations": turns}


class InstantChat:
    """A chat model that knows the summary of every solution of a corpus and gives it at once."""

    model = "instant"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """The summary of the labelled solution in a prompt, as the prompt asks for it."""
        # The label is in the first request; the others ask once more for what was refused.
        label = LABEL.search("\n".join(step["content"] for step in request.messages))
        assert label is not None, "every solution of the corpus carries its label"
        steps = self.corpus.steps(int(label[2]), int(label[1]))
        listed = [
            {"step_title": step.split(",")[0][:40], "step_description": step} for step in steps
        ]
        body = json.dumps({"logical_steps": listed}, indent=2)
        text = f"It has {len(steps)} phases; the middle ones carry it.\n\n//boxed{body}"
        return ChatReply(text, "stop", prompt_tokens=900, completion_tokens=150)


class HashingEmbedder:
    """Texts as signed counts of their words, each word in one of 384 places.

    It costs next to nothing, needs no model, and puts texts with common words close together.
    """

    name = "hashing"

    def __init__(self) -> None:
        self.texts = 0

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Encode `n` texts as an `(n, 384)` float32 array, in order."""
        self.texts += len(texts)
        words = [
            (row, zlib.crc32(word.encode()))
            for row, text in enumerate(texts)
            for word in text.lower().split()
        ]
        places = [384 * row + code % 384 for row, code in words]
        signs = [1 if code & 0x10000 else -1 for _, code in words]
        counts = np.bincount(places, weights=signs, minlength=len(texts) * 384)
        return counts.reshape(len(texts), 384).astype(np.float32)


def curate(corpus: Corpus, folder: Path) -> Figures:
    """Run the pipeline on the corpus in a folder."""
    embedder = HashingEmbedder()
    config = CurationConfig(problems="rpd", solutions="rpd", num_problems=100, num_solutions=3)
    with ReplyStore(folder / "replies.sqlite") as store:
        summarizer = ChatSummarizer(Flow(InstantChat(corpus), store=store))
        models = Models(summarizer, embedder, token_counter("estimate"))
        began, cpu = time.perf_counter(), time.process_time()
        source = partial(open_source, folder / "corpus.parquet")
        report = curate_folder(source, folder / "curated", config, models, describe=lambda _: {})
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    usable = sum(score.num_usable for score in report.scores)
    about = {"problems": len(report.scores), "usable": usable, "encoded": embedder.texts}
    return {"seconds": seconds, "cpu": cpu, "peak": peak_memory(), **about}


def minilm(corpus: Corpus) -> Figures:
    """How long minilm takes for one of the corpus's steps."""
    places = ((number, solution) for number in range(8) for solution in range(SOLUTIONS))
    texts = list(dict.fromkeys(step for place in places for step in corpus.steps(*place)))
    embedder = load_embedder("minilm")
    embedder.encode(texts[:64])
    began, cpu = time.perf_counter(), time.process_time()
    embedder.encode(texts)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"seconds": seconds / len(texts), "cpu": cpu / len(texts)}


def alone(part: Callable[..., Any], *arguments: object) -> Any:
    """What a part gives in a process of its own."""
    print(f"{part.__name__} ...", file=sys.stderr)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(part, *arguments).result()


def main() -> None:
    """Measure all sizes and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="problems")
    parser.add_argument("--characters", type=int, default=2000, help="of a solution")
    options = parser.parse_args()
    text = alone(minilm, Corpus(0))
    rows, first = [], None
    for problems in options.sizes:
        corpus = Corpus(problems, options.characters)
        with tempfile.TemporaryDirectory() as name:
            alone(corpus.write, Path(name) / "corpus.parquet")
            figures = alone(curate, corpus, Path(name))
        each = figures["cpu"] / problems
        first = first or each
        rows.append(
            {
                "problems": f"{figures['problems']:,}",
                "usable solutions": f"{figures['usable']:,} of {problems * SOLUTIONS:,}",
                "seconds": f"{figures['seconds']:.0f}",
                "CPU ms per problem": f"{1000 * each:.1f}",
                "against the first size": f"{each / first:.2f}",
                "peak MB": f"{figures['peak'] / 2**20:.0f}",
                "distinct steps": f"{figures['encoded']:,}",
                "CPU / minilm's": f"{figures['cpu'] / (figures['encoded'] * text['cpu']):.1%}",
            }
        )
    print(
        f"{machine(['numpy', 'scipy', 'pyarrow'])}; {options.characters} characters a solution; "
        f"minilm {1 / text['seconds']:.0f} texts/s on one thread\n\n{markdown(rows)}"
    )


if __name__ == "__main__":
    main()
