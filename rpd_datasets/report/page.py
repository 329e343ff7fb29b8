"""The report as one HTML page that needs nothing else: no network, no font, no image file.

The overview is written by an autoescaping template; the problems lie in the page as compressed JSON
(`archive.py`), which the script turns into text nodes and MathML. The Content-Security-Policy lets
only these very scripts and style sheet run, by their hashes, and no text become HTML. Equal inputs
give an equal page: it holds no date and no path.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rpd_datasets.account import outcome_lines
from rpd_datasets.commands import printable
from rpd_datasets.config import distance_of
from rpd_datasets.report import charts
from rpd_datasets.report.archive import LIMITS, archive, curves_of
from rpd_datasets.report.contents import CuratedFolder, Line, funnel
from rpd_datasets.report.measures import Measures
from rpd_metric.distance.calibration import TOGETHER, UNKNOWN
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.steps.summarizers import SUMMARIZERS

SCRIPTS = ("temml/temml.min.js", "text.js", "app.js")
STYLES = ("temml/temml.css", "style.css")


def _distances(folder: CuratedFolder, measures: Measures) -> list[Line]:
    """The distributions of distances on one axis, the one that chose first, with figures for their
    captions; `picked` is the median of the chosen pairs."""
    pairs = [pair for case in measures.cases for pair in case.pairs]
    chose, by_other = folder.chosen_by, len(measures.choosing) > 0
    kinds = [
        (f"Distance {chose}", "accent", measures.choosing, [pair.chosen_by for pair in pairs]),
        ("RPD", "beside" if by_other else "accent", measures.rpd, [pair.rpd for pair in pairs]),
    ]
    kinds = [kind for kind in kinds if len(kind[2])]
    upper = max((float(values.max()) for _, _, values, _ in kinds), default=0.0)
    lines = []
    for name, colour, values, of_chosen in kinds:
        picked = [value for value in of_chosen if value is not None]
        svg = charts.histogram(values, picked, upper, x_label=name, y_label="pairs", kind=colour)
        line = {"name": name, "svg": svg, "quantiles": np.quantile(values, (0, 0.25, 0.5, 0.75, 1))}
        line["chose"] = colour == "accent" and distance_of(chose) is not None
        line["picked"] = float(np.median(picked)) if picked else None
        lines.append(line)
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


def render(folder: CuratedFolder, measures: Measures) -> str:
    """The page, an HTML document."""
    packed = archive(folder, measures.cases)
    manifest, options = folder.manifest, folder.manifest["options"]
    scored, chosen = (
        [line["score"] for line in lines if line["score"] is not None]
        for lines in (folder.scores, [line for line in folder.scores if line["rank"] is not None])
    )
    # To look at a log is no choice.
    is_choice = folder.word == "chosen"
    verdict = manifest.get("outcome", {}).get("verdict") if is_choice else None
    context = {
        "archive": packed,
        "shortened": packed.limits != LIMITS[0],
        "verdict": verdict,
        "outcome": outcome_lines(manifest, folder.word)[bool(verdict) :],
        "word": folder.word,
        "manifest": manifest,
        "options": options,
        "solutions_by": folder.chosen_by,
        "scored_by": distance_of(options["problems"]) or "rpd",
        "embedder": measures.embedder,
        "same_embedder": measures.embedder == manifest["embedder"]["name"],
        "readings": _readings(folder, with_rpd=len(measures.rpd) > 0),
        "funnel": {unit: funnel(folder, unit) for unit in ("problem", "solution")},
        "distances": _distances(folder, measures),
        "scores": charts.scores_chart(scored, chosen) if scored else None,
        "num_scored": len(scored),
        "lowest_chosen": min(chosen, default=None),
        "lengths": charts.lengths_chart(folder.selected_tokens),
        "median_length": np.median(folder.selected_tokens or [0]),
        "num_scores": len(folder.scores),
        "num_chosen": sum(line["rank"] is not None for line in folder.scores),
        "num_shown": len(measures.cases),
        "num_measured": sum(case.encoded for case in measures.cases),
        "num_pairs": max(len(measures.choosing), len(measures.rpd)),
        "num_picked": sum(len(case.pairs) for case in measures.cases),
    }
    return render_document("page.html", context, STYLES, SCRIPTS)


def _readings(folder: CuratedFolder, *, with_rpd: bool) -> list[tuple[str, str]]:
    """By the name of each distance that is shown, the scale to read it by, or how to make one."""
    names = {"rpd": "RPD"} if with_rpd else {}
    if distance_of(folder.chosen_by) is not None:
        names.setdefault(folder.chosen_by, folder.chosen_by)
    curves, readings = curves_of(folder), []
    chat = folder.manifest["summarizer"]["name"] not in SUMMARIZERS
    for name, title in names.items():
        by_chat = chat and DISTANCES[distance_of(name) or name].reads_steps
        unknown = UNKNOWN if by_chat else TOGETHER
        readings.append((title, curve.scale() if (curve := curves[name]) else unknown))
    return readings


def _hash(text: str) -> str:
    """How a Content-Security-Policy names the text of an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
