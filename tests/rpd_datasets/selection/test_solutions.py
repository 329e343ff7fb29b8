"""Choosing solutions, against a direct reading of Algorithm 2."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rpd_datasets.selection.solutions import GREEDY, SELECTIONS, select_solutions
from rpd_metric.errors import InputError


@st.composite
def matrices(draw, max_size=8):
    k = draw(st.integers(1, max_size))
    # Few distinct values, so that ties are common, and whole ones, so that sums are exact.
    half = draw(hnp.arrays(np.float64, (k, k), elements=st.sampled_from([0.0, 1.0, 3.0, 7.0])))
    matrix = np.triu(half, 1)
    return matrix + matrix.T


def algorithm_2(matrix, m):
    """The paper's listing, line by line, in plain Python."""
    k = len(matrix)
    if m <= 0 or k == 0:
        return []
    sums = [sum(row) for row in matrix]
    first = sums.index(max(sums))
    chosen, remaining = [first], [i for i in range(k) if i != first]
    while len(chosen) < m and remaining:
        smallest = [min(matrix[r][c] for c in chosen) for r in remaining]
        chosen.append(remaining.pop(smallest.index(max(smallest))))
    return chosen


@given(matrix=matrices(), m=st.integers(0, 9))
def test_maxmin_is_algorithm_2(matrix, m):
    assert select_solutions(matrix, m) == algorithm_2(matrix.tolist(), m)


@given(matrix=matrices(), m=st.integers(1, 8))
def test_maxavg_adds_the_highest_average_distance_to_those_chosen(matrix, m):
    chosen = select_solutions(matrix, m, "maxavg")
    for size in range(1, len(chosen)):
        rest = [i for i in range(len(matrix)) if i not in chosen[:size]]
        averages = {i: matrix[i, chosen[:size]].mean() for i in rest}
        assert averages[chosen[size]] == pytest.approx(max(averages.values()))


@given(matrix=matrices(max_size=7), m=st.integers(2, 7))
def test_exact_has_the_largest_smallest_distance_of_all_subsets(matrix, m):
    chosen = select_solutions(matrix, m, "exact")

    def smallest(subset):
        return min((matrix[a, b] for a, b in itertools.combinations(subset, 2)), default=0)

    best = max(map(smallest, itertools.combinations(range(len(matrix)), min(m, len(matrix)))))
    assert smallest(chosen) == best
    assert smallest(select_solutions(matrix, m, "maxmin")) <= best


@pytest.mark.parametrize("method", SELECTIONS)
@given(matrix=matrices(), m=st.integers(-1, 9), data=st.data())
def test_picks_are_distinct_usable_and_as_many_as_there_can_be(method, matrix, m, data):
    unusable = data.draw(st.sets(st.integers(0, len(matrix) - 1)))
    for index in unusable:
        matrix[index, :] = matrix[:, index] = np.nan
    chosen = select_solutions(matrix, m, method)
    usable = set(range(len(matrix))) - unusable
    assert len(chosen) == len(set(chosen)) == max(0, min(m, len(usable)))
    assert set(chosen) <= usable
    assert all(isinstance(index, int) for index in chosen)


def test_ties_go_to_the_lowest_index():
    assert select_solutions([], 3) == []
    matrix = np.ones((4, 4)) - np.eye(4)
    for method in ("maxmin", "maxavg", "exact"):
        assert select_solutions(matrix, 2, method) == [0, 1]


def test_maxmin_avoids_the_second_copy_that_maxavg_picks():
    # 0 and 1 are copies far from 2; 3 is moderately far from all.
    matrix = np.array(
        [[0, 0.0, 1.0, 0.4], [0.0, 0, 1.0, 0.4], [1.0, 1.0, 0, 0.45], [0.4, 0.4, 0.45, 0]]
    )
    assert select_solutions(matrix, 3, "maxmin") == [2, 0, 3]
    assert select_solutions(matrix, 3, "maxavg") == [2, 0, 1]
    assert select_solutions(matrix, 3, "exact") == [0, 2, 3]


@pytest.mark.parametrize("method", SELECTIONS)
@given(matrix=matrices(), m=st.integers(0, 9), data=st.data())
def test_what_is_chosen_already_leads_and_the_method_goes_on_from_there(method, matrix, m, data):
    k = len(matrix)
    first = data.draw(st.lists(st.integers(0, k - 1), unique=True))
    chosen = select_solutions(matrix, m, method, first=first)
    assert len(chosen) == len(set(chosen)) == min(m, k)
    assert set(first[:m]) <= set(chosen)
    if method in GREEDY:
        # To go on from one's own choice changes nothing.
        own = select_solutions(matrix, m, method)
        assert select_solutions(matrix, m, method, first=own[: len(first)]) == own
        assert chosen[: len(first)] == first[:m]


def test_random_repeats_with_its_seed_and_varies_without():
    matrix = np.ones((16, 16)) - np.eye(16)
    assert select_solutions(matrix, 3, "random", seed=5) == select_solutions(
        matrix, 3, "random", seed=5
    )
    assert len({tuple(select_solutions(matrix, 3, "random", seed=s)) for s in range(20)}) > 15


@pytest.mark.parametrize(
    ("matrix", "method", "message"),
    [
        (np.zeros((1000, 1000)), "exact", "499500 subsets of 2 out of 1000"),
        ([[0.0, 1.0]], "maxmin", "a distance matrix is square"),
        ([[0.0, float("nan")], [float("nan"), 0.0]], "maxmin", "NaN in whole rows"),
        ([[0.0, 1.0], [1.0, 0.0]], "best", "unknown selection 'best'"),
        ([[0.0, 1.0], [1.0, 0.0]], "random", "a random choice weighs no quality"),
    ],
)
def test_what_cannot_be_selected_from_is_refused(matrix, method, message):
    with pytest.raises(InputError, match=message):
        select_solutions(matrix, 2, method, quality=[1.0] * 1000, quality_weight=1)


QUALITY_MATRIX = [
    [0.0, 0.5, 0.4, 0.1],
    [0.5, 0.0, 0.3, 0.4],
    [0.4, 0.3, 0.0, 0.4],
    [0.1, 0.4, 0.4, 0.0],
]


def test_quality_is_traded_against_distance_by_the_stated_formula():
    # Means to all others: 0.333, 0.4, 0.367, 0.3. Without quality 1 comes first, then 0.
    assert select_solutions(QUALITY_MATRIX, 2) == [1, 0]
    scores = [0.0, 0.0, 5.0, 10.0]
    # q = 0, 0, 0.5, 1. First: 0.3 + 0.15 for 3 beats 0.4; then from 3: 0.1, 0.4, 0.4 + 0.075.
    assert select_solutions(QUALITY_MATRIX, 2, quality=scores, quality_weight=0.15) == [3, 2]
    # Below 0 low scores are better: 1 as before, then from 1: 0.5, 0.3 - 0.075, 0.4 - 0.15.
    assert select_solutions(QUALITY_MATRIX, 2, quality=scores, quality_weight=-0.15) == [1, 0]
    subset = select_solutions(QUALITY_MATRIX, 2, "exact", quality=scores, quality_weight=0.3)
    assert subset == [2, 3]  # 0.4 + 0.3 x 0.75 is the largest of all six


@given(
    hnp.arrays(np.float64, (6, 6), elements=st.floats(0, 1)),
    st.lists(st.one_of(st.none(), st.integers(0, 2)), min_size=6, max_size=6),
    st.integers(1, 6),
)
def test_one_of_each_group_is_taken_in_turn_and_one_group_changes_nothing(matrix, groups, m):
    distances = matrix + matrix.T
    picks = select_solutions(distances, m, groups=groups)
    assert len(set(picks)) == m
    sizes = Counter(group for group in groups if group is not None)
    taken = Counter(groups[pick] for pick in picks)
    for group, other in itertools.permutations(sizes, 2):
        assert taken[group] >= min(taken[other] - 1, sizes[group])
    assert taken[None] == max(0, m - sum(sizes.values()))
    for alike in ([0] * 6, [None] * 6):
        assert select_solutions(distances, m, groups=alike) == select_solutions(distances, m)
    with pytest.raises(InputError, match="knows no groups"):
        select_solutions(distances, m, "exact", groups=groups)
