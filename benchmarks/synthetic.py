"""A corpus shaped like OpenThoughts3's mathematics, of any size, and models that answer at once.

Every problem has 16 solutions; each follows one of the problem's few strategies, a strategy is a
sequence of three to five steps, and a step is put in one of several wordings, so that strategies
repeat and wordings mostly do not. Everything is a function of the numbers of problem and
solution: any text can be made again without the others, and the chat model knows the steps of a
solution from the label in its text. One solution in 50 is cut off before its answer.

What it leaves out: sense. Only shapes and amounts are those of real data.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_metric.models.chat import ChatReply, ChatRequest

SOLUTIONS = 16
DIMENSION = 384
MAX_STRATEGIES = 6
CUT_OFF_EVERY = 50
ROWS_PER_GROUP = 1000
LAYOUTS = ("openthoughts", "grouped")

METHODS = (
    "complete the square", "compare coefficients", "count in two ways", "draw the altitude",
    "expand the product", "factor the difference", "find an invariant", "fix one variable",
    "integrate by parts", "introduce coordinates", "look at residues", "pair up the terms",
    "pass to the complement", "reflect the point", "rotate the figure", "set up a recursion",
    "solve the system", "split into cases", "substitute a trigonometric function",
    "sum the series", "take logarithms", "telescope the sum", "use generating functions",
    "use inclusion and exclusion", "use induction", "use similar triangles", "use symmetry",
    "use the discriminant", "use the pigeonhole principle", "use vectors",
)  # fmt: skip
OBJECTS = (
    "the chords", "the circle", "the coefficients", "the cubic", "the digits", "the divisors",
    "the equation", "the exponents", "the hexagon", "the inequality", "the integral",
    "the lattice points", "the matrix", "the partitions", "the polynomial", "the primes",
    "the quadrilateral", "the roots", "the sequence", "the triangle",
)  # fmt: skip
WORDINGS = (
    "{Method} for {thing}.",
    "{Method}, which settles {thing}.",
    "To handle {thing}, {method}.",
    "For {thing}, {method} and keep the result.",
    "{Method} so that {thing} can be compared with the rest.",
    "Starting from {thing}, {method} and simplify.",
    "{Method} in order to reduce {thing} to a known form.",
    "Rewrite the condition on {thing}, then {method}.",
    "{Method} and read off what it says of {thing}.",
    "Since {thing} is all that matters, {method}.",
    "{Method} once more, now for {thing}.",
    "Check the small cases of {thing}, then {method}.",
)
WORKING = (
    "Write $\\frac{{{a}}}{{{b}}} + x_{{{c}}} = \\sqrt{{{d}}}$ and multiply out.",
    "Now \\(a_{{{a}}} - a_{{{b}}} = {c}\\), which leaves {d} terms to look at.",
    "Hmm, wait. With $n = {a}$ the left side is {b}, not {c}; let me check that again.",
    "The remainder of ${a}^{{{b}}}$ modulo {c} is {d}, as one sees from the pattern.",
    "That gives $\\binom{{{a}}}{{2}} = {b} \\cdot {c} + {d}$ choices, each counted once.",
    "So far we know that $\\alpha + \\beta \\le {a}$ and $\\alpha\\beta = {b}$.",
    "Another way to see it: the {a} points lie on {b} lines, and no {c} of them on one circle.",
    "Let me define $f(x) = {a}x^2 - {b}x + {c}$; its value at {d} is what is asked for.",
)
LABEL = re.compile(r"Attempt (\d+) at problem (\d+)\.")


@dataclass(frozen=True)
class Corpus:
    """The shape of a corpus.

    Args:
        problems (`int`): How many.
        characters (`int`): Length of a solution's working, about; OpenThoughts3's are some
            30,000 on average.
        seed (`int`): Another seed gives other texts.
    """

    problems: int
    characters: int = 2000
    seed: int = 0

    def problem(self, number: int) -> str:
        """The text of a problem."""
        random = Random(f"{self.seed}/{number}")
        a, b, thing = random.randrange(2, 99), random.randrange(2, 999), random.choice(OBJECTS)
        return (
            f"Problem {number}. Given ${a}x^2 + y = {b}$ and a condition on {thing}, find the "
            f"largest value that ${a}x + {b}y$ takes, and prove that it is the largest."
        )

    def strategy(self, number: int, solution: int) -> list[tuple[str, str]]:
        """What a solution does: its methods, each with what it is used on."""
        random = Random(f"{self.seed}/{number}/strategies")
        strategies = [
            [
                (method, f"{random.choice(OBJECTS)} of problem {number}")
                # Each method once: a summary that repeats a step is refused.
                for method in random.sample(METHODS, random.randint(3, 5))
            ]
            for _ in range(random.randint(1, MAX_STRATEGIES))
        ]
        return strategies[Random(f"{self.seed}/{number}/{solution}").randrange(len(strategies))]

    def steps(self, number: int, solution: int) -> list[str]:
        """The summary of a solution."""
        random = Random(f"{self.seed}/{number}/{solution}/wording")
        return [
            random.choice(WORDINGS).format(
                Method=method[0].upper() + method[1:], method=method, thing=thing
            )
            for method, thing in self.strategy(number, solution)
        ]

    def solution(self, number: int, solution: int) -> str:
        """The text of a solution: its label, its working, and an answer unless it is cut off."""
        random = Random(f"{self.seed}/{number}/{solution}/text")
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

    def write(self, path: Path, layout: str = "openthoughts") -> None:
        """Write the corpus as Parquet.

        Args:
            path (`Path`): The file.
            layout (`str`): `"openthoughts"`, one row per solution in random order, with
                OpenThoughts3's columns; or `"grouped"`, one row per problem.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if layout == "grouped":
            rows: Iterator[dict[str, Any]] = map(self._grouped_row, range(self.problems))
            schema = pa.schema({"problem": pa.string(), "solutions": pa.list_(pa.string())})
            per_group = ROWS_PER_GROUP // SOLUTIONS
        else:
            order = np.random.default_rng(self.seed).permutation(self.problems * SOLUTIONS)
            rows = map(self._flat_row, order)
            turn = pa.struct({"from": pa.string(), "value": pa.string()})
            schema = pa.schema(
                {
                    "difficulty": pa.int64(),
                    "source": pa.string(),
                    "domain": pa.string(),
                    "conversations": pa.list_(turn),
                }
            )
            per_group = ROWS_PER_GROUP
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            while chunk := list(islice(rows, per_group)):
                writer.write_table(pa.Table.from_pylist(chunk, schema=schema))

    def _grouped_row(self, number: int) -> dict[str, Any]:
        return {
            "problem": self.problem(number),
            "solutions": [self.solution(number, index) for index in range(SOLUTIONS)],
        }

    def _flat_row(self, place: Any) -> dict[str, Any]:
        number, solution = divmod(int(place), SOLUTIONS)
        return {
            "difficulty": 1 + number % 10,
            "source": "synthetic",
            "domain": "math",
            "conversations": [
                {"from": "human", "value": self.problem(number)},
                {"from": "gpt", "value": self.solution(number, solution)},
            ],
        }


def reply_text(steps: Sequence[str]) -> str:
    """A model's reply as the summary prompt asks for it: notes, then JSON in an envelope."""
    listed = [{"step_title": step.split(",")[0][:40], "step_description": step} for step in steps]
    body = json.dumps({"logical_steps": listed}, indent=2)
    return f"The solution has {len(steps)} phases; the middle ones carry it.\n\n//boxed{body}"


class InstantChat:
    """A chat model that knows the summary of every solution and gives it at once.

    Args:
        corpus ([`Corpus`]): The corpus whose solutions it is asked about.
    """

    model = "instant"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def reply(self, text: str) -> str:
        """The summary of the labelled solution in a text."""
        found = LABEL.search(text)
        assert found is not None, "every solution of the corpus carries its label"
        return reply_text(self.corpus.steps(int(found[2]), int(found[1])))

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request."""
        text = self.reply(request.messages[-1]["content"])
        return ChatReply(text, "stop", prompt_tokens=900, completion_tokens=150)


class HashingEmbedder:
    """Texts as signed counts of their words, each word in one of 384 places.

    It costs next to nothing, needs no model, and puts texts with common words close together. The
    vectors are small whole numbers, so that two ways of computing a distance agree closely.
    """

    name = "hashing"

    def __init__(self) -> None:
        self.texts = 0

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Encode `n` texts as an `(n, 384)` float32 array, in order."""
        self.texts += len(texts)
        places: list[int] = []
        signs: list[int] = []
        for row, text in enumerate(texts):
            for word in text.lower().split():
                code = zlib.crc32(word.encode())
                places.append(row * DIMENSION + code % DIMENSION)
                signs.append(1 if code & 0x10000 else -1)
        counts = np.bincount(places, weights=signs, minlength=len(texts) * DIMENSION)
        return counts.reshape(len(texts), DIMENSION).astype(np.float32)
