"""The report as one HTML page that needs nothing else: no network, no font, no image file.

The template, the style sheet and the scripts are package data. The overview is written here, by an
autoescaping template; the problems lie in the page as compressed JSON (`archive.py`), which the
script turns into text nodes and MathML. The page's Content-Security-Policy lets only these very
scripts and style sheet run, by their hashes, and no text become HTML. Equal inputs give an equal
page: it holds no date and no path.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rpd_datasets.account import BUDGET_RULE, SELECTION_RULES, outcome_lines
from rpd_datasets.config import METRICS
from rpd_datasets.report import charts
from rpd_datasets.report.archive import LIMITS, archive, curves_of
from rpd_datasets.report.funnel import funnel
from rpd_datasets.report.measures import Measures, spreads
from rpd_datasets.report.reading import CuratedFolder
from rpd_metric.distance.calibration import UNKNOWN

SCRIPTS = ("temml/temml.min.js", "text.js", "app.js")
STYLES = ("temml/temml.css", "style.css")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """A text without what HTML cannot hold: control characters and halves of surrogate pairs."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def render(folder: CuratedFolder, measures: Measures) -> str:
    """Make the page.

    Args:
        folder ([`CuratedFolder`]): What was curated.
        measures ([`Measures`]): What was measured of the problems shown.

    Returns:
        `str`: An HTML document.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["clean"] = lambda text: clean(str(text))
    environment.filters["d3"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    style = "\n".join(map(_data, STYLES))
    scripts = [_data(name) for name in SCRIPTS]
    packed = archive(folder, measures.cases)
    manifest = folder.manifest
    chosen_by = manifest["options"].get("solutions", "rpd")
    context = {
        "style": Markup(style),
        "scripts": [Markup(script) for script in scripts],
        "archive": packed,
        "shortened": packed.limits != LIMITS[0],
        "outcome": outcome_lines(manifest["outcome"], manifest["summarizer"]["name"])
        if "outcome" in manifest
        else [],
        "policy": "; ".join(
            (
                "default-src 'none'",
                f"style-src '{_hash(style)}'",
                "script-src " + " ".join(f"'{_hash(script)}'" for script in scripts),
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            )
        ),
        "manifest": manifest,
        "counts": manifest["counts"],
        "options": manifest["options"],
        "problems_by": manifest["options"].get("problems", "rpd"),
        "solutions_by": chosen_by,
        "rule": _rule(manifest["options"]),
        "by_distance": chosen_by not in ("random", "llm", "all"),
        "embedder": measures.embedder,
        "same_embedder": measures.embedder == manifest["embedder"]["name"],
        "readings": _readings(manifest, with_rpd=len(measures.rpd) > 0),
        "funnel": {unit: funnel(folder, unit) for unit in ("problem", "solution")},
        "num_scores": len(folder.scores),
        "num_chosen": sum(score.rank is not None for score in folder.scores),
        "num_shown": len(measures.cases),
        "distances": _distances(measures, chosen_by),
        "scores_chart": _scores_chart(folder),
        "tokens_charts": _tokens_charts(folder),
        "num_measured": sum(case.plane is not None for case in measures.cases),
    }
    return environment.from_string(_data("page.html")).render(context)


def _rule(options: Mapping[str, Any]) -> str:
    if options.get("num_samples") is not None:
        return f"a budget of {options['num_samples']:,} samples: {BUDGET_RULE}"
    return f"{options['selection']}: {SELECTION_RULES[options['selection']]}"


def _readings(manifest: Mapping[str, Any], *, with_rpd: bool) -> list[tuple[str, str]]:
    """By the name of each distance that is shown, the scale to read it by, or how to make one."""
    chosen_by = manifest["options"].get("solutions", "rpd")
    by_rpd, by_choice = curves_of(manifest)
    curves = {"RPD": by_rpd} if with_rpd else {}
    if chosen_by != "rpd" and chosen_by in METRICS:
        curves[chosen_by] = by_choice
    return [(name, curve.scale() if curve else UNKNOWN) for name, curve in curves.items()]


def _data(name: str) -> str:
    return (resources.files("rpd_datasets.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a Content-Security-Policy names the text of an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _distances(measures: Measures, chosen_by: str) -> dict[str, Any]:
    """The distributions of Fig. 3, on one axis, and what they look like in five numbers."""
    shown = spreads(measures, chosen_by)
    upper = max((float(one.values.max()) for one in shown), default=0.0)
    found = []
    for one in shown:
        bins = charts.bins_of(one.values, one.picked, upper)
        found.append(
            {
                "name": one.name,
                "chose": one.kind == "accent" and chosen_by in METRICS,
                "bins": bins,
                "quantiles": np.quantile(one.values, (0, 0.25, 0.5, 0.75, 1)),
                "picked": float(np.median(one.picked)) if one.picked else None,
                "svg": charts.histogram(
                    bins,
                    title=f"Histogram: {one.name} of {len(one.values)} pairs of solutions",
                    x_label=f"{one.name} of a pair",
                    y_label="pairs",
                    kind=one.kind,
                ),
            }
        )
    num_pairs = max((len(one.values) for one in shown), default=0)
    num_picked = sum(len(case.pairs) for case in measures.cases)
    return {"kinds": found, "num_pairs": num_pairs, "num_picked": num_picked}


def _scores_chart(folder: CuratedFolder) -> dict[str, Any] | None:
    scored = [score.score for score in folder.scores if score.score is not None]
    if not scored:
        return None
    chosen = [s.score for s in folder.scores if s.score is not None and s.rank is not None]
    bins = charts.bins_of(scored, chosen)
    svg = charts.histogram(
        bins,
        title=f"Histogram of the problem scores of {len(scored)} problems",
        x_label="problem score",
        y_label="problems",
        kind="accent",
    )
    return {
        "svg": svg,
        "bins": bins,
        "count": len(scored),
        "lowest_chosen": min(chosen, default=None),
    }


def _tokens_charts(folder: CuratedFolder) -> list[dict[str, Any]]:
    groups = (
        (
            "Mean length of a problem's solutions",
            [score.mean_tokens for score in folder.scores],
            "problems",
        ),
        ("Length of the chosen solutions", folder.selected_tokens, "solutions"),
    )
    found = []
    for name, values, unit in groups:
        bins = charts.bins_of(values)
        svg = charts.histogram(
            bins,
            title=f"Histogram: {name.lower()}, {len(values)} {unit}",
            x_label="tokens",
            y_label=unit,
            kind="tokens",
        )
        median = float(np.median(values)) if values else 0.0
        found.append({"name": name, "svg": svg, "bins": bins, "median": median})
    return found
