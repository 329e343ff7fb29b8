"""Figures of a curated folder as PNG bytes, for papers and READMEs; drawn by matplotlib.

The report's page draws its own (`report/charts.py`), which follow light and dark; these stand on
white, in the same colours. No text from models is drawn, only numbers and this project's own
names. Equal inputs give equal bytes with the same matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from rpd_datasets.report.charts import Bins, bins_of
from rpd_datasets.report.funnel import funnel
from rpd_datasets.report.measures import Array, Case, Measures, Spread, spreads
from rpd_datasets.report.reading import CuratedFolder
from rpd_metric.errors import MissingExtraError

NUM_CASES = 3
DPI = 160
MARKERS = ("o", "s", "^", "D")


@cache
def palette() -> dict[str, str]:
    """The colours of the report's page in the light, by their names in its style sheet."""
    style = (resources.files("rpd_datasets.report") / "style.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", style.partition("}")[0]))


def draw_figures(folder: CuratedFolder, measures: Measures) -> dict[str, bytes]:
    """Draw all figures of a report.

    Args:
        folder ([`~rpd_datasets.report.reading.CuratedFolder`]): What was curated.
        measures ([`~rpd_datasets.report.measures.Measures`]): What was measured of it.

    Returns:
        `dict[str, bytes]`: File name to PNG: `distances.png` (Fig. 3), `left_out.png`,
        `problem_scores.png`, `token_lengths.png`, and `case_<rank>.png` (distance matrix, and
        Fig. 4) for the first few problems.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
    """
    chosen_by = folder.manifest["options"].get("solutions", "rpd")
    scored = [score.score for score in folder.scores if score.score is not None]
    chosen = [s.score for s in folder.scores if s.score is not None and s.rank is not None]
    figures = {
        "distances.png": _distances(measures, chosen_by),
        "left_out.png": _left_out(folder),
        "problem_scores.png": _problem_scores(scored, chosen),
        "token_lengths.png": _token_lengths(folder.selected_tokens),
    }
    known = [case for case in measures.cases if not np.isnan(_shown_matrix(case)[1]).all()]
    for case in known[:NUM_CASES]:
        figures[f"case_{case.row.rank + 1}.png"] = _case(case, chosen_by)
    return figures


def draw_card_figures(
    scores: Sequence[float], chosen: Sequence[float], tokens: Sequence[int]
) -> dict[str, bytes]:
    """Draw the figures of a dataset card.

    Args:
        scores (`Sequence[float]`): Of all scored problems; without any, there is no such figure.
        chosen (`Sequence[float]`): Of the chosen ones.
        tokens (`Sequence[int]`): Length of each chosen solution.

    Returns:
        `dict[str, bytes]`: File name to PNG.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
    """
    figures = {"token_lengths.png": _token_lengths(tokens)}
    if scores:
        figures["problem_scores.png"] = _problem_scores(scores, chosen)
    return figures


def _figure(width: float, height: float) -> Any:
    """A figure of its own, outside pyplot's global state and the user's settings."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "the report's PNG figures (leave them out with --no-figures)",
            extra="report",
            module=error.name or "matplotlib",
        ) from error
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # Without the version of the software: it would be the only thing that differs.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _bars(axes: Any, bins: Bins, labels: tuple[str, str] | None, kind: str = "accent") -> None:
    """Bars in one of the page's colours; with labels pale, and the marked part in full colour."""
    left, width = bins.edges[:-1], np.diff(bins.edges)
    first, second = labels or (None, None)
    colours = palette()
    colour = colours[f"{kind}-pale" if labels else kind]
    axes.bar(left, bins.counts, width, align="edge", color=colour, edgecolor="white", label=first)
    if labels:
        axes.bar(
            left,
            bins.marked,
            width,
            align="edge",
            color=colours[kind],
            edgecolor="white",
            label=second,
        )
        axes.legend(frameon=False)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)


def _problem_scores(scores: Sequence[float], chosen: Sequence[float]) -> bytes:
    figure = _figure(5, 3)
    axes = figure.subplots()
    _bars(axes, bins_of(scores, chosen), ("all scored", "chosen"))
    axes.set(xlabel="problem score", ylabel="problems")
    return _png(figure)


def _token_lengths(tokens: Sequence[int]) -> bytes:
    figure = _figure(5, 3)
    axes = figure.subplots()
    _bars(axes, bins_of(tokens), None, "tokens")
    axes.set(xlabel="tokens of a chosen solution", ylabel="solutions")
    return _png(figure)


def _distances(measures: Measures, chosen_by: str) -> bytes:
    shown = spreads(measures, chosen_by)
    # One panel stays, so that there is a figure in any case.
    shown = shown or [Spread("RPD", "accent", np.zeros(0), [])]
    upper = float(max(one.values.max(initial=0) for one in shown))
    figure = _figure(4.5 * len(shown), 3)
    panels = figure.subplots(1, len(shown), squeeze=False, sharex=True)[0]
    for axes, one in zip(panels, shown, strict=True):
        _bars(axes, bins_of(one.values, one.picked, upper), ("all pairs", "chosen pairs"), one.kind)
        axes.set(xlabel=f"{one.name} of {len(one.values)} pairs", ylabel="pairs")
    return _png(figure)


def _left_out(folder: CuratedFolder) -> bytes:
    funnels = [funnel(folder, "problem"), funnel(folder, "solution")]
    figure = _figure(9, 0.8 + 0.3 * max(map(len, funnels)))
    for axes, levels in zip(figure.subplots(1, 2), funnels, strict=True):
        places = range(len(levels))
        bars = axes.barh(
            places,
            [level.count for level in levels],
            color=[palette()["gone" if level.gone else "accent"] for level in levels],
        )
        axes.bar_label(bars, [f"{level.count:,}" for level in levels], padding=3)
        # Reasons come from a file: a dollar sign in one is no formula.
        names = [f"– {level.label}" if level.gone else level.label for level in levels]
        axes.set_yticks(places, names, parse_math=False)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def _shades() -> Any:
    """The page's shades of a distance, pale to dark."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = palette()
    return LinearSegmentedColormap.from_list("distance", [colours[f"q{n}"] for n in range(11)])


def _shown_matrix(case: Case, chosen_by: str = "") -> tuple[str, Array]:
    """The distance that chose the solutions of a problem, else RPD, with its name."""
    if case.row.distances is None:
        return "RPD", case.row.rpd
    return f"Distance {chosen_by}", case.row.distances


def _case(case: Case, chosen_by: str) -> bytes:
    row = case.row
    name, distances = _shown_matrix(case, chosen_by)
    usable = [index for index in row.usable if not np.isnan(distances[index, index])]
    figure = _figure(9 if case.plane else 4.5, 4.2)
    panels = figure.subplots(1, 2 if case.plane else 1, squeeze=False)[0]
    heat = panels[0]
    matrix = distances[np.ix_(usable, usable)]
    colours = palette()
    image = heat.imshow(matrix, cmap=_shades(), vmin=0)
    places = range(len(usable))
    labels = [f"[{index}]" if index in row.selected else str(index) for index in usable]
    heat.set_xticks(places, labels)
    heat.set_yticks(places, labels)
    # From here on the page's cells have light text, too.
    dark = 0.65 * float(matrix.max())
    for i in places:
        for j in places:
            if i != j and len(usable) <= 16:
                colour = "white" if matrix[i, j] >= dark else "black"
                both = usable[i] in row.selected and usable[j] in row.selected
                heat.text(
                    j,
                    i,
                    f"{matrix[i, j]:.2f}",
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=min(8, 56 / len(usable)),
                    fontweight="bold" if both else "normal",
                )
    heat.set_title(f"{name}, problem {row.rank + 1}; [ ] chosen", loc="left", fontsize=10)
    figure.colorbar(image, ax=heat, shrink=0.8)
    if case.plane:
        axes = panels[1]
        for order, (index, steps) in enumerate(case.plane.steps.items()):
            colour, marker = colours[f"s{order % 6}"], MARKERS[order % len(MARKERS)]
            label = f"solution {index}"
            axes.scatter(*steps.T, s=60, color=colour, marker=marker, label=label)
            axes.scatter(
                *case.plane.texts[index],
                s=200,
                facecolors="none",
                edgecolors=colour,
                linewidths=2,
                marker=marker,
            )
        first, second = case.plane.explained
        axes.set(
            xlabel=f"component 1 ({first:.0%})",
            ylabel=f"component 2 ({second:.0%})",
        )
        axes.set_title("steps (filled) and whole texts (hollow)", loc="left", fontsize=10)
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)
