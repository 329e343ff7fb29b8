"""Named distances between the solutions of one problem, all behind one signature.

    rpd          Reasoning Path Divergence, ties="mean" (Eq. 1-2)
    rpd_first    the same with ties="first" (Algorithm 3 to the letter)
    strategy     steps compared by meaning and by wording, both ways, then by group; see below
    summary      one embedding of the steps joined by blanks (Sec. 4.1)
    raw          one embedding of the solution's text (Sec. 4.1)
    raw_chunks   the mean embedding of the whole text, piece by piece
    random       a draw per pair (Sec. 4.1)

`strategy` is this project's own; `rpd` stays what the paper says it is. What was tried on the
way and what it was worth is the log in `benchmarks/distances.py`. Choosing among solutions by
such a matrix is left to `rpd_datasets/select.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError
from rpd_metric.inference.embedders import Embedder
from rpd_metric.metrics.scoring import step_matrices

Matrix = npt.NDArray[np.float64]
DistanceFunction = Callable[[str, Sequence[str], Sequence[Sequence[str]], Embedder, int], Matrix]

# MiniLM reads 256 word pieces, which is about as many as 150 words with their mathematics.
CHUNK_WORDS = 150
NGRAM = 4
LETTERS = re.compile(r"[^\W\d_]+")
# Far above rounding errors and far below any difference between embeddings that means something.
TIE = 1e-9


@dataclass(frozen=True)
class Distance:
    """A distance by name.

    Args:
        name (`str`): What tables and cards call it.
        function (`Callable`): `(problem, solutions, steps, embedder, seed)` to a symmetric
            `(k, k)` matrix with zeros on its diagonal. A solution it cannot place (no text, no
            steps) has NaN in its row and column.
        reads_steps (`bool`): Whether the steps matter to it.
    """

    name: str
    function: DistanceFunction
    reads_steps: bool

    def __call__(
        self,
        problem: str,
        solutions: Sequence[str],
        steps: Sequence[Sequence[str]],
        embedder: Embedder,
        seed: int = 0,
    ) -> Matrix:
        """The `(k, k)` distances between a problem's `k` solutions."""
        return self.function(problem, solutions, steps, embedder, seed)


def load_distance(name: str | Distance) -> Distance:
    """The distance of that name; a [`Distance`] of one's own is returned as it is.

    Raises:
        [`InputError`]: There is none of that name.

    Example:

    ```py
    >>> from rpd_metric.distance.registry import load_distance
    >>> load_distance("raw").reads_steps
    False

    ```
    """
    if isinstance(name, Distance):
        return name
    if name not in DISTANCES:
        raise InputError(f"unknown distance {name!r}; use one of {', '.join(DISTANCES)}")
    return DISTANCES[name]


def strategy_matrix(steps: Sequence[Sequence[str]], embedder: Embedder) -> Matrix:
    """Pairwise distances that see a change of strategy better than RPD does.

    Three things differ from RPD, each with equal shares and without a fitted number:

    - two steps are compared by meaning and by wording: the mean of the cosine of their
      embeddings and the cosine of their sets of character four-grams (letters only, so numbers
      and symbols do not count). Small encoders take "eigenvalues" and "double-angle
      identities" for near neighbours; their letters are not;
    - both lists ask, and the larger mean counts. A solution that contains another one and
      goes on to something else is different, which the shorter list alone cannot tell;
    - using the same strategy is an equivalence: if A resembles C and B resembles C, so do A
      and B, however differently they put it. Half of the result is therefore the level at which
      average linkage joins the pair ([`average_linkage`]), half is the pair's own distance,
      which keeps the order within a group.

    The values are larger than those of RPD: wordings agree less than meanings. A pair's value
    depends on the problem's other solutions; it does not depend on their order.

    Args:
        steps (`Sequence`): Per solution, the list of its steps. Whitespace-only steps are none.
        embedder ([`~rpd_metric.inference.embedders.Embedder`]): Encodes the steps.

    Returns:
        `array` of shape `(k, k)`: Values in [0, 1.5]. A solution without steps has NaN in its row
        and column.
    """
    cleaned = [[step for step in solution if step.strip()] for solution in steps]
    usable = [index for index, solution in enumerate(cleaned) if solution]
    matrix = np.full((len(cleaned), len(cleaned)), np.nan)
    if not usable:
        return matrix
    texts = [step for index in usable for step in cleaned[index]]
    distinct = sorted(set(texts))
    row_of = {text: row for row, text in enumerate(distinct)}
    between = 1 - (_cosines(embedder.encode(distinct)) + _cosines(_four_grams(distinct))) / 2
    # Equal texts are the same step, whatever rounding or a zero vector makes of them.
    np.fill_diagonal(between, 0)
    np.maximum(between, 0, out=between)
    rows = [row_of[text] for text in texts]
    between = between[np.ix_(rows, rows)]
    lengths = np.array([len(cleaned[index]) for index in usable])
    starts = np.cumsum(lengths) - lengths
    closest = np.minimum.reduceat(between, starts, axis=1)
    asked = np.add.reduceat(closest, starts, axis=0) / lengths[:, None]
    pairs = np.maximum(asked, asked.T)
    matrix[np.ix_(usable, usable)] = (pairs + average_linkage(pairs)) / 2
    return matrix


def average_linkage(matrix: npt.ArrayLike) -> Matrix:
    """At which level average linkage (UPGMA) puts two solutions into one group.

    Starting with every solution alone, the two groups with the smallest mean distance between
    their members are joined, until one is left. The level of a pair is that distance at the
    moment they meet. Levels are transitive: `levels <= t` splits the solutions into groups for
    every `t`. Groups that tie are joined at once, so that the result does not depend on the
    order of the solutions (as in multidendrograms, Fernández and Gómez 2008).

    Args:
        matrix (`array` of shape `(k, k)`): Symmetric distances, zero on the diagonal, no NaN.

    Returns:
        `array` of shape `(k, k)`: Symmetric, zero on the diagonal.

    Example:

    ```py
    >>> from rpd_metric.distance.registry import average_linkage
    >>> average_linkage([[0, 1, 4], [1, 0, 6], [4, 6, 0]])
    array([[0., 1., 5.],
           [1., 0., 5.],
           [5., 5., 0.]])

    ```
    """
    distances = np.array(matrix, dtype=np.float64)
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise InputError(f"a distance matrix is square; this one has shape {distances.shape}")
    if np.isnan(distances).any():
        raise InputError("linkage takes usable solutions only: leave out rows and columns of NaN")
    levels = np.zeros_like(distances)
    together = np.eye(len(distances), dtype=bool)
    groups = np.eye(len(distances))  # (k, groups), 1 where the solution is a member
    while groups.shape[1] > 1:
        sizes = groups.sum(axis=0)
        between = (groups.T @ distances @ groups) / np.outer(sizes, sizes)
        np.fill_diagonal(between, np.inf)
        lowest = between.min()
        groups = groups @ _components(between <= lowest + TIE)
        joined = (groups @ groups.T) > 0
        levels[joined & ~together] = lowest
        together = joined
    return levels


def _components(linked: npt.NDArray[np.bool_]) -> Matrix:
    """`(n, components)` membership of the connected components of a symmetric relation."""
    reach = linked | np.eye(len(linked), dtype=bool)
    while True:
        further = (reach.astype(np.float64) @ reach) > 0
        if (further == reach).all():
            break
        reach = further
    first = reach.argmax(axis=1)  # the lowest index of each one's component
    membership: Matrix = (first[:, None] == np.unique(first)).astype(np.float64)
    return membership


def _cosines(vectors: npt.ArrayLike) -> Matrix:
    x = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.where(norms > 0, norms, 1)
    cosines: Matrix = x @ x.T
    return cosines


def _four_grams(texts: Sequence[str]) -> Matrix:
    """`(n, grams)`: 1 where a text has the character four-gram; words are set off by blanks."""
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


def _summary(steps: Sequence[Sequence[str]], embedder: Embedder) -> Matrix:
    joined = [" ".join(step for step in solution if step.strip()) for solution in steps]
    return _raw(joined, embedder)


def _raw(texts: Sequence[str], embedder: Embedder) -> Matrix:
    """What does not fit the encoder is cut: MiniLM reads the first 256 word pieces only."""
    filled = [index for index, text in enumerate(texts) if text.strip()]
    return _between(embedder.encode([texts[index] for index in filled]), filled, len(texts))


def _raw_chunks(texts: Sequence[str], embedder: Embedder) -> Matrix:
    pieces, owners = [], []
    for index, text in enumerate(texts):
        words = text.split()
        for start in range(0, len(words), CHUNK_WORDS):
            pieces.append(" ".join(words[start : start + CHUNK_WORDS]))
            owners.append(index)
    filled = sorted(set(owners))
    # Row by row: which solution a piece belongs to. Cosines do not see the missing division.
    belongs = (np.array(filled)[:, None] == np.array(owners)).astype(np.float64)
    return _between(belongs @ embedder.encode(pieces), filled, len(texts))


def _between(vectors: npt.ArrayLike, usable: Sequence[int], k: int) -> Matrix:
    """Cosine distances of the `usable` ones out of `k` solutions; NaN for the others."""
    matrix = np.full((k, k), np.nan)
    if usable:
        inner = np.maximum(1 - _cosines(vectors), 0)
        np.fill_diagonal(inner, 0)
        matrix[np.ix_(usable, usable)] = inner
    return matrix


def _random(problem: str, k: int, seed: int) -> Matrix:
    # The problem is part of the seed: equal draws for every problem would pick equal indices.
    digest = hashlib.sha256(f"{seed}\n{problem}".encode(errors="surrogatepass")).digest()
    upper: Matrix = np.triu(np.random.default_rng(list(digest)).random((k, k)), 1)
    return upper + upper.T


DISTANCES: Mapping[str, Distance] = MappingProxyType(
    {
        distance.name: distance
        for distance in (
            Distance("rpd", lambda _p, _s, steps, e, _seed: step_matrices([steps], e)[0], True),
            Distance(
                "rpd_first",
                lambda _p, _s, steps, e, _seed: step_matrices([steps], e, ties="first")[0],
                True,
            ),
            Distance("strategy", lambda _p, _s, steps, e, _seed: strategy_matrix(steps, e), True),
            Distance("summary", lambda _p, _s, steps, e, _seed: _summary(steps, e), True),
            Distance("raw", lambda _p, solutions, _steps, e, _seed: _raw(solutions, e), False),
            Distance(
                "raw_chunks",
                lambda _p, solutions, _steps, e, _seed: _raw_chunks(solutions, e),
                False,
            ),
            Distance(
                "random",
                lambda p, solutions, _steps, _e, seed: _random(p, len(solutions), seed),
                False,
            ),
        )
    }
)
