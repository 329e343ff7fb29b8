"""Charts as inline SVG that follows the page's colours: histograms and the plane of steps.

Plain functions from numbers to markup. Colours are classes, so that light, dark and print are the
style sheet's business. The same histograms as PNG files are `figures.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from rpd_datasets.report.measures import Plane

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
NUM_BINS = 30
# Told apart by shape as well as by colour; further solutions begin anew.
SHAPES = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True)
class Bins:
    """A histogram.

    Args:
        edges (`array` of shape `(n + 1,)`): Of the bins.
        counts (`array` of shape `(n,)`): All values.
        marked (`array` of shape `(n,)`): Those of them that are set apart; zeros if none are.
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    marked: npt.NDArray[np.int64]


def bins_of(
    values: Sequence[float] | npt.NDArray[np.float64],
    marked: Sequence[float] | npt.NDArray[np.float64] = (),
    upper: float | None = None,
    num_bins: int = NUM_BINS,
) -> Bins:
    """Count values in equal bins from 0 to a round number.

    Args:
        values (`Sequence[float]`): Not negative.
        marked (`Sequence[float]`): Those of the values that are set apart.
        upper (`float`, *optional*): The largest value expected; that of `values` if unset.
        num_bins (`int`): About how many bins.
    """
    largest = float(max(upper or 0, max(values, default=0)))
    step = nice_step(largest or 1.0, num_bins)
    count = max(1, math.ceil(largest / step - 1e-9))
    edges = np.arange(count + 1, dtype=np.float64) * step

    def counted(group: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        # Rounding may leave the largest value a hair beyond the last edge.
        inside = np.minimum(np.asarray(group, dtype=np.float64), edges[-1])
        return np.histogram(inside, edges)[0].astype(np.int64)

    return Bins(edges, counted(values), counted(marked))


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that cuts a span into at most `count`.

    Example:

    >>> nice_step(0.83, 30), nice_step(1000, 5)
    (0.05, 200.0)
    """
    least = span / count
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        float(f"{m * power:.12g}") for m in (1, 2, 2.5, 5, 10) if m * power >= least * 0.999
    )


def histogram(bins: Bins, *, title: str, x_label: str, y_label: str, kind: str) -> Markup:
    """A histogram; the marked part of each bar is drawn in the accent colour.

    Args:
        bins ([`Bins`]): What is drawn.
        title (`str`): Read aloud in place of the picture.
        x_label, y_label (`str`): The axes.
        kind (`str`): Class of the bars, which decides their colour.
    """
    x_end, y_end = float(bins.edges[-1]), int(bins.counts.max(initial=1)) or 1
    y_step = max(1.0, nice_step(y_end, 4))
    y_end_round = math.ceil(y_end / y_step - 1e-9) * y_step
    x_step = nice_step(x_end, 6)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / x_end

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / y_end_round

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">'
    ]
    for tick in _ticks(y_end_round, y_step):
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/>'
            f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y(tick) + 4:.1f}">'
            f"{tick:,.0f}</text>"
        )
    for tick in _ticks(x_end, x_step):
        parts.append(
            f'<text class="tick" text-anchor="middle" x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}">'
            f"{tick:,.6g}</text>"
        )
    for start, end, count, marked in zip(
        bins.edges[:-1], bins.edges[1:], bins.counts, bins.marked, strict=True
    ):
        left, width = x(start) + 0.5, x(end) - x(start) - 1
        for name, of in ((kind, count), (f"{kind} marked", marked)):
            if of:
                parts.append(
                    f'<rect class="{name}" x="{left:.1f}" y="{y(of):.1f}" width="{width:.1f}" '
                    f'height="{y(0) - y(of):.1f}"/>'
                )
    parts.append(
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
        f'<text class="label" text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" '
        f'y="{HEIGHT - 6}">{escape(x_label)}</text>'
        f'<text class="label" text-anchor="middle" transform="rotate(-90)" '
        f'x="{-(TOP + HEIGHT - BOTTOM) / 2:.1f}" y="11">{escape(y_label)}</text></svg>'
    )
    return Markup("".join(parts))


def plane(points: Plane, *, title: str) -> Markup:
    """The chosen solutions' steps (small, numbered) and whole texts (large, "T") in a plane.

    Args:
        points ([`Plane`]): What is drawn; both axes have one scale.
        title (`str`): Read aloud in place of the picture.
    """
    size, margin = 320, 26
    everything = np.concatenate(
        [*points.steps.values(), *(point[None] for point in points.texts.values())]
    )
    low, high = everything.min(axis=0), everything.max(axis=0)
    middle, reach = (low + high) / 2, float((high - low).max()) / 2 or 1.0

    def place(point: npt.NDArray[np.float64]) -> tuple[float, float]:
        scaled = (point - middle) / reach * (size / 2 - margin)
        return size / 2 + float(scaled[0]), size / 2 - float(scaled[1])

    parts = [
        f'<svg class="plane" viewBox="0 0 {size} {size}" role="img" aria-label="{escape(title)}">'
        f'<rect class="frame" x="0.5" y="0.5" width="{size - 1}" height="{size - 1}"/>'
    ]
    # Whole texts lie close together, often among the steps: the small marks stay on top.
    for order, point in enumerate(points.texts.values()):
        parts.append(_mark(place(point), order, 12, "T", "text"))
    for order, steps in enumerate(points.steps.values()):
        for number, step in enumerate(steps, 1):
            parts.append(_mark(place(step), order, 9, str(number), "step"))
    first, second = points.explained
    parts.append(
        f'<text class="tick" text-anchor="end" x="{size - 6}" y="{size - 6}">'
        f"first axis {first:.0%} of the variance, second {second:.0%}</text></svg>"
    )
    return Markup("".join(parts))


def swatch(order: int) -> Markup:
    """The mark of a chosen solution, for headings and legends: the same as in the plane."""
    return Markup(
        f'<svg class="swatch" viewBox="0 0 20 20" aria-hidden="true">'
        f"{_shape((10, 10), order, 8, 'step')}</svg>"
    )


def _ticks(end: float, step: float) -> list[float]:
    return [index * step for index in range(int(end / step + 1e-9) + 1)]


def _mark(at: tuple[float, float], order: int, radius: int, label: str, kind: str) -> str:
    down = 2 if SHAPES[order % len(SHAPES)] == "triangle" else 0
    return (
        f"<g>{_shape(at, order, radius, kind)}"
        f'<text class="on-{kind} s{order % 6}" text-anchor="middle" x="{at[0]:.1f}" '
        f'y="{at[1] + 4 + down:.1f}">{label}</text></g>'
    )


def _shape(at: tuple[float, float], order: int, radius: int, kind: str) -> str:
    x, y = at
    r = float(radius)
    style = f'class="{kind} s{order % 6}"'
    match SHAPES[order % len(SHAPES)]:
        case "circle":
            return f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
        case "square":
            side = r * 0.9
            return (
                f'<rect {style} x="{x - side:.1f}" y="{y - side:.1f}" width="{2 * side:.1f}" '
                f'height="{2 * side:.1f}"/>'
            )
        case "triangle":
            corners = [(x, y - 1.2 * r), (x + 1.2 * r, y + 0.9 * r), (x - 1.2 * r, y + 0.9 * r)]
        case _:
            corners = [(x, y - 1.25 * r), (x + 1.25 * r, y), (x, y + 1.25 * r), (x - 1.25 * r, y)]
    return f'<polygon {style} points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}"/>'
