"""Work that is done at the same time, results in the order of the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")


def in_order(
    rows: Iterable[Row],
    start: Callable[[Row], Result | Future[Result]],
    ahead: int,
) -> Iterator[Result]:
    """The results of rows, of which at most `ahead` are read before the oldest one is known.

    `start` gives a row's result, or the future of one that takes its time. Rows may be endless.
    """
    source = iter(rows)
    pending: deque[Result | Future[Result]] = deque()
    try:
        while True:
            pending.extend(start(row) for row in islice(source, ahead - len(pending)))
            if not pending:
                return
            oldest = pending.popleft()
            yield oldest.result() if isinstance(oldest, Future) else oldest
    finally:
        for left in pending:
            if isinstance(left, Future):
                left.cancel()
