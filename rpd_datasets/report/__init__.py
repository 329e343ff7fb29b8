"""A report of a curated folder, to look at: one HTML file that needs nothing else, and PNGs.

    reading.py    the folder, as far as a report needs it
    measures.py   step matches, raw-text distances, the plane of steps: takes an encoder
    funnel.py     what was left out, stage by stage
    charts.py     inline SVG
    archive.py    the problems as the page's script reads them, compressed
    page.py       the page, from its template
    text.js       model output as DOM nodes: Markdown, LaTeX by temml/, passages of steps
    app.js        list, search, detail, reading view, marks
    figures.py    the same as PNG files

Texts of a sample of the chosen problems are shown, all scores are counted.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rpd_datasets.report.measures import Measures, measure
from rpd_datasets.report.page import render
from rpd_datasets.report.reading import CuratedFolder, read_curated
from rpd_metric.errors import InputError, OutputError
from rpd_metric.models.embedders import Embedder

__all__ = ["WrittenReport", "read_curated", "write_report"]


@dataclass(frozen=True)
class WrittenReport:
    """What was written, and what it is made from.

    Args:
        page (`Path`): The HTML file.
        figures (`list[Path]`): The PNGs.
        folder ([`~rpd_datasets.report.reading.CuratedFolder`]): What was read.
        measures ([`~rpd_datasets.report.measures.Measures`]): What was measured.
    """

    page: Path
    figures: list[Path]
    folder: CuratedFolder
    measures: Measures

    def _repr_html_(self) -> str:
        """The page itself, inside a notebook."""
        text = html.escape(self.page.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{text}" style="width: 100%; height: 45em; border: 0"></iframe>'


def write_report(
    folder: CuratedFolder,
    page: Path,
    embedder: Embedder | None,
    *,
    figures: bool = True,
    measured: int | None = None,
    on_problem: Callable[[], None] = lambda: None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> WrittenReport:
    """Write the report of a curated folder, replacing an earlier one.

    Args:
        folder ([`~rpd_datasets.report.reading.CuratedFolder`]): See [`read_curated`].
        page (`Path`): The HTML file; figures go to `<its name>-figures` beside it.
        embedder ([`Embedder`], *optional*): The one that the folder was
            made with. Without one, the report has only the stored distances.
        figures (`bool`): Whether to draw PNGs.
        measured (`int`, *optional*): Encode only so many problems, spread evenly over those shown.
        on_problem (`Callable`): Called after each problem, for a progress bar.
        on_stage (`Callable`): Called with the name of each stage that follows, before it begins.

    Raises:
        [`InputError`]: `page` does not end in `.html`.
        [`MissingExtraError`]: A package of the extra `report` is not installed.
        [`OutputError`]: The files cannot be written.
    """
    if page.suffix != ".html":
        raise InputError(f"the report is an HTML file: name it {page.with_suffix('.html').name}")
    ties = folder.manifest["options"]["ties"]
    measures = measure(folder.shown, embedder, ties, on_problem, most=measured)
    pictures: dict[str, bytes] = {}
    if figures:
        on_stage("Drawing figures")
        from rpd_datasets.report.figures import draw_figures

        pictures = draw_figures(folder, measures)
    on_stage("Writing")
    text = render(folder, measures)
    pictures_folder = page.with_name(f"{page.stem}-figures")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        if pictures:
            pictures_folder.mkdir(exist_ok=True)
        for name, content in pictures.items():
            (pictures_folder / name).write_bytes(content)
        # A browser may be looking at the earlier one.
        unfinished = page.with_name(page.name + ".partial")
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        os.replace(unfinished, page)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or page}: {error.strerror}") from error
    return WrittenReport(page, [pictures_folder / name for name in pictures], folder, measures)
