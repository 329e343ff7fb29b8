"""Reasoning Path Divergence between lists of step embeddings: numpy in, numpy out.

[`Evidence`] is what any other distance is given of a problem's solutions. How solutions become such
texts, and how texts become vectors, is `rpd_metric/measure.py`; nothing here knows an encoder.

How the matrix is made (Eq. 1-2, Algorithm 3 of the paper). A problem's step embeddings are stacked
and multiplied by their own transpose once. The small Gram matrix is scaled by the norms, and
segmented minima and sums give every pair at once:

    X (s, d) -> X X^T (s, s) -> 1 - cosine (s, s) -> min over each solution's columns (s, k)
      -> mean over each solution's rows (k, k), entry [i, j]: solution i asks, j answers
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Ties = Literal["mean", "first"]
Floats = npt.NDArray[np.floating[Any]]
Vectors = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float64]

STEP_KINDS = ("steps", "summary")
NGRAM = 4
LETTERS = re.compile(r"[^\W\d_]+")


def rpd_distance(steps_a: npt.ArrayLike, steps_b: npt.ArrayLike, ties: Ties = "mean") -> float:
    """Reasoning Path Divergence between two solutions (Eq. 1-2, Algorithm 3).

    Every step of the shorter list looks for its closest step in the longer one; the result
    is the mean of those cosine distances.

    Args:
        steps_a, steps_b (`array` of shape `(m, d)`): Step embeddings of a solution, of any norm.
        ties (`"mean"` or `"first"`, defaults to `"mean"`): Of equally long lists, which the paper
            leaves open, both ask, or `steps_a` alone as in Algorithm 3: then the order matters.

    Returns:
        `float`: In [0, 2]. Exactly 0 for identical lists, 1 when either list is empty
        (Algorithm 3). A zero vector is at distance 1 from every step but another zero vector.

    Raises:
        [`InputError`]: An array is not two-dimensional, dimensions differ, or a value is not
        finite.

    >>> rpd_distance([[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]])
    0.29289321881345254
    """
    return float(rpd_matrix([steps_a, steps_b], ties=ties)[0, 1])


class StepMatch(NamedTuple):
    """A step of the list that asks, and the closest step of the other one: the lowest of equals."""

    asker: Literal["a", "b"]
    step: int
    match: int
    distance: float


def rpd_alignment(
    steps_a: npt.ArrayLike, steps_b: npt.ArrayLike, ties: Ties = "mean"
) -> list[StepMatch]:
    """Which step found which when two solutions were compared (Eq. 1).

    Arguments as for [`rpd_distance`], which is the mean of the distances returned here, up to
    rounding: one match per asking step, in order, those of `steps_a` first. Empty when either list
    is: a distance of 1 by definition comes from no match.

    >>> rpd_alignment([[0.0, 3.0]], np.eye(2))
    [StepMatch(asker='a', step=0, match=1, distance=0.0)]
    """
    rpd_matrix([steps_a, steps_b], ties=ties)  # refuses what the distance refuses, in its words
    a, b = np.asarray(steps_a), np.asarray(steps_b)
    if not (a.size and b.size):
        return []
    # Single steps as solutions of their own: the same zeros and clipping as in every distance.
    between = rpd_matrix([step[None] for step in (*a, *b)])[: len(a), len(a) :]
    asking: list[tuple[Literal["a", "b"], Floats]] = []
    if len(a) <= len(b):
        asking.append(("a", between))
    if len(a) > len(b) or (len(a) == len(b) and ties == "mean"):
        asking.append(("b", between.T))
    return [
        StepMatch(asker, step, int(row.argmin()), float(row.min()))
        for asker, rows in asking
        for step, row in enumerate(rows)
    ]


def rpd_matrix(solutions: Sequence[npt.ArrayLike], ties: Ties = "mean") -> Floats:
    """Pairwise Reasoning Path Divergence between all solutions of one problem.

    Args:
        solutions (`Sequence` of arrays of shape `(n_i, d)`): The step embeddings of each of the
            `k` solutions. An empty list of steps is at distance 1 from every other solution.
        ties (`"mean"` or `"first"`, defaults to `"mean"`): See [`rpd_distance`]. With `"first"`
            the solution with the lower index asks, so that the matrix stays symmetric.

    Returns:
        `array` of shape `(k, k)`: Symmetric, zero on the diagonal, values in [0, 2]; float32 if
        all inputs are, else float64.

    >>> rpd_matrix([np.eye(3)[:2], np.eye(3), np.eye(3)[2:]])
    array([[0., 0., 1.],
           [0., 0., 0.],
           [1., 0., 0.]])
    """
    if ties not in ("mean", "first"):
        raise InputError(f'ties is {ties!r}; use "mean" or "first"')
    arrays = [np.asarray(steps) for steps in solutions]
    filled = [array for array in arrays if array.size]
    if not filled:
        return 1 - np.eye(len(arrays))
    stacked = _stack(arrays, filled)
    lengths = np.array([len(array) for array in filled], dtype=np.intp)
    usable = [index for index, array in enumerate(arrays) if array.size]
    matrix: Floats = _symmetric(_directed(stacked, lengths, usable), lengths, ties)
    if len(usable) < len(arrays):
        inner, matrix = matrix, np.ones((len(arrays), len(arrays)), dtype=stacked.dtype)
        matrix[np.ix_(usable, usable)] = inner
    np.fill_diagonal(matrix, 0)
    return matrix


def mean_pairwise(matrix: npt.ArrayLike) -> float | None:
    """Mean distance over all pairs of solutions: what `evaluate.load("rpd")` calls `rpd`.

    Rows and columns of NaN are left out; `None` with fewer than two usable solutions.
    """
    _, usable = usable_part(matrix)
    k = len(usable)
    return None if k < 2 else float(usable.sum() / (k * (k - 1)))


def problem_score(matrix: npt.ArrayLike) -> float | None:
    """How diverse a problem's solutions are at best (Eq. 3, Algorithm 1).

    The mean distance to the others of the most distant solution: one different
    approach is enough for a high score, however many near-copies surround it. Rows and columns of
    NaN are left out; `None` with fewer than two usable solutions, where Algorithm 1 has minus
    infinity: such problems rank last.

    >>> problem_score([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    0.6
    """
    _, usable = usable_part(matrix)
    k = len(usable)
    return None if k < 2 else float(usable.sum(axis=1).max() / (k - 1))


def none_for_nan(matrix: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """A matrix as nested lists for JSON and Parquet, with None in the place of NaN.

    Every function here takes such lists, too.

    >>> none_for_nan(np.array([[0.0, np.nan], [np.nan, 0.5]]))
    [[0.0, None], [None, 0.5]]
    """
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def usable_part(
    matrix: npt.ArrayLike,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Where the diagonal of a distance matrix is not NaN, and that part of it, diagonal zero."""
    distances = np.array(matrix, dtype=np.float64)
    if distances.size == 0:
        return np.zeros(0, dtype=np.intp), np.zeros((0, 0))
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise InputError(f"a distance matrix is square; this one has shape {distances.shape}")
    keep = np.flatnonzero(~np.isnan(np.diagonal(distances)))
    distances = distances[np.ix_(keep, keep)]
    if np.isnan(distances).any():
        raise InputError("a distance matrix has NaN in whole rows and columns only")
    np.fill_diagonal(distances, 0)
    return keep, distances


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
    vectors: Mapping[str, Sequence[Vectors]]
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


def _stack(arrays: list[Any], filled: list[Any]) -> Any:
    """All steps as one (s, d) array of float32 or float64; refuses what is no such list."""
    for index, array in enumerate(arrays):
        if array.size and (array.ndim != 2 or array.dtype.kind not in "fiu"):
            raise InputError(
                f"solution {index}: step embeddings are a (steps, dimension) array of numbers, "
                f"not {array.dtype} of shape {array.shape}"
            )
        if array.size and array.shape[1] != filled[0].shape[1]:
            raise InputError(
                f"solution {index} has embeddings of dimension {array.shape[1]}, an earlier "
                f"one of dimension {filled[0].shape[1]}: encode all of them with the same model"
            )
    stacked = np.concatenate(filled)
    exact = stacked.dtype in (np.float32, np.float64)
    return stacked if exact else stacked.astype(np.float64)


def _directed(x: Any, lengths: npt.NDArray[np.intp], usable: list[int]) -> Any:
    """`(k, k)`: mean over solution j's steps of the distance to the closest step of i."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram = x @ x.T  # one symmetric product: BLAS does half the work of a general one
    squares = gram.diagonal()
    # Non-finite input, overflow and vanishing norms all show on the diagonal, which is far
    # smaller than x: the common case pays for one look at it.
    info = np.finfo(x.dtype)
    if not (squares.min() > info.tiny / info.eps and squares.max() < info.max):
        x = _rescaled(x, lengths, usable)
        gram = x @ x.T
        squares = gram.diagonal()
    zero = squares == 0
    inverse = 1 / np.sqrt(np.where(zero, 1, squares))
    starts = np.zeros(len(lengths), dtype=np.intp)
    np.cumsum(lengths[:-1], out=starts[1:])
    # The largest cosine is the smallest distance, and a column's own norm does not change
    # which row is largest: reducing first leaves (k, s) instead of (s, s) to work on.
    gram *= inverse[:, None]
    closest = _segment_max(gram, starts, lengths)
    closest *= inverse
    np.subtract(1, closest, out=closest)
    np.maximum(closest, 0, out=closest)
    np.minimum(closest, 2, out=closest)
    _zero_identical_steps(closest, x, zero, starts)
    directed = np.add.reduceat(closest, starts, axis=1)
    directed /= lengths
    return directed


def _segment_max(gram: Any, starts: npt.NDArray[np.intp], lengths: npt.NDArray[np.intp]) -> Any:
    """Maxima over each solution's rows: (s, s) -> (k, s)."""
    longest = int(lengths.max())
    if longest * len(lengths) > 2 * len(gram):
        return np.maximum.reduceat(gram, starts, axis=0)
    # Step counts of 3 to 5 are nearly equal: repeating a solution's last step up to the longest
    # makes one plain maximum of it, which takes less than half of reduceat's time.
    rows = np.minimum(np.arange(longest)[:, None] + starts, starts + lengths - 1)
    return np.maximum.reduce(gram[rows], axis=0)


def _rescaled(x: Any, lengths: npt.NDArray[np.intp], usable: list[int]) -> Any:
    """Rows scaled to a largest entry of 1, so that no square overflows or vanishes."""
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        owner = int(np.searchsorted(np.cumsum(lengths), bad[0], side="right"))
        raise InputError(
            f"a step embedding of solution {usable[owner]} holds NaN or infinity; encode it again "
            "or leave the solution out"
        )
    largest = np.abs(x).max(axis=1, keepdims=True)
    return x / np.where(largest == 0, 1, largest)


def _zero_identical_steps(
    closest: Any, x: Any, zero: npt.NDArray[np.bool_], starts: npt.NDArray[np.intp]
) -> None:
    """Set the distance between bitwise equal steps to exactly 0, in place.

    A product summed in another order leaves them some rounding errors apart, and zero vectors
    a whole 1. `closest` is (k, s): entry [i, j] belongs to solution i and step j.
    """
    close = closest < (x.shape[1] + 8) * np.finfo(x.dtype).eps
    close |= zero
    # Every step is its own neighbour: only further ones call for a look.
    if np.count_nonzero(close) == len(x):
        return
    first: dict[bytes, int] = {}
    # Adding 0 makes 0 of -0, which is equal to it.
    same = np.array([first.setdefault(row.tobytes(), len(first)) for row in x + 0])
    equal = np.logical_or.reduceat(same[:, None] == same, starts, axis=0)
    closest[close & equal] = 0


def _symmetric(directed: Any, lengths: npt.NDArray[np.intp], ties: Ties) -> Any:
    """Choose who asks: the shorter list, and on ties both or the lower index.

    `directed[i, j]` is what j finds in i, so its weight is 1 where j is the shorter.
    """
    weight = (np.sign(lengths[:, None] - lengths) + 1).astype(directed.dtype) / 2
    if ties == "first":
        weight[weight == 0.5] = 0
        weight += np.tril(lengths[:, None] == lengths, -1)
    directed *= weight
    return directed + directed.T
