"""The report as one HTML page that needs nothing else: no network, no font, no image file.

The template, the style sheet and the script are package data. Text from models and datasets
reaches the page through autoescaping or `latex.to_html` alone, never the script; the page's
Content-Security-Policy lets only this very script and style sheet run, by their hashes. Equal
inputs give an equal page: it holds no date and no path.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rpd_datasets.curation.rules import SELECTION_RULES
from rpd_datasets.report import charts
from rpd_datasets.report.funnel import funnel
from rpd_datasets.report.latex import clean, to_html
from rpd_datasets.report.measures import Array, Case, Measures, Pair, percentile
from rpd_datasets.report.reading import CuratedFolder, spread

# Problems of the table that were not chosen: enough to compare with, few enough to scroll.
MAX_OTHERS = 300
HEAT_LEVELS = 10
# A long chain of thought is shown by its beginning and its end.
HEAD_CHARS, TAIL_CHARS = 5000, 2000
MAX_VALUE_CHARS = 600


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
    environment.filters["html"] = lambda text: to_html(str(text))
    environment.filters["line"] = lambda text: to_html(" ".join(str(text).split()), inline=True)
    environment.filters["clean"] = lambda text: clean(str(text))
    environment.filters["d3"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["percent"] = _percent
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    style, script = _data("style.css"), _data("script.js")
    manifest = folder.manifest
    chosen_by = manifest["options"].get("solutions", "rpd")
    largest = _largest(measures)
    context = {
        "style": Markup(style),
        "script": Markup(script),
        "policy": "; ".join(
            (
                "default-src 'none'",
                f"style-src '{_hash(style)}'",
                f"script-src '{_hash(script)}'",
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
        "rule": SELECTION_RULES[manifest["options"]["selection"]],
        "by_distance": chosen_by not in ("random", "llm", "all"),
        "embedder": measures.embedder,
        "same_embedder": measures.embedder == manifest["embedder"]["name"],
        "funnel": {unit: funnel(folder, unit) for unit in ("problem", "solution")},
        "rows": _table_rows(folder),
        "num_scores": len(folder.scores),
        "num_chosen": sum(score.rank is not None for score in folder.scores),
        "num_shown": len(measures.cases),
        "distances": _distances(measures),
        "scores_chart": _scores_chart(folder),
        "tokens_charts": _tokens_charts(folder),
        "cases": [_case_context(case, measures, largest, chosen_by) for case in measures.cases],
        "levels": range(HEAT_LEVELS + 1),
        "swatch": charts.swatch,
    }
    return environment.from_string(_data("page.html")).render(context)


def _percent(value: float) -> str:
    # No pair is above all pairs, itself among them.
    return f"{value:.0f}" if value < 99 else f"{min(value, 99.9):.1f}"


def _data(name: str) -> str:
    return (resources.files("rpd_datasets.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a Content-Security-Policy names the text of an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _table_rows(folder: CuratedFolder) -> list[dict[str, Any]]:
    """The problems shown in full, then a sample of the others."""
    shown = [{"score": row.score, "rank": row.rank, "problem": row.problem} for row in folder.shown]
    others = [score for score in folder.scores if score.rank is None]
    # Without a score they rank last, as in selection.
    others.sort(key=lambda score: (score.score is None, -(score.score or 0)))
    return shown + [
        {"score": others[index], "rank": None, "problem": None}
        for index in spread(len(others), MAX_OTHERS)
    ]


def _distances(measures: Measures) -> dict[str, Any]:
    """The distributions of Fig. 3, on one axis, and what they look like in five numbers."""
    pairs = [pair for case in measures.cases for pair in case.pairs]
    kinds = (
        ("rpd", "RPD", measures.rpd, [pair.rpd for pair in pairs if pair.rpd is not None]),
        (
            "raw",
            "Raw-text distance",
            measures.raw,
            [pair.raw for pair in pairs if pair.raw is not None],
        ),
    )
    upper = float(max(measures.rpd.max(initial=0), measures.raw.max(initial=0)))
    found = []
    for kind, name, values, picked in kinds:
        if not len(values):
            continue
        bins = charts.bins_of(values, picked, upper)
        found.append(
            {
                "name": name,
                "bins": bins,
                "quantiles": np.quantile(values, (0, 0.25, 0.5, 0.75, 1)),
                "picked": float(np.median(picked)) if picked else None,
                "svg": charts.histogram(
                    bins,
                    title=f"Histogram of the {name} of {len(values)} pairs of solutions",
                    x_label=f"{name} of a pair",
                    y_label="pairs",
                    kind=kind,
                ),
            }
        )
    num_pairs = max(len(measures.rpd), len(measures.raw))
    return {"kinds": found, "num_pairs": num_pairs, "num_picked": len(pairs)}


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
        kind="rpd",
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


def _largest(measures: Measures) -> dict[str, float]:
    """The largest distance shown, of RPD and of the distance that chose solutions."""
    found = {"rpd": 0.0, "choice": 0.0}
    for case in measures.cases:
        for name, matrix in (("rpd", case.row.rpd), ("choice", case.row.distances)):
            if matrix is not None and not np.isnan(matrix).all():
                found[name] = max(found[name], float(np.nanmax(matrix)))
    return found


def _case_context(
    case: Case, measures: Measures, largest: Mapping[str, float], chosen_by: str
) -> dict[str, Any]:
    row = case.row
    order = {index: place for place, index in enumerate(row.selected)}
    beside = {
        name: value
        for name, value in row.extra.items()
        if isinstance(value, list) and len(value) == len(row.solutions)
    }
    return {
        "row": row,
        "order": order,
        "chosen": [
            {
                "index": index,
                "tokens": row.num_tokens[index],
                "steps": row.steps[index],
                "beside": {name: _value(values[index], 80) for name, values in beside.items()},
                **_excerpt(row.solutions[index]),
            }
            for index in row.selected
        ],
        "pairs": [_pair_context(pair, row.steps, measures) for pair in case.pairs],
        "heats": [
            _heat(matrix, name, largest[scale], row.usable)
            for name, scale, matrix in (
                (chosen_by, "choice", row.distances),
                ("RPD", "rpd", row.rpd),
            )
            if matrix is not None and not np.isnan(matrix).all()
        ],
        "left_out": [(index, reason) for index, reason in enumerate(row.drop_reasons) if reason],
        "plane": case.plane
        and charts.plane(
            case.plane, title="Principal components of steps and whole texts; see the caption"
        ),
        "carried": {
            name: _value(value, MAX_VALUE_CHARS)
            for name, value in row.extra.items()
            if name not in beside
        },
        "search": clean(
            " ".join(
                [row.problem, row.score.where, *(s for i in row.selected for s in row.steps[i])]
            )
        ).lower(),
    }


def _pair_context(pair: Pair, steps: Sequence[Sequence[str]], measures: Measures) -> dict[str, Any]:
    texts = {
        "a": [step for step in steps[pair.first] if step.strip()],
        "b": [step for step in steps[pair.second] if step.strip()],
    }
    index = {"a": pair.first, "b": pair.second}
    other = {"a": "b", "b": "a"}
    askers = []
    for asker in dict.fromkeys(match.asker for match in pair.matches):
        askers.append(
            {
                "index": index[asker],
                "other": index[other[asker]],
                "matches": [
                    {
                        "step": match.step + 1,
                        "text": texts[asker][match.step],
                        "match": match.match + 1,
                        "match_text": texts[other[asker]][match.match],
                        "distance": match.distance,
                    }
                    for match in pair.matches
                    if match.asker == asker
                ],
            }
        )
    return {
        "pair": pair,
        "askers": askers,
        "rpd_percentile": None if pair.rpd is None else percentile(measures.rpd, pair.rpd),
        "raw_percentile": None if pair.raw is None else percentile(measures.raw, pair.raw),
    }


def _heat(matrix: Array, name: str, largest: float, usable: Sequence[int]) -> dict[str, Any]:
    """A distance matrix as lines of cells, each with its shade."""
    known = [index for index in usable if not np.isnan(matrix[index, index])]
    lines = []
    for i in known:
        cells = []
        for j in known:
            value = float(matrix[i, j])
            level = round(HEAT_LEVELS * value / largest) if largest > 0 else 0
            cells.append({"value": value, "level": level, "own": i == j})
        lines.append({"index": i, "cells": cells})
    return {"name": name, "lines": lines, "largest": largest}


def _excerpt(text: str) -> dict[str, Any]:
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return {"head": text, "tail": "", "omitted": 0}
    omitted = len(text) - HEAD_CHARS - TAIL_CHARS
    return {"head": text[:HEAD_CHARS], "tail": text[-TAIL_CHARS:], "omitted": omitted}


def _value(value: Any, limit: int) -> str:
    """A carried value as text: strings as they are, the rest as JSON, cut where it is long."""
    shown: Any = value
    if isinstance(value, (list, Mapping)):
        shown = json.dumps(value, ensure_ascii=False, default=str)
    text = "–" if shown is None else str(shown)
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
