"""The two conversions between NaN in arrays and None in rows."""

import json

import numpy as np

from rpd_metric import mean_pairwise, problem_score
from rpd_metric.arrays import nan_for_none, none_for_nan


def test_a_matrix_comes_back_from_json_as_it_was():
    matrix = np.array([[0.0, np.nan, 0.25], [np.nan, np.nan, np.nan], [0.25, np.nan, 0.0]])
    rows = json.loads(json.dumps(none_for_nan(matrix), allow_nan=False))
    np.testing.assert_array_equal(nan_for_none(rows), matrix)
    assert mean_pairwise(nan_for_none(rows)) == problem_score(matrix) == 0.25


def test_a_problem_without_solutions_has_no_distances():
    assert none_for_nan(np.zeros((0, 0))) == []
    assert mean_pairwise(nan_for_none([])) is None
