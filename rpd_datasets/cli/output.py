"""What commands print: tables that fit the window, the summary of a run, JSON, and progress.

Terminals get colours and a live line of progress; pipes, and NO_COLOR, plain text.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box, progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rpd_datasets.commands import printable
from rpd_datasets.curation.forecast import TIMED, in_words
from rpd_datasets.curation.run import Listener
from rpd_metric.models.flow import Flow, draining

SECONDS_BETWEEN_LINES = 30
# What takes longer is announced.
LONG_SECONDS = 600


def print_json(result: Any) -> None:
    """One JSON object on one line."""
    print(json.dumps(result, ensure_ascii=False))


def print_result(args: argparse.Namespace, facts: Mapping[str, Any], **lists: Any) -> None:
    """Print a command's result: with `--json` one object with the lists, else only the facts."""
    if args.json:
        print_json({**facts, **lists})
    else:
        print_facts(facts)


def console(*, stderr: bool = False) -> Console:
    """Where a command prints. Made anew each time: the streams may have been replaced."""
    return Console(file=sys.stderr if stderr else sys.stdout, highlight=False)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table that fits the window, numbers to the right; long cells are wrapped."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        numeric = all(isinstance(row.get(name), int | float | None) for row in rows)
        justify: Any = "right" if numeric else "left"
        table.add_column(Text(name), justify=justify, no_wrap=numeric, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(name))) for name in names))
    console().print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print the known facts, one per line."""
    lines = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{key.replace('_', ' ')} {cell(n)}" for key, n in value.items())
        if value not in (None, ""):
            lines.append((name.replace("_", " "), cell(value)))
    print_lines(lines)


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print names with a sentence each: the summary of a run."""
    out, width = console(), 2 + max((len(name) for name, _ in lines), default=0)
    wrap = textwrap.TextWrapper(out.width, subsequent_indent=" " * width, break_on_hyphens=False)
    for name, words in lines:
        text = Text(wrap.fill(printable(name.ljust(width) + words)))
        text.stylize("bold", 0, width)
        out.print(text)


def print_scored(rows: Sequence[tuple[str, float | None, Sequence[str]]]) -> None:
    """Print problems (statement, score, further lines), the further lines below each."""
    out, width = console(), len(str(len(rows)))
    for number, (statement, score, below) in enumerate(rows, 1):
        head = Text(f"{number:>{width}}  ").append(cell(score).rjust(5), style="bold cyan")
        head.append("  " + printable(" ".join(statement.split())))
        rest = (Text(" " * (width + 2) + printable(line), style="dim") for line in below)
        for line in (head, *rest):
            out.print(line, no_wrap=True, overflow="ellipsis")


def cell(value: Any) -> str:
    """A value as tables show it."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


class Progress(Listener):
    """One line on stderr: stage, bar, counts, time, and the current `note`.

    In a pipe, a line when a stage begins and ends, and one every 30 seconds.
    """

    def __init__(self, stage: str, total: int | None = None) -> None:
        self.note: Callable[[], str] = str
        self._warned = False
        self._console = console(stderr=True)
        self._live = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(compact=True),
            progress.TextColumn("{task.fields[line].remark}", markup=False, style="dim"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._live.add_task(stage, line=self)
        (self._task,) = self._live.tasks
        self._ended = threading.Event()
        self.stage(stage, total)

    @property
    def remark(self) -> str:
        """The note as it is now: a column's format calls nothing."""
        return self.note()

    def stage(self, stage: str, total: int | None = None) -> None:
        """End a stage and begin another."""
        self._end()
        self._live.reset(self._task.id, description=stage)
        self._task.total = total  # `reset` takes None for no change
        if self._live.disable:
            self.write(f"{stage} ...")

    def expect(self, total: int | None) -> None:
        """Set the total of this stage."""
        self._live.update(self._task.id, total=total)

    def advance(self) -> None:
        """Count one more. What will take long is said as soon as that is known."""
        self._live.advance(self._task.id)
        left = self._task.time_remaining
        if not self._warned and left and self._task.completed >= TIMED and left > LONG_SECONDS:
            self._warned = True
            self.write(f"{self._so_far()}. rpd plan INPUT compares encoders; Ctrl-C is safe")

    def write(self, line: str) -> None:
        """A message above the line."""
        self._console.print(printable(line), markup=False, soft_wrap=True)

    def _say(self) -> None:
        """Write a line every 30 seconds, to show in a pipe that the run is alive."""
        while not self._ended.wait(SECONDS_BETWEEN_LINES):
            self.write("; ".join(filter(None, (self._so_far(), self.note()))))

    def _counted(self) -> str:
        done, total = int(self._task.completed), self._task.total
        of = "" if total in (None, done) else f" of {total:,}"
        return f"{self._task.description}: {done:,}{of}"

    def _so_far(self) -> str:
        left = self._task.time_remaining  # None without a total
        return self._counted() + (f", about {in_words(left)} left" if left else "")

    def _end(self) -> None:
        if self._task.completed:
            self.write(f"{self._counted()} in {self._task.elapsed or 0:,.0f} s")

    def __enter__(self) -> Progress:
        self._live.start()
        if self._live.disable:
            threading.Thread(target=self._say, name="rpd-progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._live.stop()
        self._end()


@contextmanager
def scoring(flows: Sequence[Flow], line: Progress) -> Iterator[Callable[[], None]]:
    """Count scored problems and a chat model's requests; finish those in flight on Ctrl-C."""
    line.note = lambda: "; ".join(str(flow.tick()) for flow in flows)
    with draining(*flows, notify=line.write):
        try:
            yield line.advance
        finally:
            line.note = str
            for flow in flows:
                line.write(flow.stats.summary())
