"""Rows of one problem brought together through a scratch file."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_datasets.inputs.gathering import join_rows, read_gathered, read_info, write_scratch
from rpd_datasets.inputs.raw_rows import decode_values, encode_values
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError, OutputError

PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.decimals("-9", "9")
TIMES = st.datetimes() | st.dates() | st.times() | st.timedeltas()
VALUES = st.recursive(
    PLAIN | TIMES | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
BAD = Rejected("read", "null_solution", "a.jsonl:2", "The solution is null.", "p")


def flat(row: int, problem: str, solution: str, file: str = "a.jsonl", **extra: Any) -> Problem:
    return Problem(problem, (solution,), extra, f"{file}:{row}")


def gather(path: Path, *rows: Problem | Rejected) -> list[Problem]:
    write_scratch(path, rows, lambda: len(rows), one_each=True)
    return [item for item in read_gathered(path) if isinstance(item, Problem)]


def test_columns_that_vary_within_any_problem_are_lists_in_every_problem(tmp_path):
    found = gather(
        tmp_path / "g.sqlite",
        flat(1, "p", "x", level=3, correct=True, late=None, score=math.nan),
        flat(2, "p", "y", level=3, correct=False, score=math.nan),
        flat(3, "q", "z", level=4, correct=True, more=["a"]),
    )
    assert math.isnan(found[0].extra["score"])  # equal to itself here, so that it does not vary
    assert [{**one.extra, "score": 0} for one in found] == [
        {"level": 3, "correct": [True, False], "late": None, "score": 0, "more": None},
        {"level": 4, "correct": [True], "late": None, "score": 0, "more": ["a"]},
    ]


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.text()), min_size=1, max_size=20))
def test_gathering_and_joining_agree_with_a_dictionary(rows, tmp_path_factory):
    expected: dict[str, list[str]] = {}
    for problem, solution in rows:
        expected.setdefault(problem, []).append(solution)

    folder = tmp_path_factory.mktemp("groups")
    made = [flat(at, *row) for at, row in enumerate(rows, start=1)]
    write_scratch(folder / "joined.sqlite", made, lambda: len(made), one_each=False)
    joined = join_rows(folder / "joined.sqlite", made)
    for found in (gather(folder / "g.sqlite", *made), joined):
        assert [(one.problem, list(one.solutions)) for one in found] == list(expected.items())


def test_an_interrupted_run_leaves_nothing_and_a_finished_one_all_that_it_saw(tmp_path):
    def interrupted() -> Iterator[Problem]:
        yield flat(1, "p", "x")
        raise KeyboardInterrupt

    path = tmp_path / "g.sqlite"
    with pytest.raises(KeyboardInterrupt):
        write_scratch(path, interrupted(), lambda: 1, one_each=True)
    assert read_info(path) is None

    assert gather(path, flat(1, "p", "y"), BAD) == [flat(1, "p", "y")]
    assert next(read_gathered(path)) == BAD
    info = read_info(path) or {}
    assert (info["rows_read"], info["problems"]) == (2, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["g.sqlite"]


def test_a_scratch_file_must_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        gather(tmp_path / "file" / "g.sqlite", flat(1, "p", "x"))


@given(values=st.dictionaries(st.text(), VALUES, max_size=4))
def test_column_values_survive_the_scratch_file(values):
    assert decode_values(encode_values(values)) == values

    with pytest.raises(InputError, match=r"it holds a complex. Its columns are z, n;"):
        encode_values({"z": 1j, "n": 1})
