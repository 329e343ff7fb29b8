"""Copies what can be read of a damaged store into a new one.

    python -m rpd_metric.models.repair_store DAMAGED_FILE NEW_FILE

The damaged file is left as it is. What cannot be read, or no longer matches its checksum, is
left out, and the next run asks the model for it again.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

from rpd_metric.errors import StoreError
from rpd_metric.models.reply_file import DamagedStoreError
from rpd_metric.models.store import ReplyStore

_COLUMNS = (
    "key, model, template, text, crc, finish_reason, prompt_tokens, completion_tokens, seconds, "
    "created, family, max_tokens"
)
_PAGE = 512
# No reply takes less, so a file of n bytes has no id above n / 64 unless replies were pruned.
_SMALLEST_ROW = 64


def salvage(damaged: str | os.PathLike[str], target: str | os.PathLike[str]) -> int:
    """Copy every readable reply of a damaged store.

    Args:
        damaged (`str` or `os.PathLike`): The damaged store.
        target (`str` or `os.PathLike`): A new store, or one to add to.

    Returns:
        `int`: How many replies were read and are in `target` now.

    Raises:
        StoreError: When `target` cannot be written or `damaged` is beyond reading.
    """
    saved = 0
    with ReplyStore(damaged, create=False) as old, ReplyStore(target) as new:
        for first in range(1, _last_id(old) + 1, _PAGE):
            for row in _readable(old, first, first + _PAGE - 1):
                text, crc = row[3:5]
                if isinstance(text, bytes) and zlib.crc32(text) == crc:
                    new.file.change(
                        f"INSERT INTO replies ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})"
                        " ON CONFLICT (key) DO NOTHING",
                        row,
                    )
                    saved += 1
    return saved


def _last_id(store: ReplyStore) -> int:
    try:
        return int(store.file.run("SELECT max(id) FROM replies")[0][0] or 0)
    except DamagedStoreError:
        return store.size() // _SMALLEST_ROW


def _readable(store: ReplyStore, first: int, last: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a range of ids, halving the range around what cannot be read."""
    try:
        yield from store.file.run(
            f"SELECT {_COLUMNS} FROM replies WHERE id BETWEEN ? AND ?", (first, last)
        )
    except DamagedStoreError:
        if first < last:
            middle = (first + last) // 2
            yield from _readable(store, first, middle)
            yield from _readable(store, middle + 1, last)


def main() -> None:
    """The command line of this module."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m rpd_metric.models.repair_store DAMAGED_FILE NEW_FILE")
    try:
        saved = salvage(*sys.argv[1:])
    except StoreError as error:
        sys.exit(str(error))
    print(f"{saved} replies saved to {sys.argv[2]}")  # noqa: T201


if __name__ == "__main__":
    main()
