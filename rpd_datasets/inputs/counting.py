"""How many problems an input holds, where that is cheap to know: the total of a progress bar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.inputs.spec import InputSpec
from rpd_datasets.inputs.well_known import recognise, with_columns

# Lines are counted at some hundreds of MB a second: beyond this the wait would be noticed.
CHEAP_BYTES = 1_000_000_000
SAMPLE = "sample"


def count_problems(source: object, spec: InputSpec) -> int | None:
    """Count the problems of a local file, or a folder of JSONL files, whose rows are problems.

    Args:
        source (`str`, `Path` or `datasets.Dataset`): As `open_source` takes it.
        spec ([`InputSpec`]): How it is read.

    Returns:
        `int`, *optional*: An upper limit, since rows may be left out; `None` where only reading
        everything would tell (the Hub, one solution a row, rows picked by `only`).
    """
    if spec.only or spec.layout not in ("auto", "grouped"):
        return spec.limit
    path = Path(str(source)).expanduser()
    if str(source) == SAMPLE and not path.exists():
        path = Path(__file__).parents[1] / "sample"
    try:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        counts = [_rows_of(file, spec.columns) for file in files]
    except OSError:
        counts = []  # reading itself says what is wrong with the file
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts):
        return spec.limit
    return sum(known) if spec.limit is None else min(sum(known), spec.limit)


def _rows_of(path: Path, columns: Columns) -> int | None:
    if path.suffix == ".jsonl" and path.stat().st_size <= CHEAP_BYTES:
        return _lines(path, columns)
    return _parquet_rows(path, columns) if path.suffix == ".parquet" and path.is_file() else None


def _lines(path: Path, columns: Columns) -> int | None:
    with path.open("rb") as file:
        first = file.readline()
        try:
            row = json.loads(first)
        except ValueError:
            return None
        if not isinstance(row, dict) or not _holds_problem(row, columns):
            return None
        return 1 + sum(bool(line.strip()) for line in file)


def _holds_problem(row: dict[str, Any], columns: Columns) -> bool:
    """Whether a row is a problem with all its solutions."""
    known = recognise([row], columns)
    read = known.turned(row) if known and known.turned else row
    return isinstance(read.get(with_columns(known, columns).solutions), list)


def _parquet_rows(path: Path, columns: Columns) -> int | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            first = next(file.iter_batches(batch_size=1), None)
            rows = [] if first is None else first.to_pylist()
            known = bool(rows) and _holds_problem(rows[0], columns)
            return file.metadata.num_rows if known else None
    except pa.ArrowInvalid:
        return None
