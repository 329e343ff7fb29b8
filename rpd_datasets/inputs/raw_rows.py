"""Raw rows, each with its place, and sources of them that are read again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rpd_datasets.inputs.column_values import encode_values
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

# Small enough that a batch of rows with 16 long chains of thought each stays under 100 MB.
BATCH_ROWS = 32


@dataclass(frozen=True)
class Row:
    """One row as it was read.

    Args:
        place (`str`): The file's name or the Hub id, and the number of the line or row, from 1.
        values (`dict[str, Any]`): Column names to plain Python values.
    """

    place: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """What the card of an input says of its texts, by the Hub's names; empty where nobody says."""

    license: tuple[str, ...] = ()
    language: tuple[str, ...] = ()


class RowSource(Protocol):
    """Rows that can be read again and again in the same order.

    `part` says what is read of an input where one fingerprint covers several parts.
    """

    name: str
    part: str

    def __iter__(self) -> Iterator[Row | Rejected]:
        """Read the rows; a row that cannot be read is a `Rejected` in its place."""

    def fingerprint(self) -> str:
        """What changes whenever the rows could be others."""


class DatasetRows:
    """The rows of a dataset in memory but for some columns; images and audio are not decoded.

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
        aside = [column for column in without if column in dataset.column_names]
        self._rows = dataset.remove_columns(aside).with_format("arrow")
        self._fingerprint = ""

    def __iter__(self) -> Iterator[Row]:
        tables = self._rows.iter(batch_size=BATCH_ROWS)
        for number, values in enumerate((row for table in tables for row in table.to_pylist()), 1):
            yield Row(f"{self.name}:{number}", values)

    def fingerprint(self) -> str:
        """The sha256 over all values: that of `datasets` differs from one process to the next."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for row in self:
                digest.update(f"{encode_values(row.values)}\n".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def one_line(error: BaseException) -> str:
    """What an exception says, on one line and no longer than 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
