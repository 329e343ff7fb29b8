"""`pieces` and `combined`: what a solution's own text says about its strategy.

`pieces` needs no steps and no language model: the text in pieces, and the methods that it names.
`combined` adds a share of it to `strategy` on steps. What each part is worth, with intervals, is in
`docs/distances.md`; `benchmarks/distances.py` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.evidence import Evidence
from rpd_metric.distance.linkage import average_linkage
from rpd_metric.distance.strategy import step_distances
from rpd_metric.distance.wording import cosine_distances

Matrix = npt.NDArray[np.float64]

# A quarter each: whole shares, not fitted ones. From 0.2 to 0.3 the figures hardly move.
METHODS_SHARE = 0.25
TEXT_SHARE = 0.25


def pieces(evidence: Evidence) -> Matrix:
    """How far apart the texts of solutions are, whoever summarises them.

    - Pieces of 40 words are compared as steps are in RPD, both lists asking: the mean distance of a
      piece to the nearest piece of the other solution. Before, each piece loses its direction
      along the problem's statement, which all solutions share.
    - A quarter is the distance of the methods that the texts name, a method counting by how rare
      it is.
    - Half of the result is the level at which average linkage joins the pair: having the same
      strategy is transitive.

    Args:
        evidence ([`Evidence`]): With `"statement"`, `"pieces"` and `"methods"`.

    Returns:
        `array` of shape `(k, k)`: Values in [0, 2].
    """
    return _half_linked(_text_distances(evidence))


def combined(evidence: Evidence) -> Matrix:
    """Three quarters `strategy` on steps without the statement's direction, one quarter `pieces`.

    Args:
        evidence ([`Evidence`]): With `"steps"` and the kinds that [`pieces`] reads.

    Returns:
        `array` of shape `(k, k)`: Values in [0, 2].
    """
    vectors = without_statement(evidence, evidence.vectors["steps"])
    steps = step_distances(evidence.texts["steps"], vectors)
    return _half_linked((1 - TEXT_SHARE) * steps + TEXT_SHARE * _text_distances(evidence))


def _half_linked(distances: Matrix) -> Matrix:
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
    evidence: Evidence, vectors: Sequence[npt.NDArray[np.float32]]
) -> list[Matrix]:
    """Unit vectors without their projection on the problem's statement.

    Args:
        evidence ([`Evidence`]): With `"statement"`; nothing is taken away where that is blank.
        vectors (`Sequence` of arrays of shape `(n_i, d)`): Per solution.

    Returns:
        `list` of arrays of the same shapes.
    """
    statement = np.asarray(evidence.vectors["statement"][0][0], dtype=np.float64)
    norm = np.linalg.norm(statement)
    direction = statement / norm if norm > 0 and evidence.problem.strip() else 0 * statement
    rows = [np.asarray(array, dtype=np.float64) for array in vectors]
    return [array - np.outer(array @ direction, direction) for array in rows]


def both_ways(texts: Sequence[Sequence[str]], vectors: Sequence[Matrix]) -> Matrix:
    """Mean distance of a text to the nearest one of the other list, averaged over both lists.

    Args:
        texts (`Sequence`): Per solution, at least one; equal ones are at distance 0.
        vectors (`Sequence` of arrays of shape `(n_i, d)`): Their embeddings.

    Returns:
        `array` of shape `(k, k)`: Cosine distances, in [0, 2].
    """
    between = cosine_distances(np.concatenate(list(vectors)))
    # Whatever rounding or a zero vector makes of them.
    _, same = np.unique([text for solution in texts for text in solution], return_inverse=True)
    between[same[:, None] == same] = 0
    lengths = np.array([len(rows) for rows in vectors])
    starts = np.cumsum(lengths) - lengths
    nearest = np.minimum.reduceat(between, starts, axis=1)
    asked = np.add.reduceat(nearest, starts, axis=0) / lengths[:, None]
    distances: Matrix = (asked + asked.T) / 2
    np.fill_diagonal(distances, 0)
    return distances
