"""What a distance is given of a problem's solutions: texts by kind, their vectors, and cosines.

How solutions become such texts, and how texts become vectors, is `rpd_metric/measure.py`; nothing
here knows an encoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]

STEP_KINDS = ("steps", "summary")
NGRAM = 4
LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Evidence:
    """What is known about the `k` solutions of a problem, by kind of text.

    The kinds: `"steps"`; `"summary"` (the steps as one text); `"text"` (the solution, of which an
    encoder reads the beginning); `"pieces"` (of 40 words, at most eight of them, of the part that
    carries the answer); `"methods"` (those that this part names; one vector each solution, with the
    method's rarity in its place); `"statement"` (the problem's, the same for all); `"taught"` and
    `"taught statement"` (the same as pieces and statement, by the taught encoder); `"expressions"`
    (the numbers and simple expressions that the statement lacks; one vector each solution, with 1
    for each); `"work"` (the solution; its vector has the lines that it runs on each input of the
    row's tests, NaN where it fails). The first two depend on who wrote the steps.

    Args:
        texts (`Mapping`): By kind, per solution, its texts; none where there is nothing to read.
        vectors (`Mapping`): By kind, per solution, an `(n_i, d)` array, a row for each text.
    """

    problem: str
    count: int
    texts: Mapping[str, Sequence[Sequence[str]]]
    vectors: Mapping[str, Sequence[Floats]]
    seed: int = 0

    def take(self, indices: Sequence[int]) -> Evidence:
        """The same about some of the solutions."""
        texts = {kind: [read[index] for index in indices] for kind, read in self.texts.items()}
        vectors = {kind: [rows[index] for index in indices] for kind, rows in self.vectors.items()}
        return replace(self, count=len(indices), texts=texts, vectors=vectors)

    def joined(self, other: Evidence) -> Evidence:
        """The same with the kinds of text that another reading of the solutions adds."""
        texts, vectors = {**self.texts, **other.texts}, {**self.vectors, **other.vectors}
        return replace(self, texts=texts, vectors=vectors)


def cosines(vectors: npt.ArrayLike) -> Matrix:
    """Cosines between all rows; a zero row has cosine 0 with every row."""
    x = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.where(norms > 0, norms, 1)
    cosines: Matrix = x @ x.T
    return cosines


def cosine_distances(vectors: npt.ArrayLike) -> Matrix:
    """Cosine distances between all rows, zero on the diagonal."""
    distances: Matrix = np.maximum(1 - cosines(vectors), 0)
    np.fill_diagonal(distances, 0)
    return distances


def four_grams(texts: Sequence[str]) -> Matrix:
    """`(n, grams)`: 1 where a text has the character four-gram; words are set off by blanks.

    Letters only, so numbers and symbols do not count. Small encoders take "eigenvalues" and
    "double-angle identities" for near neighbours; their letters are not.
    """
    runs_of_words = []
    for text in texts:
        line = " ".join(["", *LETTERS.findall(text.lower()), ""])
        grams = {line[at : at + NGRAM] for at in range(len(line) - NGRAM + 1)}
        runs_of_words.append(grams or {text})  # a formula without a word is its own gram
    column = {gram: index for index, gram in enumerate(sorted(set().union(*runs_of_words)))}
    table = np.zeros((len(texts), len(column)))
    for row, grams in enumerate(runs_of_words):
        table[row, [column[gram] for gram in grams]] = 1
    return table
