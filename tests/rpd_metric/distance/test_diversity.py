"""Groups by distance."""

import numpy as np

from rpd_metric.distance.diversity import strategy_groups


def test_a_chain_of_small_differences_is_not_one_strategy():
    places = np.array([0.0, 0.29, 0.6, 0.88])
    matrix = np.abs(places[:, None] - places)
    assert strategy_groups(matrix, 0.35) == [0, 0, 1, 1]
    # Solutions without distances belong to no group.
    matrix[1] = matrix[:, 1] = np.nan
    assert strategy_groups(matrix, 0.35) == [0, None, 1, 1]
    assert strategy_groups(np.full((2, 2), np.nan), 0.5) == [None, None]
