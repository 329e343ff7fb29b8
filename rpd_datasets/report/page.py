"""The report as one HTML page that needs nothing else: no network, no font, no image file.

The overview is written by an autoescaping template; the problems lie in the page as compressed JSON
(`archive.py`), which the script turns into text nodes and MathML. The Content-Security-Policy lets
only these very scripts and style sheet run, by their hashes, and no text become HTML. Equal inputs
give an equal page: it holds no date and no path.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rpd_datasets.account import made_lines, outcome_lines
from rpd_datasets.commands import printable
from rpd_datasets.config import distance_of
from rpd_datasets.report import charts
from rpd_datasets.report.archive import LIMITS, archive, curves_of
from rpd_datasets.report.contents import Array, CuratedFolder, Line

SCRIPTS = ("temml/temml.min.js", "text.js", "app.js")
STYLES = ("temml/temml.css", "style.css")


def _values(matrices: Iterable[Array]) -> Array:
    """One value for each pair that has a distance."""
    above = [matrix[np.triu_indices(len(matrix), 1)] for matrix in matrices]
    values = np.concatenate([np.zeros(0), *above])
    return np.asarray(values[~np.isnan(values)], dtype=np.float64)


def _distances(folder: CuratedFolder) -> list[Line]:
    """The distributions of distances on one axis, the one that chose first."""
    chose, shown = folder.chosen_by, folder.shown
    other = [(row.distances, row.selected) for row in shown if row.distances is not None]
    rpd = [(row.rpd, row.selected) for row in shown]
    kinds = [
        (f"Distance {chose}", "accent", other),
        ("RPD", "beside" if other else "accent", rpd),
    ]
    values = {name: _values(matrix for matrix, _ in rows) for name, _, rows in kinds}
    upper = max((float(of_all.max()) for of_all in values.values() if len(of_all)), default=0.0)
    lines = []
    for name, colour, rows in kinds:
        if not len(values[name]):
            continue
        picked = _values(matrix[np.ix_(selected, selected)] for matrix, selected in rows)
        svg = charts.histogram(
            values[name], picked, upper, x_label=name, y_label="pairs", kind=colour
        )
        by_it = colour == "accent" and distance_of(chose) is not None
        lines.append({"name": name, "svg": svg, "chose": by_it, "pairs": len(values[name])})
    return lines


def render_document(
    template: str, context: Mapping[str, Any], styles: Sequence[str], scripts: Sequence[str] = ()
) -> str:
    """An HTML document of this folder's templates, with the policy that lets only its parts run."""
    environment = Environment(
        loader=FunctionLoader(charts.packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = lambda text: printable(str(text))
    environment.filters["d3"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    style, codes = ("\n".join(map(charts.packaged, styles)), list(map(charts.packaged, scripts)))
    allowed = " ".join(f"'{_hash(code)}'" for code in codes) or "'none'"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {allowed}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    parts = {"style": Markup(style), "scripts": list(map(Markup, codes)), "policy": policy}
    return environment.get_template(template).render(parts | dict(context))


def render(folder: CuratedFolder) -> str:
    """The page, an HTML document."""
    packed = archive(folder)
    manifest, options = folder.manifest, folder.manifest["options"]
    scored, chosen = (
        [line["score"] for line in lines if line["score"] is not None]
        for lines in (folder.scores, [line for line in folder.scores if line["rank"] is not None])
    )
    distances = _distances(folder)
    context = {
        "archive": packed,
        "shortened": packed.limits != LIMITS[0],
        "outcome": outcome_lines(manifest, folder.word),
        "made": made_lines(manifest, folder.word),
        "word": folder.word,
        "manifest": manifest,
        "options": options,
        "solutions_by": folder.chosen_by,
        "scored_by": distance_of(options["problems"]) or "rpd",
        "scales": [
            (curve.distance, curve.scale()) for curve in curves_of(folder).values() if curve
        ],
        "distances": distances,
        "scores": charts.scores_chart(scored, chosen) if scored else None,
        "num_scored": len(scored),
        "lowest_chosen": min(chosen, default=None),
        "lengths": charts.lengths_chart(folder.selected_tokens),
        "median_length": np.median(folder.selected_tokens or [0]),
        "num_scores": len(folder.scores),
        "num_chosen": sum(line["rank"] is not None for line in folder.scores),
        "num_shown": len(folder.shown),
        "num_pairs": max((line["pairs"] for line in distances), default=0),
        "num_picked": sum(math.comb(len(row.selected), 2) for row in folder.shown),
    }
    return render_document("page.html", context, STYLES, SCRIPTS)


def _hash(text: str) -> str:
    """How a Content-Security-Policy names the text of an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
