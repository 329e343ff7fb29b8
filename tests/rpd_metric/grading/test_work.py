"""The lines that programs run on growing inputs: counted in the sandbox, compared by `growth`."""

import shutil

import numpy as np
import pytest

from rpd_metric.grading.work import counted_lines
from rpd_metric.measure import distance_matrices
from rpd_metric.models.spec import load_embedder

if shutil.which("bwrap") is None:
    pytest.skip("bubblewrap is not installed (package bubblewrap)", allow_module_level=True)

WHILE = """def total(values):
    at, s = 0, 0
    while at < len(values):
        s += values[at]
        at += 1
    return s"""
LOOP = """Sum them up.
```python
def total(xs):
    s = 0
    for x in xs:
        s += x
    return s
```"""
PAIRS = """def total(xs):
    s = 0
    for x in xs:
        for y in xs:
            s += x * (y == xs[0])
    return s"""
ONCE = "class Solution:\n    def total(self, xs):\n        return sum(xs)"
ENDLESS = "def total(xs):\n    while True:\n        pass"
CHECK = "def check(candidate):\n    assert candidate([1]) == 1"
TESTS = ["assert total([1, 2, 4]) == 7", [[[5, 6, 7, 8]], 26]]
ROW = {"entry_point": "total", "tests": TESTS}


def test_lines_are_counted_on_the_inputs_of_tests_and_on_three_times_as_large_ones():
    table = counted_lines(ROW, [LOOP, PAIRS, ONCE, ENDLESS])
    assert table[:3, :2].tolist() == [[9, 11], [27, 43], [1, 1]]  # for 3 and 4 numbers
    assert table[0, 2:].tolist() == [21, 27]  # for 9 and 12
    assert (table[3] == 20_000).all()
    assert (
        counted_lines(
            ROW | {"test": "def check(candidate):\n    candidate([1])", "tests": None}, [LOOP]
        )[0, 0]
        == 5
    )


@pytest.mark.parametrize(
    "program",
    [
        "no program at all",
        "def another(xs):\n    return 0",
        "def total(xs):\n    raise ValueError",
        "import os\nprint('[1, 2, 3, 4]', flush=True)\nos._exit(0)",
        "import os\nos.write(1, b'[[], {}, 1, 2]')\nos._exit(0)",
    ],
)
def test_a_program_that_cannot_be_run_has_no_counts_and_costs_nobody_else(program):
    table = counted_lines(ROW, [program, LOOP])
    assert np.isnan(table[0]).all()
    assert table[1, 0] == 9


def test_rows_without_tests_run_nothing():
    for row in ({}, {"tests": TESTS}, {"entry_point": "total"}):
        assert counted_lines(row, [LOOP, ENDLESS]).shape == (2, 0)


def test_growth_joins_what_grows_alike_and_is_taught_where_nothing_can_be_run():
    solutions = [LOOP, WHILE, PAIRS, LOOP, "Add the numbers up, one by one."]

    def measured(name, row):
        return distance_matrices([name], "", solutions, None, load_embedder("minilm"), 0, row)[name]

    matrix = measured("growth", ROW)
    assert matrix[0, 1] < matrix[0, 2]
    assert matrix[0, 3] == 0
    assert np.isfinite(matrix).all()
    np.testing.assert_array_equal(measured("growth", {}), measured("taught", ROW))
