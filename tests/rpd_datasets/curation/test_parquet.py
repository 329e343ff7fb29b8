"""Parquet files with one schema, whatever the input carried along."""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpd_datasets.curation.parquet import column_types, write_table

OWN = {
    "problem": "p",
    "solutions": ["s"],
    "steps": [["a"]],
    "rpd_matrix": [[None]],
    "rpd_score": None,
    "selected": [],
    "drop_reasons": [""],
    "num_tokens": [1],
}


def write(rows, folder):
    write_table(rows, folder, *column_types(rows))
    return pq.read_table(folder / "train-00000-of-00001.parquet")


def test_carried_columns_take_the_type_that_holds_all_values(tmp_path):
    day = datetime.datetime(2026, 1, 2)
    rows = [
        {**OWN, "n": 1, "day": day, "raw": b"\x00\xff", "meta": {"a": 1}},
        {**OWN, "n": 2.5, "meta": {"b": "x"}},
    ]
    table = write(rows, tmp_path / "t")
    assert table.schema.field("n").type == pa.float64()
    assert "groups_auroc" not in table.column_names  # the rows have none
    (file,) = (tmp_path / "t").iterdir()
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).has_column_index
    carried = table.select(["n", "day", "raw", "meta"]).to_pylist()
    assert carried == [
        {"n": 1.0, "day": day, "raw": b"\x00\xff", "meta": {"a": 1, "b": None}},
        {"n": 2.5, "day": None, "raw": None, "meta": {"a": None, "b": "x"}},
    ]


@pytest.mark.parametrize("values", [[1, "one"], [[1], {"a": 1}], [["x", 2], None], [10**30, 1]])
def test_values_without_a_common_type_are_kept_as_json_text(values, tmp_path):
    rows = [{**OWN, "mixed": value} for value in values]
    assert column_types(rows)[1] == ["mixed"]
    table = write(rows, tmp_path / "t")
    assert [json.loads(text) for text in table["mixed"].to_pylist()] == values
