"""What commands print: tables that fit the window, the ending block, one JSON object, progress.

On a terminal there are colours, bars and a live line of progress; in a pipe, or where NO_COLOR is
set, the same words plainly. Distances have three decimals, shares one, counts their commas.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from rpd_datasets.curation.scoring import Models
from rpd_metric.models.flow import draining

if TYPE_CHECKING:
    from rich.console import Console

BAR_WIDTH = 10
# In a pipe nobody watches: a line now and then says that the run is alive.
SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_REFRESHES = 1.0
ROWS_BETWEEN_NOTES = 1000


class Parser(argparse.ArgumentParser):
    """A parser whose errors are two lines: what is wrong, and where the options are explained."""

    def error(self, message: str) -> NoReturn:
        """Say it, and exit with 2."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help\n")


def print_json(result: Any) -> None:
    """One JSON object on one line."""
    print(json.dumps(result, ensure_ascii=False))


def console(*, stderr: bool = False) -> Console:
    """Where a command prints. Made anew each time: the streams may have been replaced."""
    from rich.console import Console

    return Console(file=sys.stderr if stderr else sys.stdout, highlight=False, soft_wrap=False)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table that fits the window, numbers to the right; long cells are wrapped."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        numeric = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(
            Text(name), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(cell(row.get(name))) for name in names))
    _print(table)


def print_scored(rows: Sequence[tuple[str, float | None, Sequence[str]]]) -> None:
    """Problems with a score: number, score and statement on one line, the rest below it.

    Args:
        rows (`Sequence[tuple]`): Statement, score, and further lines.
    """
    from rich.text import Text

    out = console()
    largest = max((score for _, score, _ in rows if score is not None), default=0.0)
    number_width = len(str(len(rows)))
    for number, (statement, score, below) in enumerate(rows, 1):
        head = Text(f"{number:>{number_width}}  ")
        head.append(cell(score).rjust(5), style="bold cyan")
        head.append("  ")
        if out.is_terminal:
            full = round(BAR_WIDTH * (score or 0) / largest) if largest else 0
            head.append("━" * full, style="cyan").append("━" * (BAR_WIDTH - full), style="dim")
            head.append("  ")
        head.append(" ".join(statement.split()))
        head.truncate(out.width, overflow="ellipsis")
        out.print(head, no_wrap=True)
        indent = " " * (number_width + 2)
        for line in below:
            text = Text(indent + line, style="dim" if out.is_terminal else "")
            text.truncate(out.width, overflow="ellipsis")
            out.print(text, no_wrap=True)


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Names with a sentence each: the block that a run ends with."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, said in lines:
        table.add_row(Text(name, style="bold"), Text(said))
    _print(table)


def _print(table: Any) -> None:
    """Print a table without the blanks that fill its last column."""
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def cell(value: Any) -> str:
    """A value as tables show it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class Progress:
    """One line on stderr that is never still on a terminal: stage, bar, counts, time.

    In a pipe, a line when a stage begins, and one for what it came to.
    """

    def __init__(self, stage: str, total: int | None) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Live

        self._console = console(stderr=True)
        self._live = Live(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}", style="dim"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._live.add_task(stage, total=total, note="")
        self._begin(stage, total)

    def _begin(self, stage: str, total: int | None) -> None:
        self._stage, self._total, self._done = stage, total, 0
        self._began = self._said = time.monotonic()
        self._said_done = 0
        if self._live.disable:
            self.write(f"{stage} ...")

    def stage(self, stage: str, total: int | None = None) -> None:
        """End a stage and begin another."""
        self.end()
        self._begin(stage, total)
        self._live.reset(self._task, description=stage, total=total, note="")

    def expect(self, total: int) -> None:
        """How many there are of this stage is known now."""
        self._total = total
        self._live.update(self._task, total=total)

    def advance(self, note: str = "") -> None:
        """One more is done."""
        self.reach(self._done + 1, note)

    def reach(self, done: int, note: str = "") -> None:
        """So many are done."""
        self._live.update(self._task, completed=done, note=note)
        self._done = done
        self._say(note)

    def refresh(self, note: str) -> None:
        """Nothing is done yet, but something goes on: say what."""
        self._live.update(self._task, note=note)
        self._say(note)

    def _say(self, note: str) -> None:
        """In a pipe, a line now and then: how many of how many, and the time left."""
        now = time.monotonic()
        if not self._live.disable or now - self._said < SECONDS_BETWEEN_LINES:
            return
        line = self._counted()
        # By what was done since the last line: what a journal held went by at once.
        if self._total is not None and self._done > self._said_done:
            pace = (now - self._said) / (self._done - self._said_done)
            line += f", {_clock(pace * max(0, self._total - self._done))} left"
        self._said, self._said_done = now, self._done
        self.write(f"{line}{'; ' if note else ''}{note}")

    def read(self, rows: int) -> None:
        """So many rows are read. Said while nothing is done yet: flat rows are grouped first."""
        if not self._done and rows % ROWS_BETWEEN_NOTES == 0:
            self.refresh(f"{rows:,} rows read")

    def write(self, line: str) -> None:
        """A message above the line."""
        self._console.print(line, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Say what the stage came to."""
        if self._done:
            seconds = time.monotonic() - self._began
            self.write(f"{self._counted()} in {seconds:,.0f} s")

    def _counted(self) -> str:
        of = "" if self._total in (None, self._done) else f" of {self._total:,}"
        return f"{self._stage}: {self._done:,}{of}"

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self.end()


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(3723.4)
    '1:02:03'
    """
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Progress over problems, on stderr; call what it gives once for each."""
    with Progress(label, total) as line:
        yield line.advance


@contextmanager
def scoring(models: Models, line: Progress) -> Iterator[Callable[[], None]]:
    """Count scored problems; with a chat model, its requests too, and a careful end on Ctrl-C."""
    flows = models.flows
    if not flows:
        yield line.advance
        return

    def note() -> str:
        return "; ".join(str(flow.tick()) for flow in flows)

    ended = threading.Event()

    def refresh() -> None:
        # A problem may take minutes; its requests go on all the while.
        while not ended.wait(SECONDS_BETWEEN_REFRESHES):
            line.refresh(note())

    timer = threading.Thread(target=refresh, name="rpd-progress", daemon=True)
    timer.start()
    try:
        with draining(*flows, notify=line.write):
            yield lambda: line.advance(note())
    finally:
        ended.set()
        timer.join()
        for flow in flows:
            line.write(flow.stats.summary())
