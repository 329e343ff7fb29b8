"""What commands print: tables, one JSON object, and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rpd_datasets.curation.score import Models
from rpd_metric.inference.interrupt import draining

PROBLEM_WIDTH = 48


def print_json(result: Any) -> None:
    """One JSON object on one line."""
    print(json.dumps(result, ensure_ascii=False))


def print_table(rows: Sequence[dict[str, Any]], *, lines: bool = False) -> None:
    """Rows as a table, numbers to the right, `lines` between rows whose cells have several."""
    from tabulate import tabulate

    names = list(dict.fromkeys(name for row in rows for name in row))
    numeric = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    print(
        tabulate(
            [[_cell(row.get(name)) for name in names] for row in rows],
            headers=names,
            colalign=["right" if number else "left" for number in numeric] if rows else None,
            tablefmt="simple_grid" if lines else "simple",
            disable_numparse=True,
        )
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shortened(text: str) -> str:
    """A text on one line, cut for a table."""
    line = " ".join(text.split())
    return line if len(line) <= PROBLEM_WIDTH else line[: PROBLEM_WIDTH - 1] + "…"


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A progress bar over problems, on stderr; call what it gives once for each."""
    from tqdm.auto import tqdm

    with tqdm(desc=label, unit="problem", file=sys.stderr, total=total) as bar:
        yield lambda: _advance(bar, None)


@contextmanager
def scoring(models: Models, total: int | None) -> Iterator[Callable[[], None]]:
    """A progress bar; with a chat model, its requests' counts, and a careful end on Ctrl-C."""
    from tqdm.auto import tqdm

    flows = models.flows
    with tqdm(desc="Scoring problems", unit="problem", file=sys.stderr, total=total) as bar:
        if not flows:
            yield lambda: _advance(bar, None)
            return
        try:
            with draining(*flows, notify=lambda line: bar.write(line, file=sys.stderr)):
                yield lambda: _advance(bar, "; ".join(str(flow.stats) for flow in flows))
        finally:
            for flow in flows:
                bar.write(flow.stats.summary(), file=sys.stderr)


def _advance(bar: Any, postfix: str | None) -> None:
    if postfix is not None:
        bar.set_postfix_str(postfix, refresh=False)
    bar.update()
