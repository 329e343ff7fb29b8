"""Charts as SVG: drawn once, for the page and as files for papers and cards.

Plain functions from numbers to markup. Colours are classes, so that light, dark and print are the
style sheet's business; [`as_file`] gives a chart the page's light colours to take along.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
NUM_BINS = 30

Values = Sequence[float] | npt.NDArray[np.float64]


def nice_step(span: float, count: int) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that cuts a span into at most `count`.

    >>> nice_step(0.83, 30), nice_step(1000, 5)
    (0.05, 200.0)
    """
    least = span / count
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        float(f"{m * power:.12g}") for m in (1, 2, 2.5, 5, 10) if m * power >= least * 0.999
    )


class _Chart:
    """An empty chart: its size, and the first and last value of both axes."""

    def __init__(
        self, title: str, size: tuple[int, int], x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        self.width, self.height = width, height = size
        (self.left, self.right), (self.low, self.high) = x, y
        self.parts = [
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{escape(title)}">'
        ]

    def x(self, value: float) -> float:
        share = (value - self.left) / (self.right - self.left)
        return LEFT + (self.width - LEFT - RIGHT) * share

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.height - BOTTOM - (self.height - BOTTOM - TOP) * share

    def axes(self, x_label: str, y_label: str, x_step: float, y_step: float) -> None:
        end, middle = self.width - RIGHT, (TOP + self.height - BOTTOM) / 2
        for tick in np.arange(self.low, self.high + y_step / 1e6, y_step):
            y = self.y(tick)
            self.parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>'
                + _text("tick", "end", LEFT - 6, y + 4, _number(tick))
            )
        for tick in np.arange(self.left, self.right + x_step / 1e6, x_step):
            place = self.height - BOTTOM + 16
            self.parts.append(_text("tick", "middle", self.x(tick), place, _number(tick)))
        base = self.y(self.low)
        self.parts += [
            f'<line class="axis" x1="{LEFT}" x2="{end}" y1="{base:.1f}" y2="{base:.1f}"/>',
            _text("label", "middle", (LEFT + end) / 2, self.height - 6, x_label),
            '<g transform="rotate(-90)">' + _text("label", "middle", -middle, 11, y_label) + "</g>",
        ]

    def markup(self) -> Markup:
        return Markup("".join([*self.parts, "</svg>"]))


def _number(value: float) -> str:
    text = f"{value:,.6f}".rstrip("0")
    return text.rstrip(".")


def _text(name: str, anchor: str, x: float, y: float, text: str) -> str:
    place = f'text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="{name}" {place}>{escape(text)}</text>'


def histogram(
    values: Values,
    marked: Values = (),
    upper: float = 0.0,
    *,
    title: str,
    x_label: str,
    y_label: str,
    kind: str,
) -> Markup:
    """A histogram from 0 to a round number, of `upper` at least, with some values set apart.

    `kind` is the class of its bars; their marked part is in full colour.
    """
    largest = float(max(upper, max(values, default=0)))
    width = nice_step(largest or 1.0, NUM_BINS)
    edges = np.arange(max(1, math.ceil(largest / width - 1e-9)) + 1, dtype=np.float64) * width
    # Rounding may leave the largest value a hair beyond the last edge.
    counts, in_colour = (
        np.histogram(np.minimum(np.asarray(group, dtype=np.float64), edges[-1]), edges)[0]
        for group in (values, marked)
    )
    highest, end = int(counts.max()) or 1, float(edges[-1])
    step = max(1.0, nice_step(highest, 4))
    top = math.ceil(highest / step - 1e-9) * step
    chart = _Chart(title, (400, 220), (0, end), (0, top))
    chart.axes(x_label, y_label, nice_step(end, 6), step)
    lefts = [chart.x(edge) for edge in edges]
    for left, right, count, number in zip(lefts, lefts[1:], counts, in_colour, strict=False):
        for name, height in ((kind, count), (f"{kind} marked", number)):
            if height:
                y = chart.y(height)
                chart.parts.append(
                    f'<rect class="{name}" x="{left + 0.5:.1f}" y="{y:.1f}" '
                    f'width="{right - left - 1:.1f}" height="{chart.y(0) - y:.1f}"/>'
                )
    return chart.markup()


def corpus_map(listed: Sequence[Mapping[str, Any]]) -> Markup | None:
    """All problems of the list by score and strategies; each mark names its place there."""
    known = [
        (one["score"], one["strategies"], one["rank"] is not None, place)
        for place, one in enumerate(listed)
        if one["score"] is not None and one["strategies"] is not None
    ]
    if not known:
        return None
    scores = [one[0] for one in known]
    step = nice_step(max(scores) - min(scores) or 1.0, 5)
    left, right = math.floor(min(scores) / step) * step, max(*scores, min(scores) + step / 2)
    high = max(1.1, *(one[1] for one in known))
    title = f"{len(known)} problems by score and effective number of strategies"
    chart = _Chart(title, (800, 300), (left, right), (1, high))
    chart.axes("problem score", "strategies", step, nice_step(high - 1, 5))
    for kind, of in (("accent", False), ("accent marked", True)):
        dots = (
            f'<circle data-place="{place}" cx="{chart.x(score):.1f}" cy="{chart.y(number):.1f}" '
            'r="4.5"/>'
            for score, number, chosen, place in reversed(known)
            if chosen is of
        )
        chart.parts.append(f'<g class="{kind}">{"".join(dots)}</g>')
    return chart.markup()


@cache
def _style() -> str:
    return (resources.files("rpd_datasets.report") / "style.css").read_text(encoding="utf-8")


def palette() -> dict[str, str]:
    """The colours of the report's page in the light, by their names in its style sheet."""
    return dict(re.findall(r"--([\w-]+): (?:light-dark\()?(#[0-9a-f]{6})", _style()))


def as_file(chart: Markup) -> bytes:
    """A chart as an SVG file of its own, by the page's rules for charts in its light colours."""
    rules = re.findall(r"^(?:svg|\.chart \.|\.(?:accent|beside|raw|tokens)).*", _style(), re.M)
    style = re.sub(r"var\(--([\w-]+)\)", lambda one: palette()[one[1]], "\n".join(rules))
    head, _, rest = str(chart).partition(">")
    sheet = f'<style>{style}</style><rect width="100%" height="100%" fill="#ffffff"/>'
    named = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    return f"{named}>{sheet}{rest}\n".encode()


def scores_chart(scores: Values, chosen: Values) -> Markup:
    """The histogram of problem scores, with those of the chosen problems set apart."""
    return histogram(
        scores,
        chosen,
        title=f"Histogram of the problem scores of {len(scores)} problems",
        x_label="problem score",
        y_label="problems",
        kind="accent",
    )


def lengths_chart(tokens: Values) -> Markup:
    """The histogram of the lengths of chosen solutions, in tokens."""
    return histogram(
        tokens,
        title=f"Histogram: length of the chosen solutions, {len(tokens)} solutions",
        x_label="tokens",
        y_label="solutions",
        kind="tokens",
    )


def draw_card_figures(scores: Values, chosen: Values, tokens: Values) -> dict[str, bytes]:
    """The figures of a dataset card by file name: scores, if any, and lengths of solutions."""
    figures = {"token_lengths.svg": as_file(lengths_chart(tokens))}
    if len(scores):
        figures["problem_scores.svg"] = as_file(scores_chart(scores, chosen))
    return figures
