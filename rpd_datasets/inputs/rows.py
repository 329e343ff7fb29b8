"""What readers of inputs make: rows, each with its place, and sources that are read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rpd_datasets.rejects import Rejected


@dataclass(frozen=True)
class Place:
    """Where a row stands: a file's name (or a Hub id) and the line or row number, from 1."""

    file: str
    row: int

    def __str__(self) -> str:
        return f"{self.file}:{self.row}"


@dataclass(frozen=True)
class Row:
    """One row as it was read: column names to plain Python values."""

    place: Place
    values: dict[str, Any]


@dataclass(frozen=True)
class Terms:
    """What the card of an input says of its texts, by the Hub's names.

    Args:
        license (`tuple[str, ...]`): Their licences; empty where nobody says.
        language (`tuple[str, ...]`): Their languages.
    """

    license: tuple[str, ...] = ()
    language: tuple[str, ...] = ()


class RowSource(Protocol):
    """Rows that can be read again and again in the same order.

    `name` is what the user calls the input, `part` the part of it that is read, where one
    fingerprint covers several.
    """

    name: str
    part: str

    def __iter__(self) -> Iterator[Row | Rejected]:
        """Read the rows; a row that cannot be read is a `Rejected` in its place."""
        ...

    def fingerprint(self) -> str:
        """What changes whenever the rows could be others."""
        ...
