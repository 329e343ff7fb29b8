"""The packaged sample: six solutions of each problem, by several strategies, with one answer."""

from __future__ import annotations

from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, open_rows


def test_every_solution_ends_with_the_reference_answer():
    rows = [row.values for row in open_rows("sample", InputSpec()) if isinstance(row, Row)]
    assert len(rows) == 27
    for row in rows:
        assert len(row["solutions"]) == len(row["strategies"]) == 6
        for solution in row["solutions"]:
            assert solution.count("\\boxed{") == 1
            assert "\\boxed{" + row["reference_answer"] + "}" in solution
