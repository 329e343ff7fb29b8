"""Problems out of files, folders and the packaged sample: grouped, limited, in bounded memory."""

import random
import tracemalloc
from pathlib import Path
from typing import Any

import datasets
import pytest

from parts.rows import write_rows
from rpd_datasets.inputs.source import IN_MEMORY, InputSpec, Source, look_at_head, open_source
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError

GROUPED = [
    {"problem": f"What is {n} + {n}?", "solutions": [f"{2 * n}", f"It is {2 * n}."], "level": n}
    for n in range(6)
]
# One row per solution, the solutions of a problem far apart.
FLAT = [
    {"problem": row["problem"], "solution": row["solutions"][at], "level": row["level"]}
    for at in (0, 1)
    for row in GROUPED
]
EXPECTED = [(row["problem"], row["solutions"]) for row in GROUPED]
both_layouts = pytest.mark.parametrize("rows", [GROUPED, FLAT], ids=["grouped", "flat"])


class Opened:
    """A source with what it left out; `spec` is what is opened, or rows to write first."""

    def __init__(self, spec: Any, tmp_path: Path, **options: Any) -> None:
        self.rejects: list[Rejected] = []
        if isinstance(spec, list):
            spec = write_rows(tmp_path / "rows.jsonl", spec)
        self.source: Source = open_source(
            spec, InputSpec(**options), scratch=tmp_path / "scratch", on_reject=self.rejects.append
        )

    @property
    def reasons(self) -> list[tuple[str, str]]:
        return [(reject.reason, reject.where) for reject in self.rejects]

    @property
    def texts(self) -> list[tuple[str, list[str]]]:
        return [(problem.problem, list(problem.solutions)) for problem in self.source]


@both_layouts
def test_a_source_read_twice_gives_the_same_problems_and_reports_rejects_once(tmp_path, rows):
    bad = {"problem": None}
    opened = Opened([rows[0], bad, *rows[1:], bad], tmp_path)
    next(iter(opened.source))
    assert opened.texts == opened.texts == EXPECTED
    assert opened.reasons == [
        ("null_problem", "rows.jsonl:2"),
        ("null_problem", f"rows.jsonl:{len(rows) + 2}"),
    ]
    assert (opened.source.rows_read, opened.source.num_problems) == (len(rows) + 2, 6)


def test_rows_of_parquet_and_in_memory_keep_their_types(tmp_path):
    row = {"problem": "p", "solutions": ["s", "t"], "correct": [True, None], "score": 0.5}
    dataset = datasets.Dataset.from_list([row])
    dataset.to_parquet(tmp_path / "rows.parquet")
    extra = {"correct": [True, None], "score": 0.5}
    for given, where in ((tmp_path / "rows.parquet", "rows.parquet"), (dataset, IN_MEMORY)):
        found = list(Opened(given, tmp_path).source)
        assert found == [Problem("p", ("s", "t"), extra, f"{where}:1")]
    with pytest.raises(InputError, match="the rows are a dict, not a"):
        Opened({"train": dataset}, tmp_path)


def test_an_interrupted_run_does_not_group_again(tmp_path):
    rows = [*FLAT, {"problem": 1, "solution": "s"}]
    next(iter(Opened(rows, tmp_path).source))
    (scratch,) = (tmp_path / "scratch").iterdir()
    made = scratch.stat()

    again = Opened(rows, tmp_path)
    assert again.texts == EXPECTED
    assert again.reasons == [("problem_not_text", "rows.jsonl:13")]
    assert again.source.rows_read == 13
    assert scratch.stat() == made


@both_layouts
def test_other_content_other_options_and_damage_are_grouped_anew(tmp_path, rows):
    assert Opened(rows, tmp_path).texts == EXPECTED
    (scratch,) = (tmp_path / "scratch").iterdir()
    scratch.write_bytes(b"damaged" * 100)
    assert Opened(rows, tmp_path).texts == EXPECTED
    assert Opened(rows, tmp_path, only={"level": "1"}).texts == EXPECTED[1:2]
    assert Opened([row for row in rows if row["level"] < 2], tmp_path).texts == EXPECTED[:2]
    assert len(list((tmp_path / "scratch").iterdir())) == 3


def test_rows_of_one_problem_are_put_together_where_the_first_one_stands(tmp_path):
    rows = [
        {"problem": "p", "solutions": ["a", None], "correct": [True, False], "id": "a"},
        {"problem": "q", "solutions": ["2"], "correct": [True], "id": "b"},
        {"problem": " p\n", "solutions": ["b", "6"], "correct": [True, False], "id": "c"},
        {"problem": "p", "solutions": ["c"], "correct": None, "id": "d"},
    ]
    opened = Opened(rows, tmp_path)
    both, other = list(opened.source)
    assert both.solutions == ("a", "b", "6", "c")
    assert both.extra == {"correct": [True, True, False, None], "id": "a"}
    assert both.where == "rows.jsonl:1 and 2 more"
    assert (other.problem, other.extra["id"]) == ("q", "b")
    assert opened.reasons == [("null_solution", "rows.jsonl:1")]


@both_layouts
def test_a_size_a_limit_and_values_choose_among_the_problems(tmp_path, rows):
    one = {"problem": "one", "solution": "s", "solutions": ["s"], "level": 0}
    rows = [{name: one[name] for name in rows[0]}, *rows]
    sized = Opened(rows, tmp_path, exactly=2)
    assert sized.texts == EXPECTED
    assert sized.reasons == [("wrong_count", "rows.jsonl:1")]
    assert Opened(rows, tmp_path, exactly=2, limit=2).texts == EXPECTED[:2]
    assert Opened(rows, tmp_path, limit=2).texts == [("one", ["s"]), EXPECTED[0]]
    only = Opened(rows, tmp_path, only={"level": "2"})
    assert only.texts == EXPECTED[2:3]
    with pytest.raises(InputError, match=r"no usable problem in its .* rows with level=9"):
        list(Opened(rows, tmp_path, only={"level": "9"}).source)
    with pytest.raises(InputError, match="limit must be >= 1, got 0"):
        InputSpec(limit=0)


def test_the_first_rows_show_columns_and_a_problem_before_anything_is_read(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", FLAT)
    columns, problem = look_at_head(path)
    assert set(columns) == {"problem", "solution", "level"}
    assert problem is not None
    assert (problem.problem, list(problem.solutions)) == EXPECTED[0]
    many = [{"problem": None, "solutions": ["s"]}] * 32
    assert look_at_head(write_rows(path, [*many, GROUPED[0]]))[1] is None  # later rows may hold one
    with pytest.raises(InputError, match=r"no usable problem .*null_problem \(3\)"):
        look_at_head(write_rows(path, many[:3]))


@pytest.mark.parametrize("layout", ["grouped", "flat"])
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path, layout):
    def peak(count: int) -> int:
        rng = random.Random(0)
        texts = enumerate(f"Solution {n}: {rng.random()}" * 60 for n in range(count))
        rows: Any = ({"problem": f"{n % (count // 2)}", "solution": text} for n, text in texts)
        if layout == "grouped":
            rows = ({"problem": f"{n}", "solutions": [text]} for n, text in texts)
        path = write_rows(tmp_path / f"{layout}-{count}.jsonl", rows)
        source = Opened(path, tmp_path).source
        tracemalloc.start()
        assert sum(len(problem.solutions) for problem in source) == count
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(200)  # whatever is loaded once
    assert peak(4_500) < 1.2 * peak(1_500)
