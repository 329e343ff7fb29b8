"""Problems out of files, folders and the packaged sample, in every layout."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import datasets
import pytest

from rpd_datasets.inputs.source import IN_MEMORY, InputSpec, Source, look_at_head, open_source
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

PROBLEMS = [
    {"problem": f"What is {n} + {n}?", "solutions": [f"{2 * n}", f"It is {2 * n}."], "level": n}
    for n in range(6)
]


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def flat_rows(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per solution, the solutions of a problem far apart."""
    pairs = [
        (at, {"problem": row["problem"], "solution": solution, "level": row["level"]})
        for row in problems
        for at, solution in enumerate(row["solutions"])
    ]
    return [row for _, row in sorted(pairs, key=lambda pair: pair[0])]


def conversations(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "difficulty": row["level"],
            "source": "made for this test",
            "domain": "math",
            "conversations": [
                {"from": "human", "value": row["problem"]},
                {"from": "gpt", "value": f"<think>\nHm.\n</think>\n{row['solution']}"},
            ],
        }
        for row in rows
    ]


class Opened:
    """A source with what it left out."""

    def __init__(self, spec: Any, tmp_path: Path, **options: Any) -> None:
        self.rejects: list[Rejected] = []
        self.source: Source = open_source(
            spec, InputSpec(**options), scratch=tmp_path / "scratch", on_reject=self.rejects.append
        )

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for reject in self.rejects]


def texts(source: Source) -> list[tuple[str, list[str]]]:
    return [(problem.problem, list(problem.solutions)) for problem in source]


EXPECTED = [(row["problem"], row["solutions"]) for row in PROBLEMS]


def test_grouped_flat_and_conversation_rows_give_the_same_problems(tmp_path: Path) -> None:
    flat = flat_rows(PROBLEMS)
    grouped = Opened(write(tmp_path / "g.jsonl", PROBLEMS), tmp_path)
    one_each = Opened(write(tmp_path / "f.jsonl", flat), tmp_path)
    talks = Opened(write(tmp_path / "c.jsonl", conversations(flat)), tmp_path)

    assert grouped.source.layout == "grouped"
    assert texts(grouped.source) == EXPECTED
    assert one_each.source.layout == "flat"
    assert texts(one_each.source) == EXPECTED
    assert talks.source.layout == "openthoughts"
    assert texts(talks.source) == [
        (problem, [f"<think>\nHm.\n</think>\n{solution}" for solution in solutions])
        for problem, solutions in EXPECTED
    ]
    first = next(iter(talks.source))
    assert first.extra == {"difficulty": 0, "source": "made for this test", "domain": "math"}
    assert grouped.rejects + one_each.rejects + talks.rejects == []


def test_rows_of_parquet_and_in_memory_keep_their_types(tmp_path: Path) -> None:
    row = {"problem": "p", "solutions": ["s", "t"], "correct": [True, None], "score": 0.5}
    dataset = datasets.Dataset.from_list([row])
    dataset.to_parquet(tmp_path / "rows.parquet")
    extra = {"correct": [True, None], "score": 0.5}
    for given, where in ((tmp_path / "rows.parquet", "rows.parquet"), (dataset, IN_MEMORY)):
        assert list(Opened(given, tmp_path).source) == [
            Problem("p", ("s", "t"), extra, f"{where}:1")
        ]
    with pytest.raises(InputError, match="the rows are a list, not a"):
        Opened([row], tmp_path)


def test_the_word_sample_opens_the_packaged_sample(tmp_path: Path) -> None:
    source = Opened("sample", tmp_path).source
    problems = list(source)

    assert source.name == "sample"
    assert source.layout == "grouped"
    assert problems
    assert all(len(problem.solutions) == 6 for problem in problems)
    assert {"problem_id", "strategies", "reference_answer"} <= problems[0].extra.keys()


def test_a_source_read_twice_gives_the_same_problems_and_reports_rejects_once(
    tmp_path: Path,
) -> None:
    bad = {"problem": None}
    for rows in ([PROBLEMS[0], bad, *PROBLEMS[1:], bad], [*flat_rows(PROBLEMS), bad, bad]):
        opened = Opened(write(tmp_path / "rows.jsonl", rows), tmp_path)
        next(iter(opened.source))
        first = list(opened.source)

        assert list(opened.source) == first
        assert opened.reasons == ["null_problem", "null_problem"]
        assert opened.source.rows_read == len(rows)


def test_an_interrupted_run_does_not_group_again(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [*flat_rows(PROBLEMS), {"problem": 1, "solution": "s"}])
    before = Opened(path, tmp_path)
    first = next(iter(before.source))
    (scratch,) = (tmp_path / "scratch").iterdir()
    made = scratch.stat()

    again = Opened(path, tmp_path)
    problems = list(again.source)

    assert problems[0] == first
    assert len(problems) == len(PROBLEMS)
    assert again.reasons == ["problem_not_text"]
    assert again.source.rows_read == before.source.rows_read == 13
    assert scratch.stat() == made


def test_other_content_and_other_options_are_grouped_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", flat_rows(PROBLEMS))
    list(Opened(path, tmp_path).source)
    list(Opened(path, tmp_path, only={"level": "1"}).source)
    assert len(list((tmp_path / "scratch").iterdir())) == 2

    write(path, flat_rows(PROBLEMS[:2]))
    assert texts(Opened(path, tmp_path).source) == EXPECTED[:2]
    assert len(list((tmp_path / "scratch").iterdir())) == 3


@pytest.mark.parametrize("rows", [PROBLEMS, flat_rows(PROBLEMS)], ids=["grouped", "flat"])
def test_a_damaged_scratch_file_is_made_again(tmp_path: Path, rows: list[Any]) -> None:
    path = write(tmp_path / "rows.jsonl", rows)
    list(Opened(path, tmp_path).source)
    (scratch,) = (tmp_path / "scratch").iterdir()
    scratch.write_bytes(b"damaged" * 100)

    assert texts(Opened(path, tmp_path).source) == EXPECTED


def test_a_problem_that_comes_twice_is_kept_once_where_rows_may_not_be_merged(
    tmp_path: Path,
) -> None:
    again = {"problem": PROBLEMS[0]["problem"] + "\n", "solutions": ["other"]}
    file = write(tmp_path / "rows.jsonl", [*PROBLEMS, again])
    opened = Opened(file, tmp_path, merge=False)

    assert texts(opened.source) == EXPECTED
    (reject,) = opened.rejects
    assert (reject.reason, reject.where) == ("duplicate_problem", "rows.jsonl:7")
    assert "rows.jsonl:1" in reject.detail


def test_an_unusable_problem_does_not_shadow_a_later_good_one(tmp_path: Path) -> None:
    rows = [{"problem": "p", "solutions": [None]}, {"problem": "p", "solutions": ["s"]}]
    opened = Opened(write(tmp_path / "rows.jsonl", rows), tmp_path)

    assert texts(opened.source) == [("p", ["s"])]
    assert opened.reasons == ["null_solution", "no_usable_solution"]


@pytest.mark.parametrize("layout", ["grouped", "flat"])
def test_groups_of_another_size_can_be_left_out(tmp_path: Path, layout: str) -> None:
    problems = [*PROBLEMS, {"problem": "one", "solutions": ["s"], "level": 0}]
    rows = problems if layout == "grouped" else flat_rows(problems)
    opened = Opened(write(tmp_path / "rows.jsonl", rows), tmp_path, exactly=2)

    assert texts(opened.source) == EXPECTED
    (reject,) = opened.rejects
    assert (reject.stage, reject.reason, reject.problem) == ("group", "wrong_count", "one")
    assert reject.detail == "1 usable solutions instead of 2."


@pytest.mark.parametrize("rows", [PROBLEMS, flat_rows(PROBLEMS)], ids=["grouped", "flat"])
def test_a_limit_takes_the_first_problems_whole(tmp_path: Path, rows: list[Any]) -> None:
    source = Opened(write(tmp_path / "rows.jsonl", rows), tmp_path, limit=2).source
    assert source.num_problems is None
    assert texts(source) == EXPECTED[:2]
    assert source.num_problems == 2


def test_rows_of_one_problem_are_put_together_where_the_first_one_stands(tmp_path: Path) -> None:
    rows = [
        {"problem": "p", "solutions": ["a", None], "correct": [True, False], "id": "a"},
        {"problem": "q", "solutions": ["2"], "correct": [True], "id": "b"},
        {"problem": " p\n", "solutions": ["b", "6"], "correct": [True, False], "id": "c"},
        {"problem": "p", "solutions": ["c"], "correct": None, "id": "d"},
    ]
    opened = Opened(write(tmp_path / "rows.jsonl", rows), tmp_path)
    for _ in range(2):  # a source is read more than once
        both, other = list(opened.source)
        assert both.solutions == ("a", "b", "6", "c")
        assert both.extra == {"correct": [True, True, False, None], "id": "a"}
        assert both.where == "rows.jsonl:1 and 2 more"
        assert (other.problem, other.extra["id"]) == ("q", "b")
    assert opened.reasons == ["null_solution"]
    assert (opened.source.rows_read, opened.source.num_problems) == (4, 2)


def test_the_first_rows_show_columns_and_a_problem_before_anything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", flat_rows(PROBLEMS))
    columns, problem = look_at_head(path)
    assert set(columns) == {"problem", "solution", "level"}
    assert problem is not None
    assert (problem.problem, list(problem.solutions)) == EXPECTED[0]
    many = [{"problem": None, "solutions": ["s"]}] * 32
    assert look_at_head(write(path, [*many, PROBLEMS[0]]))[1] is None  # later rows may hold one
    with pytest.raises(InputError, match=r"no usable problem .*null_problem \(3\)"):
        look_at_head(write(path, many[:3]))


def test_only_rows_with_given_values_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", flat_rows(PROBLEMS))
    opened = Opened(path, tmp_path, only={"level": "2"})

    assert texts(opened.source) == EXPECTED[2:3]
    assert (opened.source.rows_read, opened.source.rows_skipped) == (12, 10)
    assert not opened.rejects

    with pytest.raises(InputError, match=r"no usable problem .* skipped by the option only: 12"):
        list(Opened(path, tmp_path, only={"level": "9"}).source)


def test_bad_rows_never_end_a_run(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", PROBLEMS[:1])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"problem": "cut')
        file.write('\n{"problem": "p", "solutions": ["\\ud800", "kept\\u0000"]}\n')
        file.write('{"problem": "q", "solutions": []}\n')
    opened = Opened(path, tmp_path)

    assert texts(opened.source) == [EXPECTED[0], ("p", ["kept\0"])]
    assert [(reject.reason, reject.where) for reject in opened.rejects] == [
        ("malformed_json", "rows.jsonl:2"),
        ("not_unicode", "rows.jsonl:3"),
        ("empty_group", "rows.jsonl:4"),
    ]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.parquet", "rows.jsonl.gz"])
def test_an_empty_file_is_one_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    with pytest.raises(InputError, match=r"is empty: it holds no rows\."):
        Opened(tmp_path / name, tmp_path)


def test_a_file_of_nothing_but_broken_lines_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("this is\nnot JSON\n", encoding="utf-8")

    with pytest.raises(InputError, match=r"None of the first 2 rows .* rows\.jsonl:1: Not JSON"):
        Opened(path, tmp_path)


@pytest.mark.parametrize("spec", ["missing.jsonl", "./folder", "a/b/c", "two words", ""])
def test_what_is_neither_a_path_nor_a_hub_id_is_one_error(tmp_path: Path, spec: str) -> None:
    with pytest.raises(InputError, match="There is no file or folder") as caught:
        Opened(spec, tmp_path) if spec else Opened("''", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["exactly", "limit"])
def test_counts_below_one_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(InputError, match=f"{option} must be at least 1, not 0"):
        Opened(write(tmp_path / "rows.jsonl", PROBLEMS), tmp_path, **{option: 0})


@pytest.mark.parametrize("layout", ["grouped", "flat"])
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path, layout: str) -> None:
    def peak(count: int) -> int:
        rng = random.Random(0)
        path = tmp_path / f"{layout}-{count}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for n in range(count):
                text = f"Solution {n}: {rng.random()}" * 60
                row = {"problem": f"Problem {n % (count // 2)}", "solution": text}
                if layout == "grouped":
                    row = {"problem": f"Problem {n}", "solutions": [text]}
                file.write(json.dumps(row) + "\n")
        source = Opened(path, tmp_path).source
        tracemalloc.start()
        try:
            assert sum(len(problem.solutions) for problem in source) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(200)  # whatever is loaded once
    assert peak(4_500) < 1.2 * peak(1_500)
