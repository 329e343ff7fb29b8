"""A comparison as an HTML page that needs no network, problems side by side; and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rpd_datasets.commands import printable
from rpd_datasets.comparison import paired
from rpd_datasets.comparison.paired import Difference, Groups, Solved
from rpd_datasets.evaluation.results import Results
from rpd_datasets.report import check_page
from rpd_metric.errors import MissingExtraError, OutputError

# Problems whose solutions are shown, the most different first, and solutions of each model.
MOST, EACH = 30, 2


def write_page(
    path: Path,
    groups: Groups,
    differences: Sequence[Difference],
    solved: Mapping[str, Sequence[Solved]],
) -> None:
    """Write the page, replacing an earlier one.

    Raises:
        [`InputError`]: `path` does not end in `.html`.
        [`OutputError`]: The file cannot be written.
    """
    check_page(path)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["clean"] = lambda text: printable(str(text))
    style = resources.files("rpd_datasets.report") / "style.css"
    template = resources.files("rpd_datasets.comparison") / "side_by_side.html"
    found = [
        (one.between - one.within, [_column(model, problem) for model in (base, other)])
        for title, (base, *others) in groups.items()
        for other in others
        for problem in solved.get(title, ())
        if (one := paired.figures(problem, base.name, other.name))
    ]
    text = environment.from_string(template.read_text(encoding="utf-8")).render(
        style=Markup(style.read_text(encoding="utf-8")),
        names=", ".join(dict.fromkeys(one.name for models in groups.values() for one in models)),
        sentences=paired.sentences(differences) + paired.missing(groups),
        tables=paired.tables(groups, differences),
        notes=paired.NOTES,
        problems=[pair for _, pair in sorted(found, key=lambda one: -one[0])[:MOST]],
    )
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _column(one: Results, solved: Solved) -> dict[str, Any]:
    """A model's part of a problem: first the solutions that are furthest from the other models'."""
    others = [n for n, who in enumerate(solved.owners) if who != one.name]
    far = {n: float(solved.distances[n, others].sum()) for n in solved.of(one.name)}
    shown = sorted(far, key=lambda n: -far[n])[:EACH]
    known = solved.strategies or [""] * len(solved.owners)
    return {
        "name": one.name,
        "text": one.right[solved.problem].problem,
        "right": " of ".join(map(str, reversed(one.counts[solved.problem]))),
        "solutions": [(known[n], solved.texts[n]) for n in shown],
    }


def plot(groups: Groups, differences: Sequence[Difference], path: Path) -> None:
    """Draw pass@k and differences with their bands, a column per benchmark; a PNG, or by suffix.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
        [`OutputError`]: The file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        module = error.name or "matplotlib"
        raise MissingExtraError("a plot", extra="report", module=module) from error
    figure = Figure(figsize=(4.5 * len(groups), 6.4), layout="constrained")
    panels = figure.subplots(2, len(groups), squeeze=False, sharex="col")
    for (title, models), (above, below) in zip(groups.items(), panels.T, strict=True):
        gaps: dict[str, dict[int, Difference]] = {}
        for one in differences:
            if (one.benchmark, one.measure) == (title, paired.PASS):
                gaps.setdefault(one.other, {})[int(one.figure.removeprefix("pass@"))] = one
        levels = {one.name: one.figures["pass_at_k"] for one in models}
        for panel, curves in ((above, levels), (below, gaps)):
            for name, by_k in curves.items():
                ends = [(k, 100 * f.value, 100 * f.low, 100 * f.high) for k, f in by_k.items()]
                ks, middle, low, high = np.transpose(ends)
                panel.plot(ks, middle, marker="o", label=name)
                panel.fill_between(ks, low, high, alpha=0.15)
            panel.legend()
        above.set_xscale("log", base=2)
        above.set(title=title, ylabel="pass@k (%)")
        below.set(xlabel="k", ylabel=f"points above {models[0].name}")
    try:
        # Without the date, so that the same results give the same file.
        figure.savefig(path, dpi=150, metadata={"Software": None})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error
