"""Distance matrices as arrays with NaN, and as plain rows with None.

In an array, a distance that does not exist is NaN; in JSON, Parquet and rows of `datasets` it is
null, because JSON has no NaN. The two conversions between them, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MatrixRows = list[list[float | None]]
"""A distance matrix in a row of a dataset."""


def none_for_nan(matrix: npt.NDArray[np.float64]) -> MatrixRows:
    """Turn a `(k, k)` matrix into nested lists, with None in the place of NaN.

    >>> none_for_nan(np.array([[0.0, np.nan], [np.nan, 0.5]]))
    [[0.0, None], [None, 0.5]]
    """
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def nan_for_none(rows: Sequence[Sequence[float | None]]) -> npt.NDArray[np.float64]:
    """Turn what [`none_for_nan`] returns into a matrix again.

    >>> nan_for_none([[0.0, None], [None, 0.5]])
    array([[0. , nan],
           [nan, 0.5]])
    """
    return np.array(rows, dtype=np.float64)
