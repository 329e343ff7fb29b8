"""The packaged sample: right answers."""

from __future__ import annotations

import pytest

from parts import sample_answers_algebra, sample_answers_counting, sample_answers_geometry
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, open_rows

ANSWERS = (
    sample_answers_algebra.ANSWERS
    | sample_answers_counting.ANSWERS
    | sample_answers_geometry.ANSWERS
)
ROWS = [row.values for row in open_rows("sample", InputSpec()) if isinstance(row, Row)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["problem_id"])
def test_the_answer_is_computed_again_and_every_solution_ends_with_it(row):
    assert ANSWERS[row["problem_id"]]() == row["reference_answer"]
    for solution in row["solutions"]:
        assert solution.count("\\boxed{") == 1
        assert "\\boxed{" + row["reference_answer"] + "}" in solution
    assert len(row["solutions"]) == len(row["strategies"]) == 6
