"""The training problems of 1983 to 2023 hold no problem of a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpd_datasets.training.aime import check_leakage, leaked, load_aime
from rpd_metric.errors import InputError

REAL = Path("../shared/data/benchmarks")


def aime(folder: Path, rows: list[dict[str, object]]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "aime.jsonl").write_text(lines, encoding="utf-8")
    return folder / "aime.jsonl"


def test_other_years_and_repeated_statements_are_left_out_and_counted(tmp_path):
    rows: list[dict[str, object]] = [
        {"Question": f"Problem number {n} of {year}: find x.", "Answer": n, "Year": year}
        for n, year in enumerate((1982, 1983, 2023, 2024, 2024))
    ]
    found = load_aime(str(aime(tmp_path, [*rows, rows[1]])))
    assert found.years == (1983, 2023)
    assert found.answers == ("1", "2")
    assert (found.other_years, found.duplicates) == (3, 1)


def test_problems_without_a_year_are_ones_own_and_all_taken(tmp_path):
    texts = ["Make 12 from 3 4.", "Make 1 from 23 4.", "Make 12 from 3 4."]
    found = load_aime(str(aime(tmp_path, [{"problem": text, "answer": "x"} for text in texts])))
    assert found.problems == tuple(texts[:2])
    assert found.years == (None, None)
    assert (found.other_years, found.duplicates) == (0, 1)


def test_a_held_out_problem_is_found_in_other_words(tmp_path):
    statement = "Let $x$ be the positive root of the equation. Find the remainder of $x^2$ by 7."
    file = aime(tmp_path, [{"problem": statement}])
    reworded = statement.replace("$", "").replace("Find", "Please find")
    assert leaked([reworded], [statement]) == [(0, 0)]
    with pytest.raises(InputError, match="row 1 of the training data is row 0"):
        check_leakage(["Something else altogether, as it were.", reworded], str(file))


def test_a_missing_file_is_refused():
    with pytest.raises(InputError, match="no file"):
        load_aime("nowhere/at/all.json")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the real problems are not at {REAL}")
def test_the_real_problems_are_975_and_none_is_in_aime24():
    found = load_aime(str(REAL / "aime_1983_2023.json"))
    assert (len(found.problems), min(found.years), max(found.years)) == (975, 1983, 2023)
    assert check_leakage(found.problems, str(REAL / "aime24.jsonl")) == 30
    # One that slipped in would be found.
    line = (REAL / "aime24.jsonl").read_text(encoding="utf-8").splitlines()[7]
    with pytest.raises(InputError, match="row 975 of the training data is row 7"):
        check_leakage([*found.problems, json.loads(line)["problem"]], str(REAL / "aime24.jsonl"))
