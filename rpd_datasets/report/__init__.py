"""A report of a curated folder, to look at: one HTML file that needs nothing else.

Texts of a sample of the chosen problems are shown, all scores are counted.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rpd_datasets.destination import check_output, whole_file
from rpd_datasets.report.contents import CuratedFolder, read_curated
from rpd_datasets.report.page import render
from rpd_metric.errors import InputError

__all__ = ["WrittenReport", "check_page", "read_curated", "write_report"]

# In every page of this project, after its style sheet.
MARK = b'<p class="kicker">Reasoning Path Divergence</p>'


@dataclass(frozen=True)
class WrittenReport:
    """The HTML file, and what it is made from."""

    page: Path
    # All texts: a notebook would store them a second time.
    folder: CuratedFolder = field(repr=False)

    def _repr_html_(self) -> str:
        """The page itself, inside a notebook."""
        text = html.escape(self.page.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{text}" style="width: 100%; height: 45em; border: 0"></iframe>'


def write_report(folder: CuratedFolder, page: Path) -> WrittenReport:
    """Write the report of a curated folder, replacing an earlier one.

    Raises:
        [`InputError`]: `page` does not end in `.html`.
        [`OutputError`]: The file cannot be written, or is not a report.
    """
    check_page(page)
    text = render(folder)
    with whole_file(page) as file:  # a browser may be looking at the earlier one
        file.write(text)
    return WrittenReport(page, folder)


def check_page(page: Path) -> None:
    """Refuse a page that is no HTML file, or would replace what is no page of this project."""
    if page.suffix != ".html":
        raise InputError(f"the page is an HTML file: name it {page.with_suffix('.html').name}")

    def written(place: Path) -> Sequence[str] | None:
        if not place.is_file():
            return None
        with place.open("rb") as file:
            return () if MARK in file.read(1 << 16) else None

    check_output(page, written)
