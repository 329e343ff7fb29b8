"""`ds.map(rpd_curate)` wherever a program runs: scripts, notebooks, event loops, processes."""

import asyncio
import warnings
from typing import Any

import datasets
import pytest

from rpd_datasets import CurationConfig, rpd_curate, select_problems
from rpd_metric.distance.distances import DISTANCES, Distance
from rpd_metric.errors import InputError

CONFIG = CurationConfig(num_solutions=2)
WAYS = ("factor", "complete the square for", "apply the quadratic formula to")
ROWS = [
    {
        "problem": f"What is the larger root of problem {n}?",
        "solutions": [
            f"First we {way} it. Then read off the root. The answer is {n}." for way in WAYS
        ],
        "level": n,
    }
    for n in range(6)
]


def rows() -> datasets.Dataset:
    return datasets.Dataset.from_list(ROWS)


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return rows().map(rpd_curate, fn_kwargs={"config": CONFIG}).to_list()


def test_map_works_where_an_event_loop_is_running(expected):
    async def cell() -> list[dict[str, Any]]:
        return rows().map(rpd_curate, fn_kwargs={"config": CONFIG}).to_list()

    assert asyncio.run(cell()) == expected


@pytest.mark.parametrize(
    "options",
    [{"num_proc": 2}, {"batched": True, "batch_size": 4}],
    ids=lambda options: next(iter(options)),
)
def test_every_way_of_mapping_gives_the_same_rows(expected, options):
    mapped = rows().map(rpd_curate, fn_kwargs={"config": CONFIG}, **options)
    assert mapped.to_list() == expected


def test_a_stream_is_mapped_and_selected_from(expected):
    stream = rows().to_iterable_dataset().map(rpd_curate, fn_kwargs={"config": CONFIG})
    whole = select_problems(expected, 3)
    assert [row["problem"] for row in select_problems(stream, 3)] == [
        row["problem"] for row in whole
    ]


def test_a_configuration_that_is_none_is_one_line():
    with pytest.raises(InputError, match=r"must be CurationConfig\(...\), not dict"):
        rpd_curate(ROWS[0], config={"num_solutions": 2})


def test_columns_that_are_called_like_ours_are_kept_under_another_name():
    named = rows().add_column("steps", [f"mine {n}" for n in range(6)])
    with pytest.warns(UserWarning, match="'steps' of these rows is kept as 'original_steps'"):
        mapped = named.map(rpd_curate, fn_kwargs={"config": CONFIG})
    assert mapped["original_steps"][:2] == ["mine 0", "mine 1"]
    with warnings.catch_warnings():
        # What an earlier map made is no column of the user's. Warnings of this class only: datasets
        # leaves event loops to the garbage collection, which may come at any moment.
        warnings.simplefilter("error", UserWarning)
        again = mapped.map(rpd_curate, fn_kwargs={"config": CurationConfig(num_solutions=1)})
    assert again["original_steps"][0] == "mine 0"
    assert len(again["selected"][0]) == 1


def test_a_fault_of_another_packages_part_costs_its_row_only(monkeypatch):
    def fails(evidence):
        raise KeyError("solution")

    fault = Distance("faulty", fails, ("text",), "a distance that fails")
    monkeypatch.setattr(DISTANCES, "_ours", {**DISTANCES._ours, "faulty": fault})
    config = CurationConfig(num_solutions=2, problems="faulty", solutions="faulty")
    row = dict(rpd_curate({**ROWS[0], "solutions": [None, *ROWS[0]["solutions"]]}, config))
    assert row["drop_reasons"] == ["not_text"] + ["plugin_failed"] * 3
    assert row["selected"] == []
    assert row["distance_matrix"] == row["rpd_matrix"] == [[None] * 4] * 4
