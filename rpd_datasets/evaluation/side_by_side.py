"""A comparison as one HTML page that needs no network: tables, sentences, problems side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rpd_datasets.commands import printable
from rpd_datasets.evaluation.comparison import Difference, notes, tables
from rpd_datasets.evaluation.sampled import Sampled
from rpd_datasets.evaluation.variety import Solved
from rpd_metric.errors import InputError, OutputError

# Problems whose solutions are shown, the most different first, and solutions of each model.
MOST, EACH = 30, 2


def write_page(
    path: Path,
    models: Sequence[Sampled],
    differences: Sequence[Difference],
    solved: Mapping[str, Sequence[Solved]],
) -> None:
    """Write the page, replacing an earlier one.

    Raises:
        [`InputError`]: `path` does not end in `.html`.
        [`OutputError`]: The file cannot be written.
    """
    if path.suffix != ".html":
        raise InputError(f"the page is an HTML file: name it {path.with_suffix('.html').name}")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["clean"] = lambda text: printable(str(text))
    style = resources.files("rpd_datasets.report") / "style.css"
    template = resources.files("rpd_datasets.evaluation") / "comparison.html"
    found = {(title, one.problem): one for title, problems in solved.items() for one in problems}
    apart = {
        (gap.benchmark, one.problem): one.between - one.within
        for gap in differences
        for one in gap.problems
    }
    shown = sorted(apart, key=lambda place: -apart[place])[:MOST]
    text = environment.from_string(template.read_text(encoding="utf-8")).render(
        style=Markup(style.read_text(encoding="utf-8")),
        names=", ".join(dict.fromkeys(one.results.name for one in models)),
        sentences=[one.sentence for one in differences],
        tables=tables([one.results for one in models], differences),
        notes=notes(differences),
        problems=[
            [_column(one, found[place]) for one in models if one.results.title == place[0]]
            for place in shown
        ],
    )
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _column(one: Sampled, solved: Solved) -> dict[str, Any]:
    """A model's part of a problem: first the solutions that are furthest from the other models'."""
    name, owners = one.results.name, list(solved.owners)
    others = [n for n, who in enumerate(owners) if who != name]
    far = {n: float(solved.distances[n, others].sum()) for n in solved.of(name)}
    known, first = solved.strategies or [""] * len(owners), owners.index(name) if far else 0
    shown = sorted(far, key=lambda n: -far[n])[:EACH]
    return {
        "name": name,
        "text": one.texts[solved.problem],
        "right": " of ".join(map(str, reversed(one.results.counts[solved.problem]))),
        "solutions": [(known[n], one.right[solved.problem].solutions[n - first]) for n in shown],
    }
