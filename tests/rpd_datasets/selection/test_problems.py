"""Choosing problems, and a budget against a greedy that looks at every solution each time."""

import itertools
import math

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rpd_datasets import select_samples
from rpd_datasets.selection.problems import draw_lot, rank, select_problems, shares
from rpd_datasets.selection.solutions import spending_order
from rpd_metric.errors import InputError


@given(st.lists(st.one_of(st.none(), st.just(float("nan")), st.floats(0, 2))))
def test_rank_is_descending_and_stable_with_unscored_problems_last(scores):
    order = rank(scores)
    assert sorted(order) == list(range(len(scores)))
    keys = [-1 if scores[i] is None or scores[i] != scores[i] else scores[i] for i in order]
    assert keys == sorted(keys, reverse=True)
    for a, b in itertools.pairwise(order):
        if scores[a] == scores[b]:
            assert a < b


@pytest.mark.parametrize("kind", ["dataset", "rows", "stream"])
def test_select_problems_takes_the_best_scores_first(kind):
    rows = [{"problem": str(i), "rpd_score": s} for i, s in enumerate([0.1, None, 0.9, 0.4])]
    ds = datasets.Dataset.from_list(rows)
    given = {"dataset": ds, "rows": rows, "stream": ds.to_iterable_dataset()}[kind]
    assert [row["problem"] for row in select_problems(given, 3)] == ["2", "3", "0"]
    assert [row["problem"] for row in select_problems(given, 9)] == ["2", "3", "0", "1"]
    with pytest.raises(InputError, match=r"no selected; run ds\.map"):
        select_problems(given, 1, "random")
    with pytest.raises(InputError, match="cannot select -1"):
        select_problems(given, -1)


@st.composite
def corpora(draw):
    """Problems with distance matrices of few distinct values, so that ties are common."""
    matrices = []
    for _ in range(draw(st.integers(1, 6))):
        k = draw(st.integers(0, 5))
        half = draw(hnp.arrays(np.float64, (k, k), elements=st.sampled_from([0.0, 1.0, 2.0, 5.0])))
        matrix = np.triu(half, 1) + np.triu(half, 1).T
        for index in draw(st.sets(st.integers(0, k - 1), max_size=k)) if k else ():
            matrix[index, :] = matrix[:, index] = np.nan
        matrices.append(matrix)
    return matrices


def naive(matrices, num_samples, seed):
    """The issue's words: a medoid each, then one by one what adds most, over all problems."""
    usable = [[i for i in range(len(m)) if not math.isnan(m[i, i])] for m in matrices]
    lots = [draw_lot(str(name), seed) for name in range(len(matrices))]
    names = sorted((n for n in range(len(matrices)) if usable[n]), key=lots.__getitem__)
    chosen = {}
    for name in names[:num_samples]:
        sums = [sum(matrices[name][i, j] for j in usable[name]) for i in usable[name]]
        chosen[name] = [usable[name][sums.index(min(sums))]]
    while sum(map(len, chosen.values())) < num_samples:
        best = None
        for name in names[:num_samples]:
            for i in usable[name]:
                if i in chosen[name]:
                    continue
                gain = min(matrices[name][i, j] for j in chosen[name])
                if best is None or gain > best[0]:
                    best = (gain, name, i)
        if best is None:
            break
        chosen[best[1]].append(best[2])
    return chosen


def spent(matrices, num_samples, seed):
    orders = [spending_order(matrix) for matrix in matrices]
    offers = [(str(name), gains) for name, (_, gains) in enumerate(orders)]
    found = shares(offers, num_samples, seed)
    return {name: orders[name][0][:share] for name, share in found.items()}


@given(matrices=corpora(), num_samples=st.integers(1, 20), seed=st.integers(0, 3))
def test_the_largest_gains_are_spent_as_by_the_greedy_over_all(matrices, num_samples, seed):
    assert spent(matrices, num_samples, seed) == naive(matrices, num_samples, seed)


def test_what_a_person_kept_comes_first_and_costs_the_budget_first():
    matrix = [[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]]
    assert spending_order(matrix, first=[2, 0]) == ([2, 0, 1], [math.inf, math.inf, 0.1])


def rows_of(matrices):
    none = [[[None if math.isnan(v) else v for v in row] for row in m.tolist()] for m in matrices]
    return [
        {"problem": str(name), "level": name, "rpd_matrix": matrix, "selected": [0]}
        for name, matrix in enumerate(none)
    ]


@pytest.mark.parametrize("num_samples", [2, 9, 100])
def test_lists_and_datasets_give_the_same(num_samples):
    rng = np.random.default_rng(0)
    matrices = []
    for _ in range(7):
        half = np.triu(rng.random((4, 4)), 1)
        matrices.append(half + half.T)
    rows = rows_of(matrices)
    # Distances other than RPD are the ones that choose, where there are any.
    for row in rows:
        row["distance_matrix"], row["rpd_matrix"] = row["rpd_matrix"], [[0.0] * 4] * 4
    expected = naive(matrices, num_samples, seed=3)
    ds = datasets.Dataset.from_list(rows)
    found = [
        select_samples(rows, num_samples, seed=3),
        select_samples(ds, num_samples, seed=3).to_list(),
    ]
    for one in found:
        assert [(row["level"], row["selected"]) for row in one] == list(expected.items())
    assert sum(len(row["selected"]) for row in found[0]) == min(num_samples, 28)


def test_rows_without_distances_are_refused():
    with pytest.raises(InputError, match="no rpd_matrix; run"):
        select_samples([{"problem": "p"}], 3)
    with pytest.raises(InputError, match="num_samples must be >= 1, got 0"):
        select_samples([], 0)
