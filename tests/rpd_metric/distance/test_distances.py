"""Named distances: what each one sees, and what this project's own and linkage promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from parts.scripted import WordCounts
from rpd_metric.distance.core import rpd_matrix
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.distance.strategy import average_linkage
from rpd_metric.errors import InputError
from rpd_metric.measure import MOST_PIECES, distance_matrices, pieces_read

WORDS = ["factor", "polynomial", "angle", "count", "cases", "matrix", "root", "modulo"]


def measured(name, problem, solutions, steps, encoder, seed=0):
    return distance_matrices([name], problem, solutions, steps, encoder, seed)[name]


steps_of_one = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=4
)
problems = st.lists(steps_of_one, min_size=2, max_size=6)

PROBLEM = "Find the roots."
SOLUTIONS = ["factor the polynomial root", "count the cases modulo", "factor polynomial"]
STEPS = [["factor polynomial", "root"], ["count cases", "modulo"], ["factor polynomial"]]


@pytest.mark.parametrize("name", list(DISTANCES))
def test_every_distance_is_symmetric_and_knows_nothing_of_a_solution_without_text(name):
    assert DISTANCES[name].description
    matrix = measured(name, PROBLEM, [*SOLUTIONS, " "], [*STEPS, ["  "]], WordCounts(WORDS), 0)
    known = matrix[:3, :3]
    assert np.array_equal(known, known.T)
    assert np.array_equal(known.diagonal(), np.zeros(3))
    assert (known >= 0).all()
    if DISTANCES[name].reads:
        assert np.isnan(matrix[3]).all()
        assert np.isnan(matrix[:, 3]).all()
        assert np.isnan(measured(name, PROBLEM, ["", ""], [[], []], WordCounts(WORDS))).all()


@pytest.mark.parametrize("name", [n for n in DISTANCES if n not in ("random", "rpd_first")])
@given(steps=problems, data=st.data())
@settings(max_examples=40)
def test_reordering_the_solutions_reorders_the_matrix(name, steps, data):
    order = data.draw(st.permutations(range(len(steps))))
    texts = [" ".join(solution) for solution in steps]
    matrix = measured(name, PROBLEM, texts, steps, WordCounts(WORDS))
    moved = ([texts[i] for i in order], [steps[i] for i in order])
    moved = measured(name, PROBLEM, *moved, WordCounts(WORDS))
    np.testing.assert_allclose(moved, matrix[np.ix_(order, order)], atol=1e-6)


def test_rpd_is_the_matrix_of_the_paper():
    encoder = WordCounts(WORDS)
    vectors = [encoder.encode(solution) for solution in STEPS]
    for name, ties in (("rpd", "mean"), ("rpd_first", "first")):
        found = measured(name, PROBLEM, SOLUTIONS, STEPS, encoder)
        np.testing.assert_allclose(found, rpd_matrix(vectors, ties=ties), atol=1e-6)


def test_each_text_of_a_problem_is_encoded_once_whatever_is_asked_of_it():
    encoder = WordCounts(WORDS)
    found = distance_matrices(list(DISTANCES), PROBLEM, SOLUTIONS, STEPS, encoder)
    assert list(found) == list(DISTANCES)
    assert sorted(encoder.calls[0]) == sorted(
        {step for solution in STEPS for step in solution}
        | {" ".join(solution) for solution in STEPS if len(solution) > 1}
        | set(SOLUTIONS)
        | {PROBLEM}
    )
    distance_matrices(["random"], PROBLEM, SOLUTIONS, STEPS, encoder)
    assert len(encoder.calls) == 1


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 12))
def test_linkage_without_ties_is_the_cophenetic_distance_of_scipy(seed, k):
    upper = np.triu(np.random.default_rng(seed).random((k, k)), 1)
    matrix = upper + upper.T
    expected = squareform(cophenet(linkage(squareform(matrix), "average")))
    np.testing.assert_allclose(average_linkage(matrix), expected, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 7))
def test_linkage_with_ties_does_not_depend_on_the_order(seed, k):
    generator = np.random.default_rng(seed)
    upper, order = np.triu(generator.integers(0, 3, (k, k)), 1), generator.permutation(k)
    matrix = upper + upper.T
    moved = average_linkage(matrix[np.ix_(order, order)])
    np.testing.assert_allclose(moved, average_linkage(matrix)[np.ix_(order, order)])


def test_linkage_ends_on_a_matrix_that_is_off_by_rounding_and_refuses_nan():
    matrix = np.array([[0, 0.5, 0.5], [0.5 + 1e-7, 0, 0.5], [0.5 - 1e-7, 0.5 + 1e-7, 0]])
    levels = average_linkage(matrix)
    assert (levels == levels.T).all()
    np.testing.assert_allclose(levels[np.triu_indices(3, 1)], 0.5, atol=1e-6)
    matrix[0, 1] = np.nan
    with pytest.raises(InputError, match="needs finite distances"):
        average_linkage(matrix)


def pieces(problem, *solutions):
    return distance_matrices(["pieces"], problem, solutions, None, WordCounts(WORDS))["pieces"]


def test_three_quarters_are_the_pieces_and_one_quarter_the_methods():
    # No method is named in either, and no word is shared: the text alone, three quarters of 1.
    assert pieces("", "angle", "matrices modulo " * 2)[0, 1] == pytest.approx(1.0)
    assert pieces("", "root", "angle")[0, 1] == pytest.approx(0.75)
    # The same pieces to the encoder; one names a method that the other does not.
    assert pieces("", "root induction", "root telescope")[0, 1] == pytest.approx(0.25)


def test_equal_texts_and_steps_are_at_distance_zero_whatever_they_are_written_in():
    for text in ("root angle", "因式分解", "2 + 2 = 4", "By induction."):
        assert pieces("root", text, text)[0, 1] == pytest.approx(0)
        assert measured("strategy", "", [""] * 2, [[text], [text]], WordCounts(WORDS))[0, 1] == 0


def test_a_trace_of_any_length_is_read_in_a_bounded_number_of_pieces_from_start_to_end():
    trace = " ".join(f"word{number}" for number in range(10_000))
    read = pieces_read(trace)
    assert len(read) == MOST_PIECES
    assert read[0].startswith("word0 ")
    assert read[-1].endswith("word9999")
