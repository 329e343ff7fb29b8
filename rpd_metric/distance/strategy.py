"""`strategy`, `pieces` and `combined`: this project's own distances.

`strategy` compares steps, `pieces` the solutions' own texts and needs neither steps nor a language
model, `combined` adds a share of the second to the first. What each part is worth, with intervals,
is in `benchmarks/strategies.md`, with what was tried; `docs/distances.md` is the page for users.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import Evidence, Matrix, cosine_distances, cosines, four_grams
from rpd_metric.errors import InputError

# A quarter each: whole shares, not fitted ones. From 0.2 to 0.3 the figures hardly move.
METHODS_SHARE = 0.25
TEXT_SHARE = 0.25
# Of the nearest pieces, their means, and the expressions: chosen on dev and on problems left out.
TAUGHT_SHARES = (0.5, 0.25, 0.25)
# So many expressions, half of them shared, are added to those that two solutions have.
FEW_EXPRESSIONS = 3
# Of the mean vector of a problem's solutions, so much is taken from each, as in teaching.
CENTRE = 0.8
# Far above rounding errors and far below any difference between embeddings that means something.
TIE = 1e-9


def strategy(evidence: Evidence) -> Matrix:
    """Distances between steps that see a change of strategy better than RPD does.

    Three things differ from RPD, each with equal shares and without a fitted number:

    - two steps are compared by meaning and by wording: the mean of the cosine of their
      embeddings and the cosine of their sets of character four-grams ([`four_grams`]);
    - both lists ask, and the larger mean counts. A solution that contains another one and
      continues with something else is different, which the shorter list alone cannot tell;
    - using the same strategy is an equivalence: if A resembles C and B resembles C, so do A
      and B, however differently they put it ([`half_linked`]).

    The values are larger than those of RPD: wordings agree less than meanings. A pair's value
    depends on the problem's other solutions; it does not depend on their order. Reads `"steps"`;
    values in [0, 1.5].
    """
    return half_linked(step_distances(evidence.texts["steps"], evidence.vectors["steps"]))


def step_distances(
    steps: Sequence[Sequence[str]], vectors: Sequence[npt.NDArray[np.floating]]
) -> Matrix:
    """The first two of [`strategy`]'s three: by meaning and by wording, the larger direction."""
    texts = [step for solution in steps for step in solution]
    stacked = np.concatenate(list(vectors))
    distinct = sorted(set(texts))
    row_of = {text: row for row, text in enumerate(distinct)}
    vector_of = dict(zip(texts, stacked, strict=True))
    embedded = np.stack([vector_of[text] for text in distinct])
    between = 1 - (cosines(embedded) + cosines(four_grams(distinct))) / 2
    # Equal texts are the same step, whatever rounding or a zero vector makes of them.
    np.fill_diagonal(between, 0)
    np.maximum(between, 0, out=between)
    rows = [row_of[text] for text in texts]
    between = between[np.ix_(rows, rows)]
    directed = _mean_nearest(between, [len(solution) for solution in steps])
    pairs: Matrix = np.maximum(directed, directed.T)
    return pairs


def _mean_nearest(between: Matrix, lengths: Sequence[int]) -> Matrix:
    """`(s, s)` distances of texts to `(k, k)`: how far row i's texts are from the nearest of j."""
    counts = np.array(lengths)
    starts = np.cumsum(counts) - counts
    nearest = np.minimum.reduceat(between, starts, axis=1)
    directed: Matrix = np.add.reduceat(nearest, starts, axis=0) / counts[:, None]
    return directed


def pieces(evidence: Evidence) -> Matrix:
    """How far apart the texts of solutions are, whoever summarises them.

    - Pieces of 40 words are compared as steps are in RPD, both lists asking: the mean distance of a
      piece to the nearest piece of the other solution. Before, each piece loses its direction
      along the problem's statement, which all solutions share.
    - A quarter is the distance of the methods that the texts name, a method counting by how rare
      it is.
    - Half of the result is the level at which average linkage joins the pair ([`half_linked`]).

    Reads `"statement"`, `"pieces"` and `"methods"`; values in [0, 2].
    """
    return half_linked(_text_distances(evidence))


def taught(evidence: Evidence) -> Matrix:
    """How far apart solutions are to an encoder that was taught what a strategy is.

    - The same pieces as in [`pieces`], compared in the same way, but by the taught encoder.
    - The mean of a solution's pieces, less most of what the problem's solutions have in common.
    - The numbers and simple expressions that a solution passes through.

    Half of the result is the level at which average linkage joins the pair ([`half_linked`]).
    Reads `"taught"`, `"taught statement"` and `"expressions"`; values in [0, 2].
    """
    return half_linked(_taught_distances(evidence))


def growth(evidence: Evidence) -> Matrix:
    """How differently the work of programs grows with their input, and how far apart their texts
    are.

    Two programs of one strategy take about as many lines more, or fewer, on every input; so the
    logarithms of the lines that they run differ by the same everywhere. Their mean deviation from
    that is added to a half of what [`taught`] compares: on programs that were written with several
    strategies both have the same mean. A pair without two inputs in common counts as the mean of
    the others, and where there is none, [`taught`] remains.

    Reads `"work"` and what [`taught`] reads.
    """
    texts = _taught_distances(evidence)
    counts = np.concatenate(evidence.vectors["work"]).astype(np.float64)
    lines: Any = np.ma.masked_invalid(np.log1p(counts))  # type: ignore[no-untyped-call]
    gaps = lines[:, None] - lines
    known = gaps.count(axis=2) > 1
    pairs = np.triu_indices(len(known), 1)
    if not known[pairs].any():
        return half_linked(texts)
    gaps -= gaps.mean(axis=2, keepdims=True)
    grown = np.abs(gaps).mean(axis=2).filled(0)
    average = grown[pairs][known[pairs]].mean()
    distances: Matrix = np.where(known, grown, average) + texts / 2
    distances[texts == 0] = 0
    return half_linked(distances)


def _taught_distances(evidence: Evidence) -> Matrix:
    parts = zip(TAUGHT_SHARES, taught_parts(evidence), strict=True)
    distances: Matrix = np.sum([share * part for share, part in parts], axis=0)
    texts = ["".join(pieces) for pieces in evidence.texts["taught"]]
    distances[np.equal.outer(texts, texts)] = 0  # without expressions, they would be apart
    return distances


def taught_parts(evidence: Evidence) -> tuple[Matrix, Matrix, Matrix]:
    """Distances of the nearest pieces, of their means, and of the expressions."""
    pieces = evidence.vectors["taught"]
    near = both_ways(
        evidence.texts["taught"], without_statement(evidence, pieces, "taught statement")
    )
    means = np.stack([rows.mean(axis=0, dtype=np.float64) for rows in pieces])
    whole = cosine_distances(means - CENTRE * means.mean(axis=0))
    return near, whole, expression_distances(np.concatenate(evidence.vectors["expressions"]))


def expression_distances(table: npt.NDArray[np.floating]) -> Matrix:
    """Jaccard distances of rows of 0 and 1, drawn to a half where there is little to compare."""
    shared = table.astype(np.float64) @ table.T
    counts = shared.diagonal()
    either = counts[:, None] + counts - shared
    distances: Matrix = (either - shared + FEW_EXPRESSIONS / 2) / (either + FEW_EXPRESSIONS)
    np.fill_diagonal(distances, 0)
    return distances


def combined(evidence: Evidence) -> Matrix:
    """Three quarters `strategy` on steps without the statement's direction, one quarter `pieces`.

    Reads `"steps"` and what [`pieces`] reads; values in [0, 2].
    """
    vectors = without_statement(evidence, evidence.vectors["steps"])
    steps = step_distances(evidence.texts["steps"], vectors)
    return half_linked((1 - TEXT_SHARE) * steps + TEXT_SHARE * _text_distances(evidence))


def half_linked(distances: Matrix) -> Matrix:
    """Half of each distance, which keeps the order within a group, half its [`average_linkage`]."""
    linked: Matrix = (distances + average_linkage(distances)) / 2
    return linked


def _text_distances(evidence: Evidence) -> Matrix:
    vectors = without_statement(evidence, evidence.vectors["pieces"])
    near = both_ways(evidence.texts["pieces"], vectors)
    methods = np.concatenate(evidence.vectors["methods"])
    named = cosine_distances(methods)
    # Equal lists of methods are at distance 0, empty ones too.
    named[(methods[:, None] == methods).all(axis=2)] = 0
    distances: Matrix = (1 - METHODS_SHARE) * near + METHODS_SHARE * named
    return distances


def without_statement(
    evidence: Evidence, vectors: Sequence[npt.NDArray[np.float32]], kind: str = "statement"
) -> list[Matrix]:
    """Vectors without their direction along the problem's statement, if there is one."""
    statement = np.asarray(evidence.vectors[kind][0][0], dtype=np.float64)
    norm = np.linalg.norm(statement)
    direction = statement / norm if norm > 0 and evidence.problem.strip() else 0 * statement
    rows = [np.asarray(array, dtype=np.float64) for array in vectors]
    return [array - np.outer(array @ direction, direction) for array in rows]


def both_ways(texts: Sequence[Sequence[str]], vectors: Sequence[Matrix]) -> Matrix:
    """Mean distance of a text to the nearest one of the other list, averaged over both lists."""
    between = cosine_distances(np.concatenate(list(vectors)))
    # Whatever rounding or a zero vector makes of them.
    _, same = np.unique([text for solution in texts for text in solution], return_inverse=True)
    between[same[:, None] == same] = 0
    directed = _mean_nearest(between, [len(rows) for rows in vectors])
    distances: Matrix = (directed + directed.T) / 2
    np.fill_diagonal(distances, 0)
    return distances


def average_linkage(matrix: npt.ArrayLike) -> Matrix:
    """At which level average linkage (UPGMA) puts two solutions into one group.

    Starting with every solution alone, the two groups with the smallest mean distance between
    their members are joined, until one is left. The level of a pair is that distance at the
    moment they meet. Levels are transitive: `levels <= t` splits the solutions into groups for
    every `t`. Groups that tie are joined at once, so that the result does not depend on the order
    of the solutions (as in multidendrograms, Fernández and Gómez 2008).

    Both directions of a pair are averaged. Raises [`InputError`] for values that are not finite.

    >>> average_linkage([[0, 1, 4], [1, 0, 6], [4, 6, 0]])
    array([[0., 1., 5.],
           [1., 0., 5.],
           [5., 5., 0.]])
    """
    distances = np.array(matrix, dtype=np.float64)
    if not np.isfinite(distances).all():
        raise InputError("average linkage needs finite distances; leave unknown solutions out")
    distances = (distances + distances.T) / 2
    levels = np.zeros_like(distances)
    together = np.eye(len(distances), dtype=bool)
    groups = np.eye(len(distances))  # (k, groups), 1 where the solution is a member
    while groups.shape[1] > 1:
        sizes = groups.sum(axis=0)
        between = (groups.T @ distances @ groups) / np.outer(sizes, sizes)
        np.fill_diagonal(between, np.inf)
        lowest = between.min()
        linked = between <= lowest + TIE
        groups = groups @ _components(linked | linked.T)  # sums of one pair may differ by rounding
        joined = (groups @ groups.T) > 0
        levels[joined & ~together] = lowest
        together = joined
    return levels


def _components(linked: npt.NDArray[np.bool_]) -> Matrix:
    """`(n, components)` membership of the connected components of a symmetric relation."""
    reach = linked | np.eye(len(linked), dtype=bool)
    while ((further := (reach.astype(np.float64) @ reach) > 0) != reach).any():
        reach = further
    first = reach.argmax(axis=1)  # the lowest index of each one's component
    membership: Matrix = (first[:, None] == np.unique(first)).astype(np.float64)
    return membership
