"""Tables of a report: as Markdown for a file, and as text that fits the window on a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

# A pipe has no width: what reads it wants each row on a line.
UNBROKEN = 1000


def table_text(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, markdown: bool = False
) -> str:
    """A table as text; the first `left` columns are words, the rest numbers.

    >>> print(table_text(["model", "pass@1"], [["a|b", "7.00"]], markdown=True))
    | model | pass@1 |
    | :--- | ---: |
    | a\\|b | 7.00 |
    """
    if markdown:
        marks = [":---" if place < left else "---:" for place in range(len(names))]
        head, *body = ([cell.replace("|", "\\|") for cell in row] for row in (names, *rows))
        return "\n".join(f"| {' | '.join(line)} |" for line in (head, marks, *body))
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = Console(file=sys.stdout).width if sys.stdout.isatty() else UNBROKEN
    console = Console(file=io.StringIO(), width=width, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(names):
        table.add_column(Text(name), justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
