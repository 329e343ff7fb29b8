"""A comparison as an HTML page that needs no network, with problems side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.comparison import paired
from rpd_datasets.comparison.paired import Difference, Groups, Solved
from rpd_datasets.destination import whole_file
from rpd_datasets.evaluation.results import Results
from rpd_datasets.report import check_page
from rpd_datasets.report.page import render_document

# Problems whose solutions are shown, the most different first, and solutions of each model.
MOST, EACH = 30, 2


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
