"""Charts as SVG: drawn once, for the page and as files for cards.

Plain functions from numbers to markup. Colours are classes, so that light, dark and print are the
style sheet's business; [`as_file`] gives a chart the page's light colours to take along.
"""

import math
import re
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

WIDTH, HEIGHT = 400, 220
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


def _number(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _text(name: str, anchor: str, x: float, y: float, text: str) -> str:
    place = f'text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}"'
    return f'<text class="{name}" {place}>{escape(text)}</text>'


def _line(name: str, y: float) -> str:
    return f'<line class="{name}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def histogram(
    values: Values,
    marked: Values = (),
    upper: float = 0.0,
    *,
    x_label: str,
    y_label: str,
    kind: str,
) -> Markup:
    """A histogram from 0 to a round number, of `upper` at least, with some values set apart.

    `kind` is the class of its bars; their marked part is in full colour.
    """
    title = f"Histogram: {x_label} of {len(values)} {y_label}"
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
    base, across = HEIGHT - BOTTOM, WIDTH - LEFT - RIGHT

    def x(value: float) -> float:
        return LEFT + across * value / end

    def y(count: float) -> float:
        return base - (base - TOP) * count / top

    about = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"'
    parts = [f'<svg class="chart" {about}>']
    for tick in np.arange(0, top + step / 2, step).tolist():
        parts.append(_line("grid", y(tick)))
        parts.append(_text("tick", "end", LEFT - 6, y(tick) + 4, _number(tick)))
    between = nice_step(end, 6)
    for tick in np.arange(0, end + between / 1e6, between).tolist():
        parts.append(_text("tick", "middle", x(tick), base + 16, _number(tick)))
    parts += [
        _line("axis", base),
        _text("label", "middle", LEFT + across / 2, HEIGHT - 6, x_label),
        '<g transform="rotate(-90)">',
        _text("label", "middle", -(TOP + base) / 2, 11, y_label) + "</g>",
    ]
    for left, count, number in zip(edges, counts, in_colour, strict=False):
        for name, height in ((kind, count), (f"{kind} marked", number)):
            if height:
                parts.append(
                    f'<rect class="{name}" x="{x(left) + 0.5:.1f}" y="{y(height):.1f}" '
                    f'width="{x(width) - LEFT - 1:.1f}" height="{base - y(height):.1f}"/>'
                )
    return Markup("".join([*parts, "</svg>"]))


@cache
def packaged(name: str) -> str:
    """A template, script or style sheet of this folder."""
    return (resources.files("rpd_datasets.report") / name).read_text(encoding="utf-8")


def palette() -> dict[str, str]:
    """The colours of the report's page in the light, by their names in its style sheet."""
    style = packaged("style.css")
    return dict(re.findall(r"--([\w-]+): (?:light-dark\()?(#[0-9a-f]{6})", style))


def as_file(chart: Markup) -> bytes:
    """A chart as an SVG file of its own, by the page's rules for charts in its light colours."""
    sheet = packaged("style.css")
    rules = re.findall(r"^(?:svg|\.chart \.|\.(?:accent|beside|tokens)).*", sheet, re.M)
    style = re.sub(r"var\(--([\w-]+)\)", lambda name: palette()[name[1]], "\n".join(rules))
    head, _, rest = str(chart).partition(">")
    sheet = f'<style>{style}</style><rect width="100%" height="100%" fill="#ffffff"/>'
    named = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    return f"{named}>{sheet}{rest}\n".encode()


# Of problem scores, those of chosen problems set apart, and of the lengths of chosen solutions.
scores_chart = partial(histogram, x_label="problem score", y_label="problems", kind="accent")
lengths_chart = partial(histogram, x_label="tokens", y_label="solutions", kind="tokens")


def draw_card_figures(scores: Values, chosen: Values, tokens: Values) -> dict[str, bytes]:
    """The figures of a dataset card by file name: scores, if any, and lengths of solutions."""
    figures = {"token_lengths.svg": as_file(lengths_chart(tokens))}
    if len(scores):
        figures["problem_scores.svg"] = as_file(scores_chart(scores, chosen))
    return figures
