"""Cosines between vectors, and vectors of wording: which letters a text uses.

Small encoders take "eigenvalues" and "double-angle identities" for near neighbours; their
letters are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

NGRAM = 4
LETTERS = re.compile(r"[^\W\d_]+")


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

    Letters only, so numbers and symbols do not count.
    """
    found = []
    for text in texts:
        line = " ".join(["", *LETTERS.findall(text.lower()), ""])
        grams = {line[at : at + NGRAM] for at in range(len(line) - NGRAM + 1)}
        found.append(grams or {text})  # a formula without a word stands for itself
    column = {gram: index for index, gram in enumerate(sorted(set().union(*found)))}
    table = np.zeros((len(texts), len(column)))
    for row, grams in enumerate(found):
        table[row, [column[gram] for gram in grams]] = 1
    return table
