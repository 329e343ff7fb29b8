"""Choosing problems: a stable ranking, with and without `datasets`."""

import itertools

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.selection.problems import rank, select_problems
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
