"""The distances that the paper compares RPD with (Sec. 4.1), and RPD itself, by evidence."""

from __future__ import annotations

import hashlib

import numpy as np

from rpd_metric.distance.core import Ties, rpd_matrix
from rpd_metric.distance.evidence import Evidence, Matrix, cosine_distances


def rpd(evidence: Evidence, ties: Ties = "mean") -> Matrix:
    """Reasoning Path Divergence of the steps (Eq. 1-2)."""
    return rpd_matrix(evidence.vectors["steps"], ties=ties).astype(np.float64)


def rpd_first(evidence: Evidence) -> Matrix:
    """The same where, of lists of equal length, the first one asks (Algorithm 3 to the letter)."""
    return rpd(evidence, ties="first")


def summary(evidence: Evidence) -> Matrix:
    """One embedding of the steps joined by blanks."""
    return cosine_distances(np.concatenate(evidence.vectors["summary"]))


def raw(evidence: Evidence) -> Matrix:
    """One embedding of the solution's text; what does not fit the encoder is cut."""
    return cosine_distances(np.concatenate(evidence.vectors["text"]))


def raw_chunks(evidence: Evidence) -> Matrix:
    """The mean embedding of the whole text, piece by piece."""
    pieces = evidence.vectors["chunks"]
    owner = np.repeat(np.arange(len(pieces)), [len(rows) for rows in pieces])
    # Row by row: which solution a piece belongs to. Cosines do not see the missing division.
    belongs = (np.arange(len(pieces))[:, None] == owner).astype(np.float64)
    return cosine_distances(belongs @ np.concatenate(pieces))


def random(evidence: Evidence) -> Matrix:
    """A draw per pair."""
    # The problem is part of the seed: equal draws for every problem would pick equal indices.
    text = f"{evidence.seed}\n{evidence.problem}"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    k = evidence.count
    upper: Matrix = np.triu(np.random.default_rng(list(digest)).random((k, k)), 1)
    return upper + upper.T
