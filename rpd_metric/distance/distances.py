"""Named distances between the solutions of one problem. A new one is a function and an entry here,
or an entry point of the group `rpd.distances` in another package.

`rpd` stays what the paper says it is; `rpd_first` is Algorithm 3 to the letter; `summary`, `raw`
and `random` are the paper's baselines (Sec. 4.1); `strategy`, `pieces`, `taught`, `growth` and
`combined` are this project's own. Choosing by such a matrix is left to `rpd_datasets/selection`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rpd_metric.distance.core import (
    STEP_KINDS,
    Evidence,
    Matrix,
    Ties,
    cosine_distances,
    rpd_matrix,
)
from rpd_metric.distance.strategy import combined, growth, pieces, strategy, taught
from rpd_metric.plugins import Registry, border, checked_distances


@dataclass(frozen=True)
class Distance:
    """A distance by name.

    Its function makes a symmetric `(k, k)` matrix with zeros on its diagonal of [`Evidence`] about
    `k` solutions. It sees only solutions that have texts of every kind it reads. A matrix that
    breaks this contract is a [`PluginError`].
    """

    name: str
    function: Callable[[Evidence], Matrix]
    reads: tuple[str, ...]  # the kinds of texts it is given; see [`Evidence`]
    description: str  # a noun phrase for cards and the terminal: "the distance is ..."
    sees: str = "what its author does not say"  # a noun phrase: "it measures ..."
    sees_extracts: str | None = None  # the same, if no chat model wrote the steps that it reads
    encoder: str | None = None  # its own, if it compares no vectors of the run's

    @property
    def reads_steps(self) -> bool:
        """Whether the steps matter to it."""
        return any(kind in STEP_KINDS for kind in self.reads)

    def measures(self, *, chat: bool) -> str:
        """What it sees; `chat` says whether a chat model wrote the steps."""
        return self.sees if chat or self.sees_extracts is None else self.sees_extracts

    def __call__(self, evidence: Evidence) -> Matrix:
        """The `(k, k)` distances between a problem's `k` solutions.

        A solution that it cannot place (no text, no steps) has NaN in its row and column: it is
        unknown, not far away.
        """
        k = evidence.count
        usable = [i for i in range(k) if all(len(evidence.texts[kind][i]) for kind in self.reads)]
        matrix = np.full((k, k), np.nan)
        if usable:
            what = f"the distance {self.name!r}"
            with border(what, self.function):
                values = self.function(evidence.take(usable))
                matrix[np.ix_(usable, usable)] = checked_distances(values, len(usable), what)
        return matrix


def load_distance(name: str | Distance) -> Distance:
    """The distance of that name; a [`Distance`] of one's own is returned as it is."""
    return name if isinstance(name, Distance) else DISTANCES.find(name)


def _rpd(evidence: Evidence, ties: Ties = "mean") -> Matrix:
    return rpd_matrix(evidence.vectors["steps"], ties=ties).astype(np.float64)


def _of_one_text(kind: str, evidence: Evidence) -> Matrix:
    return cosine_distances(np.concatenate(evidence.vectors[kind]))


def _random(evidence: Evidence) -> Matrix:
    # The problem is part of the seed: equal draws for every problem would pick equal indices.
    text = f"{evidence.seed}\n{evidence.problem}"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    k = evidence.count
    upper: Matrix = np.triu(np.random.default_rng(list(digest)).random((k, k)), 1)
    return upper + upper.T


TOGETHER = "wording and method together"
_METHODS = ("the methods that the steps describe, and their wording", TOGETHER)
_OURS = (
    Distance("rpd", _rpd, ("steps",), "RPD, between the steps of two solutions", *_METHODS),
    Distance(
        "rpd_first",
        partial(_rpd, ties="first"),
        ("steps",),
        "RPD, between the steps of two solutions, the first asking where both have equally many",
        *_METHODS,
    ),
    Distance(
        "strategy",
        strategy,
        ("steps",),
        "`strategy`, this project's own distance between the steps of two solutions",
        *_METHODS,
    ),
    Distance(
        "combined",
        combined,
        ("steps", "statement", "pieces", "methods"),
        "`combined`, this project's own: `strategy` between steps, and a quarter of what the texts "
        "say",
        *_METHODS,
    ),
    Distance(
        "pieces",
        pieces,
        ("statement", "pieces", "methods"),
        "`pieces`, this project's own: two solutions' texts in pieces of 40 words, and the methods "
        "they name",
        TOGETHER,
    ),
    Distance(
        "taught",
        taught,
        ("taught", "taught statement", "expressions"),
        "`taught`, this project's own: two solutions' texts in pieces of 40 words, read by an "
        "encoder that was taught what a strategy is, and the expressions that they pass through",
        TOGETHER,
        encoder="taught",
    ),
    Distance(
        "growth",
        growth,
        ("taught", "taught statement", "expressions", "work"),
        "`growth`, this project's own: how the lines that two Python programs run grow with the "
        "input, and half of `taught`",
        "how the work of a program grows with its input, and its wording",
        encoder="taught",
    ),
    Distance(
        "summary",
        partial(_of_one_text, "summary"),
        ("summary",),
        "the cosine distance between embeddings of two solutions' joined steps",
        *_METHODS,
    ),
    Distance(
        "raw",
        partial(_of_one_text, "text"),
        ("text",),
        "the cosine distance between embeddings of two solutions' texts, as far as the encoder "
        "reads them",
        TOGETHER,
    ),
    Distance("random", _random, (), "a draw for each pair of solutions", "nothing"),
)
DISTANCES = Registry(
    "distance", Distance, {distance.name: distance for distance in _OURS}, "rpd.distances"
)
