"""`strategy`: this project's own distance between lists of steps.

What was tried on the way and what it was worth is the log in `benchmarks/distances.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.evidence import Evidence
from rpd_metric.distance.linkage import average_linkage
from rpd_metric.distance.wording import cosines, four_grams

Matrix = npt.NDArray[np.float64]


def strategy_matrix(
    steps: Sequence[Sequence[str]], vectors: Sequence[npt.NDArray[np.floating]]
) -> Matrix:
    """Pairwise distances that see a change of strategy better than RPD does.

    Three things differ from RPD, each with equal shares and without a fitted number:

    - two steps are compared by meaning and by wording: the mean of the cosine of their
      embeddings and the cosine of their sets of character four-grams (see `wording.py`);
    - both lists ask, and the larger mean counts. A solution that contains another one and
      goes on to something else is different, which the shorter list alone cannot tell;
    - using the same strategy is an equivalence: if A resembles C and B resembles C, so do A
      and B, however differently they put it. Half of the result is therefore the level at which
      average linkage joins the pair ([`average_linkage`]), half is the pair's own distance,
      which keeps the order within a group.

    The values are larger than those of RPD: wordings agree less than meanings. A pair's value
    depends on the problem's other solutions; it does not depend on their order.

    Args:
        steps (`Sequence`): Per solution, its steps; at least one.
        vectors (`Sequence` of arrays of shape `(n_i, d)`): Their embeddings.

    Returns:
        `array` of shape `(k, k)`: Values in [0, 1.5].
    """
    pairs = step_distances(steps, vectors)
    matrix: Matrix = (pairs + average_linkage(pairs)) / 2
    return matrix


def step_distances(
    steps: Sequence[Sequence[str]], vectors: Sequence[npt.NDArray[np.floating]]
) -> Matrix:
    """The first two of the three: by meaning and by wording, the larger direction."""
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
    lengths = np.array([len(solution) for solution in steps])
    starts = np.cumsum(lengths) - lengths
    closest = np.minimum.reduceat(between, starts, axis=1)
    asked = np.add.reduceat(closest, starts, axis=0) / lengths[:, None]
    pairs: Matrix = np.maximum(asked, asked.T)
    return pairs


def strategy(evidence: Evidence) -> Matrix:
    """[`strategy_matrix`] of a problem's solutions."""
    return strategy_matrix(evidence.texts["steps"], evidence.vectors["steps"])
