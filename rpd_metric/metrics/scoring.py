"""From step texts to distance matrices: encode every distinct step once, then compare.

The middle of the pipeline, shared by the metric and by curation. Steps come in as text;
making steps of solutions is `rpd_metric.steps`, the arithmetic `rpd_metric.distance`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import Ties, rpd_matrix
from rpd_metric.inference.embedders import Embedder


def step_matrices(
    problems: Sequence[Sequence[Sequence[str]]], embedder: Embedder, ties: Ties = "mean"
) -> list[npt.NDArray[np.float64]]:
    """Distance matrices of several problems, with one call to the encoder for all of them.

    Args:
        problems (`Sequence`): Per problem, per solution, the list of its steps.
            Whitespace-only steps are no steps.
        embedder ([`~rpd_metric.inference.embedders.Embedder`]): Encodes the steps.
        ties (`"mean"` or `"first"`): See [`~rpd_metric.rpd_distance`].

    Returns:
        `list` of arrays of shape `(k, k)`: One per problem. A solution without steps has NaN in
        its row and column: it is unknown, not maximally far away, which is what Algorithm 3
        alone would make of it.
    """
    cleaned = [
        [[step for step in steps if step.strip()] for steps in solutions] for solutions in problems
    ]
    distinct = list(
        dict.fromkeys(step for solutions in cleaned for steps in solutions for step in steps)
    )
    if not distinct:
        return [np.full((len(solutions), len(solutions)), np.nan) for solutions in cleaned]
    vectors = embedder.encode(distinct)
    row_of = {step: row for row, step in enumerate(distinct)}
    matrices = []
    for solutions in cleaned:
        usable = [index for index, steps in enumerate(solutions) if steps]
        matrix = np.full((len(solutions), len(solutions)), np.nan)
        matrix[np.ix_(usable, usable)] = rpd_matrix(
            [vectors[[row_of[step] for step in solutions[index]]] for index in usable], ties=ties
        )
        matrices.append(matrix)
    return matrices
