"""The rows of a `datasets.Dataset` that a program already holds.

Files, folders and the Hub are read in `files.py` and `hub.py`, which also take rows that are
broken; a dataset's rows are all of one schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from rpd_datasets.inputs.files import BATCH_ROWS
from rpd_datasets.inputs.grouping import encode_values
from rpd_datasets.inputs.rows import Place, Row
from rpd_metric.errors import InputError


class DatasetRows:
    """Rows as they are stored: what a column is decoded to (images, audio) does not matter.

    Args:
        dataset (`datasets.Dataset`): The rows.
        name (`str`): What reports call it.
        without (`Sequence[str]`): Columns that are left aside.

    Raises:
        InputError: If it is something else, such as a `DatasetDict` or a list.
    """

    part = ""

    def __init__(self, dataset: Any, *, name: str, without: Sequence[str] = ()) -> None:
        from datasets import Dataset

        if not isinstance(dataset, Dataset):
            raise InputError(
                f"the rows are a {type(dataset).__name__}, not a datasets.Dataset: take one split "
                "of a DatasetDict, or make one with Dataset.from_list(rows)"
            )
        self.name = name
        self._rows = dataset.remove_columns(
            [column for column in without if column in dataset.column_names]
        ).with_format("arrow")
        self._fingerprint: str | None = None

    def __iter__(self) -> Iterator[Row]:
        number = 0
        for table in self._rows.iter(batch_size=BATCH_ROWS):
            for values in table.to_pylist():
                number += 1
                yield Row(Place(self.name, number), values)

    def fingerprint(self) -> str:
        """The sha256 over all values: that of `datasets` differs from one process to the next."""
        if self._fingerprint is None:
            digest = hashlib.sha256()
            for row in self:
                digest.update(f"{encode_values(row.values)}\n".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint
