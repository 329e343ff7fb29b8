"""Average linkage: having the same strategy is transitive, resemblance is not.

The levels at which solutions join groups, and nothing else: which distances they are taken of is
decided where they are used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Matrix = npt.NDArray[np.float64]

# Far above rounding errors and far below any difference between embeddings that means something.
TIE = 1e-9


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
    >>> from rpd_metric.distance.linkage import average_linkage
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
