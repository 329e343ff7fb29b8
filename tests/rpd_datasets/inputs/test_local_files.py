"""Reading raw rows out of files and folders."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parts.rows import write_rows
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError

ROWS = [{"problem": f"Problem {n}", "solutions": [f"{n}", f"It is {n}."]} for n in range(5)]


def read(path: Path, **options: str) -> tuple[list[dict[str, Any]], list[Rejected]]:
    items = list(LocalRows(path, name=str(path), **options))
    values = [item.values for item in items if isinstance(item, Row)]
    return values, [item for item in items if isinstance(item, Rejected)]


def bad(rejects: list[Rejected]) -> list[tuple[str, str]]:
    return [(reject.reason, reject.where) for reject in rejects]


def test_every_format_gives_the_same_rows(tmp_path):
    lines = write_rows(tmp_path / "rows.jsonl", ROWS)
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(ROWS, indent=2), encoding="utf-8")
    (tmp_path / "lines.json").write_bytes(lines.read_bytes())
    (tmp_path / "rows.ndjson").write_bytes(lines.read_bytes())
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    with pa.CompressedOutputStream(str(tmp_path / "rows.jsonl.zst"), "zstd") as packed:
        packed.write(lines.read_bytes())
    arrow = str(tmp_path / "rows.arrow")
    with pa.OSFile(arrow, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)

    for path in tmp_path.iterdir():
        assert read(path) == (ROWS, []), path


def test_a_malformed_line_costs_only_itself(tmp_path):
    path = tmp_path / "rows.jsonl"
    lines = [b'\xef\xbb\xbf{"a": 1}\r', b'{"a": ', b"", b'{"a": "\xff"}', b"[1, 2]", b"[" * 100_000]
    path.write_bytes(b"\n".join([*lines, b'{"a": 2}']))
    values, rejects = read(path)

    assert values == [{"a": 1}, {"a": 2}]
    assert bad(rejects) == [
        ("malformed_json", "rows.jsonl:2"),
        ("not_utf8", "rows.jsonl:4"),
        ("not_an_object", "rows.jsonl:5"),
        ("malformed_json", "rows.jsonl:6"),
    ]
    assert all(reject.stage == "read" and reject.detail for reject in rejects)


def test_a_bad_row_of_csv_costs_only_itself(tmp_path):
    long = "So it is 5. " * 20_000
    path = tmp_path / "rows.csv"
    good = f'p,"{long}\n""Done"""\n'
    # A cell too few, a quote that is missing in the middle, and one that never closes.
    path.write_text(f'problem,solution\n{good}p\n"no quote\n,"5"\np,6\np,"7')
    values, rejects = read(path)

    assert [row["solution"] for row in values] == [f'{long}\n"Done"', "6"]
    assert bad(rejects) == [("malformed_csv", f"rows.csv:{number}") for number in (2, 3, 5)]


def test_a_tsv_file_is_read_as_datasets_writes_it(tmp_path):
    flat = [{"problem": "p, q", "solution": 'First\ta tab.\nThen "5".'}]
    datasets.Dataset.from_list(flat).to_csv(tmp_path / "rows.tsv", sep="\t")
    assert read(tmp_path / "rows.tsv") == (flat, [])


def test_a_line_that_memory_cannot_hold_costs_only_itself(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"a": 1}\n')
        for _ in range(24):
            file.write(b"x" * (1 << 26))  # 1.5 GiB in one line
        file.write(b'\n{"a": 2}\n')
    script = """
import sys
from pathlib import Path
from rpd_datasets.inputs.local_files import LocalRows
for row in LocalRows(Path(sys.argv[1]), name="x"):
    print(getattr(row, "values", None) or (row.reason, row.where, row.detail))
# Not ru_maxrss: that of the process which started this one is counted there, too.
status = Path("/proc/self/status").read_text()
print(status.partition("VmHWM:")[2].split()[0])
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.check_output(command, text=True, cwd=Path(__file__).parents[3])
    first, rejected, last, kilobytes = done.splitlines()
    assert (first, last) == ("{'a': 1}", "{'a': 2}")
    assert "'line_too_long', 'rows.jsonl.gz:2', 'The line is longer than 256 MiB.'" in rejected
    assert int(kilobytes) < 1_000_000


def test_text_in_parquet_that_is_not_utf8_costs_only_its_row(tmp_path):
    raw = pa.array([b"fine", b"\xff\xfe", b"good"]).cast(pa.binary())
    column = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    pq.write_table(pa.table({"a": column}), tmp_path / "rows.parquet")
    values, rejects = read(tmp_path / "rows.parquet")

    assert values == [{"a": "fine"}, {"a": "good"}]
    assert bad(rejects) == [("not_utf8", "rows.parquet:2")]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b'[{"a": 1}, {"a": ]', r"not valid JSON: .*JSON Lines"),
        ("a.json", b'[{"a": "\xff"}]', "not UTF-8"),
        ("a.csv", b'"a,b', "not valid CSV"),
        ("a.parquet", b"not what the name says", r"a\.parquet is not a readable .parquet file"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 100_000)[:-40], "cannot be read"),
        ("a.eval", b"no log", "is not a readable Inspect log"),
        ("a.txt", b"no rows", "is not a data file"),
    ],
)
def test_a_file_broken_as_a_whole_is_one_error(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says):
        read(tmp_path / name)


def test_a_folder_is_read_in_the_order_of_its_file_names(tmp_path):
    with pytest.raises(InputError, match="has no data file"):
        read(tmp_path)
    write_rows(tmp_path / "b.jsonl", ROWS[3:])
    write_rows(tmp_path / "a.jsonl", ROWS[:3])
    write_rows(tmp_path / ".cache" / "hidden.jsonl", [{"a": 1}])
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    assert read(tmp_path) == (ROWS, [])
    (tmp_path / "c.csv").touch()  # perhaps the same rows again
    with pytest.raises(InputError, match="both csv and jsonl"):
        read(tmp_path)


def test_a_data_folder_goes_first_and_names_of_splits_tell_its_files_apart(tmp_path):
    write_rows(tmp_path / "data" / "train-00000-of-00001.jsonl", ROWS[:3])
    write_rows(tmp_path / "data" / "test-00000-of-00001.jsonl", ROWS[3:])
    write_rows(tmp_path / "rejects.jsonl", [{"reason": "too_long"}])

    assert read(tmp_path)[0] == ROWS[:3]
    assert read(tmp_path, split="test")[0] == ROWS[3:]
    with pytest.raises(InputError, match=r"no files of the split 'validation'.*test, train"):
        read(tmp_path, split="validation")


def test_folders_written_by_save_to_disk_are_read(tmp_path):
    dataset = datasets.Dataset.from_list(ROWS)
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset, test=dataset.select([0])).save_to_disk(tmp_path / "two")

    assert read(tmp_path / "one") == (ROWS, [])
    assert read(tmp_path / "two", split="test") == (ROWS[:1], [])
    with pytest.raises(InputError, match=r"no split 'dev', only: train, test"):
        read(tmp_path / "two", split="dev")


def test_one_huge_row_group_is_not_held_in_memory(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = [{"problem": str(n), "solutions": [os.urandom(500).hex()]} for n in range(24_000)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=len(rows), compression="none")
    script = """
import sys, pyarrow as pa
from pathlib import Path
from rpd_datasets.inputs.local_files import LocalRows
print(sum(1 for _ in LocalRows(Path(sys.argv[1]), name="x")), pa.default_memory_pool().max_memory())
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.check_output(command, text=True, cwd=Path(__file__).parents[3])
    count, most = map(int, done.split())
    assert count == 24_000
    assert most < path.stat().st_size / 2
