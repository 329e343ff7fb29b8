"""A comparison as an HTML page that needs no network, problems side by side; and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rpd_datasets.comparison import paired
from rpd_datasets.comparison.paired import Difference, Groups, Solved
from rpd_datasets.destination import check_output, whole_file
from rpd_datasets.evaluation.results import Results
from rpd_datasets.report import check_page
from rpd_datasets.report.page import render_document
from rpd_metric.errors import MissingExtraError, OutputError

# Problems whose solutions are shown, the most different first, and solutions of each model.
MOST, EACH = 30, 2
TITLE = "rpd compare"  # in a plot's metadata: another run may replace it


def write_comparison(
    path: Path,
    groups: Groups,
    differences: Sequence[Difference],
    solved: Mapping[str, Sequence[Solved]],
    measured_by: str = "",
) -> None:
    """Write the page, replacing an earlier one; raises as [`check_page`] and [`whole_file`] do."""
    check_page(path)
    columns = [
        (figures.between - figures.within, [_column(model, problem) for model in (base, other)])
        for title, (base, *others) in groups.items()
        for other in others
        for problem in solved.get(title, ())
        if (figures := paired.figures(problem, base.name, other.name))
    ]
    names = dict.fromkeys(model.name for models in groups.values() for model in models)
    context = {
        "names": ", ".join(names),
        "sentences": paired.sentences(differences) + paired.remarks(groups),
        "tables": paired.tables(groups, differences),
        "notes": paired.notes(differences, measured_by),
        "problems": [pair for _, pair in sorted(columns, key=lambda row: -row[0])[:MOST]],
    }
    text = render_document("side_by_side.html", context, ("style.css",))
    with whole_file(path) as file:
        file.write(text)


def _column(model: Results, solved: Solved) -> dict[str, Any]:
    """A model's part of a problem: first the solutions that are furthest from the other models'."""
    others = [n for n, owner in enumerate(solved.owners) if owner != model.name]
    far = {n: float(solved.distances[n, others].sum()) for n in solved.of(model.name)}
    furthest = sorted(far, key=lambda n: -far[n])[:EACH]
    strategies = solved.strategies or [""] * len(solved.owners)
    return {
        "name": model.name,
        "text": model.right[solved.problem].problem,
        "right": " of ".join(map(str, reversed(model.counts[solved.problem]))),
        "solutions": [(strategies[n], solved.texts[n]) for n in furthest],
    }


def plot(groups: Groups, differences: Sequence[Difference], path: Path) -> None:
    """Draw pass@k and differences with their bands, a column per benchmark; a PNG, or by suffix.

    Raises:
        [`MissingExtraError`]: matplotlib is not installed.
        [`OutputError`]: The file cannot be written, or is another one.
    """
    check_output(path, lambda place: () if TITLE.encode() in place.read_bytes() else None)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        module = error.name or "matplotlib"
        raise MissingExtraError("a plot", extra="report", module=module) from error
    figure = Figure(figsize=(4.5 * len(groups), 6.4), layout="constrained")
    panels = figure.subplots(2, len(groups), squeeze=False, sharex="col")
    for (title, models), (above, below) in zip(groups.items(), panels.T, strict=True):
        gaps: dict[str, dict[int, Difference]] = {}
        for gap in differences:
            if (gap.benchmark, gap.measure) == (title, paired.PASS):
                gaps.setdefault(gap.other, {})[int(gap.figure.removeprefix("pass@"))] = gap
        levels = {model.name: model.figures["pass_at_k"] for model in models}
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
        figure.savefig(path, dpi=150, metadata={"Title": TITLE, "Software": None})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {error}") from error
