"""Gathering rows by problem through a scratch file."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.inputs.grouping import (
    FlatRow,
    Group,
    build_groups,
    decode_values,
    encode_values,
    read_groups,
    read_rejects,
    read_totals,
)
from rpd_datasets.inputs.raw_rows import Place
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError, OutputError

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.decimals("-9", "9")
TIMES = st.datetimes() | st.dates() | st.times() | st.timedeltas()
VALUES = st.recursive(
    PLAIN | TIMES | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def flat(row: int, problem: str, solution: str, file: str = "a.jsonl", **extra: Any) -> FlatRow:
    return FlatRow(Place(file, row), problem, solution, extra)


def gather(path: Path, *rows: FlatRow | Rejected) -> list[Group]:
    build_groups(path, iter(rows), totals=lambda: {"rows_read": len(rows)})
    return list(read_groups(path))


def test_rows_of_a_problem_come_together_from_wherever_they_stand(tmp_path: Path) -> None:
    groups = gather(
        tmp_path / "g.sqlite",
        flat(1, "p", "first"),
        flat(2, "q", "only"),
        flat(3, "p ", "second"),
        flat(4, "\tp", "third"),
    )

    assert [(group.problem, group.solutions) for group in groups] == [
        ("p", ("first", "second", "third")),
        ("q", ("only",)),
    ]


def test_a_group_names_its_rows(tmp_path: Path) -> None:
    groups = gather(
        tmp_path / "g.sqlite",
        flat(1, "alone", "x"),
        flat(2, "near", "x"),
        flat(3, "near", "y"),
        flat(4, "near", "z"),
        flat(5, "far", "x"),
        flat(1, "far", "y", file="b.jsonl"),
    )

    assert [group.where for group in groups] == ["a.jsonl:1", "a.jsonl:2-4", "a.jsonl:5 and 1 more"]


def test_columns_that_vary_within_any_problem_are_lists_in_every_problem(tmp_path: Path) -> None:
    groups = gather(
        tmp_path / "g.sqlite",
        flat(1, "p", "x", level=3, correct=True, late=None),
        flat(2, "p", "y", level=3, correct=False),
        flat(3, "q", "z", level=4, correct=True, more=["a"]),
    )

    assert [group.extra for group in groups] == [
        {"level": 3, "correct": [True, False], "late": None, "more": None},
        {"level": 4, "correct": [True], "late": None, "more": ["a"]},
    ]


def test_a_column_of_nan_does_not_vary(tmp_path: Path) -> None:
    groups = gather(
        tmp_path / "g.sqlite",
        flat(1, "p", "x", score=math.nan, other=1),
        flat(2, "p", "y", score=math.nan, other=2),
    )

    assert math.isnan(groups[0].extra["score"])
    assert groups[0].extra["other"] == [1, 2]


def test_text_with_nul_characters_and_ten_megabytes_come_back_whole(tmp_path: Path) -> None:
    huge = "x\0é\n" * 2_500_000
    groups = gather(tmp_path / "g.sqlite", flat(1, "p\0q", huge))

    assert groups[0].problem == "p\0q"
    assert groups[0].solutions == (huge,)


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.text()), min_size=1, max_size=20))
def test_grouping_agrees_with_a_dictionary(
    rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected: dict[str, list[str]] = {}
    for problem, solution in rows:
        expected.setdefault(problem, []).append(solution)

    path = tmp_path_factory.mktemp("groups") / "g.sqlite"
    groups = gather(path, *(flat(at, *row) for at, row in enumerate(rows, start=1)))

    assert [(group.problem, list(group.solutions)) for group in groups] == list(expected.items())


def test_rejects_and_totals_are_kept_for_a_later_run(tmp_path: Path) -> None:
    bad = Rejected("read", "null_solution", "a.jsonl:2", "The solution is null.", "p")
    gather(tmp_path / "g.sqlite", flat(1, "p", "x"), bad)

    assert list(read_rejects(tmp_path / "g.sqlite")) == [bad]
    assert read_totals(tmp_path / "g.sqlite") == {"rows_read": 2}


def test_an_interrupted_build_leaves_no_file_and_can_be_repeated(tmp_path: Path) -> None:
    def interrupted() -> Iterator[FlatRow]:
        yield flat(1, "p", "x")
        raise KeyboardInterrupt

    path = tmp_path / "g.sqlite"
    with pytest.raises(KeyboardInterrupt):
        build_groups(path, interrupted(), totals=dict)
    assert read_totals(path) is None

    assert [group.solutions for group in gather(path, flat(1, "p", "y"))] == [("y",)]
    assert [file.name for file in tmp_path.iterdir()] == ["g.sqlite"]


def test_a_damaged_scratch_file_counts_as_absent(tmp_path: Path) -> None:
    path = tmp_path / "g.sqlite"
    path.write_bytes(b"not a database" * 100)
    assert read_totals(path) is None

    sqlite3.connect(tmp_path / "empty.sqlite").close()
    assert read_totals(tmp_path / "empty.sqlite") is None


def test_a_scratch_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(OutputError, match="cannot be written"):
        gather(tmp_path / "file" / "g.sqlite", flat(1, "p", "x"))


@given(values=st.dictionaries(st.text(), VALUES, max_size=4))
def test_column_values_survive_the_scratch_file(values: dict[str, Any]) -> None:
    assert decode_values(encode_values(values)) == values


def test_values_that_parquet_has_and_json_lacks_keep_their_type() -> None:
    values = {
        "at": datetime(2024, 5, 1, 12, 30, 0, 5, tzinfo=timezone(timedelta(hours=2))),
        "on": date(2024, 5, 1),
        "time": time(1, 2, 3),
        "took": timedelta(days=-1, microseconds=3),
        "price": Decimal("1.10"),
        "image": b"\x89PNG",
    }

    back = decode_values(encode_values(values))

    assert back == values
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in values.items()
    }


def test_a_value_that_cannot_be_carried_along_is_one_error() -> None:
    with pytest.raises(InputError, match=r"it holds a complex. Its columns are z, n;"):
        encode_values({"z": 1j, "n": 1})
