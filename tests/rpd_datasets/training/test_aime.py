"""The training problems of 1983 to 2023 hold no problem of a benchmark."""

from pathlib import Path

import pytest

from parts.rows import read_lines, write_rows
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.training.reinforcement import load_aime

REAL = Path("../shared/data/benchmarks")


def test_other_years_and_repeated_statements_are_left_out_and_counted(tmp_path):
    rows = [
        {"Question": f"Problem number {n} of {year}: find x.", "Answer": n, "Year": year}
        for n, year in enumerate((1982, 1983, 2023, 2024, 2024))
    ]
    problems, counts = load_aime(str(write_rows(tmp_path / "aime.jsonl", [*rows, rows[1]])))
    assert [answer for _, answer in problems] == ["1", "2"]
    assert list(counts.values()) == [2, 3, 1]


def test_problems_without_a_year_are_ones_own_and_all_taken(tmp_path):
    texts = ["Make 12 from 3 4.", "Make 1 from 23 4.", "Make 12 from 3 4."]
    rows = ({"problem": text, "answer": "x"} for text in texts)
    problems, counts = load_aime(str(write_rows(tmp_path / "own.jsonl", rows)))
    assert problems == [(text, "x") for text in texts[:2]]
    assert list(counts.values()) == [0, 0, 1]


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real problems are not at {REAL}")
def test_the_real_problems_are_975_and_none_is_in_aime24():
    problems, counts = load_aime(str(REAL / "aime_1983_2023.json"))
    assert (len(problems), counts["problems with a year"]) == (975, 975)
    held_out = load_contamination([str(REAL / "aime24.jsonl")])
    assert held_out is not None
    assert not [text for text, _ in problems if held_out.find(text)]
    # One that slipped in would be found.
    assert held_out.find(read_lines(REAL / "aime24.jsonl")[7]["problem"].replace("$", ""))
