"""The numbers: rpd_distance, rpd_matrix, problem_score, against a slow second implementation."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rpd_metric import rpd_alignment, rpd_distance, rpd_matrix
from rpd_metric.distance.core import mean_pairwise, problem_score
from rpd_metric.errors import InputError

# RPD written a second time, from the paper's Algorithm 3 alone: plain loops, float64.
Vector = Sequence[float]


def cosine_distance(a: Vector, b: Vector) -> float:
    largest_a, largest_b = max(map(abs, a)), max(map(abs, b))
    if largest_a == 0 or largest_b == 0:
        return 0.0 if largest_a == largest_b else 1.0
    a = [value / largest_a for value in a]
    b = [value / largest_b for value in b]
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    norms = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    return min(2.0, max(0.0, 1.0 - dot / norms))


def asks(asking: Sequence[Vector], answering: Sequence[Vector]) -> float:
    return math.fsum(
        min(cosine_distance(step, other) for other in answering) for step in asking
    ) / len(asking)


def slow_rpd(a: Sequence[Vector], b: Sequence[Vector], ties: str = "mean") -> float:
    if len(a) == 0 or len(b) == 0:
        return 1.0
    if len(a) == len(b) and ties == "mean":
        return (asks(a, b) + asks(b, a)) / 2
    return asks(a, b) if len(a) <= len(b) else asks(b, a)


values = st.floats(-100, 100, allow_subnormal=False).map(lambda x: 0.0 if abs(x) < 1e-3 else x)


@st.composite
def problems(draw, min_solutions=2, max_solutions=6, min_steps=0, dtype=np.float64):
    """Step embeddings of one problem's solutions; whole steps recur, as they do in real ones."""
    dimension = draw(st.integers(1, 6))
    pool = draw(hnp.arrays(dtype, (4, dimension), elements=values.map(lambda x: float(dtype(x)))))
    rows = st.one_of(
        st.sampled_from(range(4)).map(lambda i: pool[i]),
        hnp.arrays(dtype, (dimension,), elements=values.map(lambda x: float(dtype(x)))),
    )
    lists = draw(
        st.lists(
            st.lists(rows, min_size=min_steps, max_size=6),
            min_size=min_solutions,
            max_size=max_solutions,
        )
    )
    return [np.array(steps, dtype=dtype).reshape(len(steps), dimension) for steps in lists]


def assert_slow(solutions, ties, within):
    """Symmetric, zero on the diagonal, and what the slow implementation says elsewhere."""
    matrix = rpd_matrix(solutions, ties=ties)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diagonal(matrix), 0)
    for i, j in itertools.combinations(range(len(solutions)), 2):
        expected = slow_rpd(solutions[i], solutions[j], ties)
        assert matrix[i, j] == pytest.approx(expected, abs=within)
    return matrix


@pytest.mark.parametrize("ties", ["mean", "first"])
@given(solutions=problems())
def test_matrix_equals_the_slow_implementation(solutions, ties):
    matrix = assert_slow(solutions, ties, 1e-9)
    assert ((matrix >= 0) & (matrix <= 2)).all()


@given(solutions=problems(dtype=np.float32))
def test_float32_stays_float32_and_agrees_to_its_precision(solutions):
    matrix = assert_slow(solutions, "mean", 2e-6)
    if any(len(steps) for steps in solutions):
        assert matrix.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dimension", [3, 384, 4096])
def test_identical_lists_are_exactly_0_at_the_sizes_of_real_embeddings(dtype, dimension):
    rng = np.random.default_rng(0)
    solutions = [rng.standard_normal((n, dimension)).astype(dtype) for n in (3, 4, 5, 4)]
    matrix = rpd_matrix([*solutions, *solutions])
    assert [matrix[i, i + 4] for i in range(4)] == [0, 0, 0, 0]
    assert np.count_nonzero(matrix == 0) == 8 + 8


def test_ties_first_lets_the_first_argument_ask_and_mean_averages():
    a = [[1.0, 0.0], [1.0, 0.0]]
    b = [[1.0, 0.0], [0.0, 1.0]]
    assert rpd_distance(a, b, ties="first") == 0.0
    assert rpd_distance(b, a, ties="first") == 0.5
    assert rpd_distance(a, b) == rpd_distance(b, a) == 0.25
    assert rpd_matrix([b, a], ties="first").tolist() == [[0.0, 0.5], [0.5, 0.0]]


def test_an_empty_list_is_at_distance_1_as_in_algorithm_3():
    assert rpd_distance([], [[1.0, 2.0]]) == 1.0
    assert rpd_distance(np.zeros((0, 2)), np.zeros((0, 2))) == 1.0
    assert rpd_matrix([[], [[1.0, 0.0]]]).tolist() == [[0, 1], [1, 0]]
    assert rpd_matrix([]).shape == (0, 0)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_huge_and_tiny_vectors_neither_overflow_nor_vanish(size):
    a, b = np.array([[size, 0.0]]), np.array([[size, size]])
    assert rpd_distance(a, b) == pytest.approx(1 - np.sqrt(0.5))


@pytest.mark.parametrize(
    ("solutions", "message"),
    [
        ([np.eye(2), np.ones(3)], "solution 1: step embeddings are a"),
        ([np.eye(2), np.ones((1, 3))], "solution 1 has embeddings of dimension 3"),
        ([np.ones((1, 1, 2)), np.ones((1, 1, 2))], "solution 0: step embeddings are a"),
        ([np.array([["a", "b"]]), np.eye(2)], "solution 0: step embeddings are a"),
        ([np.eye(2), np.zeros((0, 2)), [[1.0, 0.0], [np.nan, 1.0]]], "solution 2 holds NaN or inf"),
    ],
)
def test_wrong_shapes_are_one_clear_error(solutions, message):
    with pytest.raises(InputError, match=message):
        rpd_matrix(solutions)
    with pytest.raises(InputError, match="ties is 'last'"):
        rpd_matrix([np.eye(2), np.eye(2)], ties="last")


@pytest.mark.parametrize("ties", ["mean", "first"])
@given(solutions=problems(min_solutions=2, max_solutions=2, min_steps=1))
def test_the_distance_is_the_mean_over_the_aligned_steps(solutions, ties):
    a, b = solutions
    matches = rpd_alignment(a, b, ties=ties)
    mean = np.mean([match.distance for match in matches])
    assert mean == pytest.approx(rpd_distance(a, b, ties=ties), abs=1e-9)
    for match in matches:
        asking, asked = (a, b) if match.asker == "a" else (b, a)
        apart = [slow_rpd(asking[[match.step]], asked[[other]]) for other in range(len(asked))]
        assert apart[match.match] == pytest.approx(min(apart), abs=1e-9)
        assert match.distance == pytest.approx(min(apart), abs=1e-9)


def test_scores_are_of_the_distances_to_the_others_unusable_solutions_left_out():
    matrix = [[0, 0.1, 0.2], [0.1, 0, 0.6], [0.2, 0.6, 0]]
    assert problem_score(matrix) == pytest.approx(0.4)
    assert mean_pairwise(matrix) == pytest.approx(0.3)
    nan = float("nan")
    matrix = [[0, nan, 0.4], [nan, nan, nan], [0.4, nan, 0]]
    assert problem_score(matrix) == mean_pairwise(matrix) == pytest.approx(0.4)
