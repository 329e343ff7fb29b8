"""The problems as the page's script reads them: JSON in compressed pieces.

The first piece is the list with everything that it is sorted and filtered by; the others hold a
few dozen problems each and are unpacked by the browser when one of them is looked at, and in the
background for the search. A page stays under `BUDGET` whatever the corpus: first solutions that
were not chosen are shortened, then the chosen ones too, and each shortened text says so.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rpd_datasets.filters.correctness import mark_column
from rpd_datasets.problem import strategy_labels
from rpd_datasets.report.measures import Array, Case, Pair
from rpd_datasets.report.reading import ChosenProblem, CuratedFolder, LeftOut, Score
from rpd_metric.distance.calibration import Calibration, calibration
from rpd_metric.steps.summarizers import WITHOUT_CHAT

# For RPD, and for the distance that chose solutions.
Curves = tuple[Calibration | None, Calibration | None]
PER_PIECE = 48
BUDGET = 8_500_000
# How long a chosen solution, another one and one of its steps may be: from everything to little.
LIMITS = (
    (200_000, 200_000, 2_000),
    (200_000, 12_000, 2_000),
    (40_000, 6_000, 1_000),
    (20_000, 3_000, 500),
    (10_000, 1_500, 300),
    (5_000, 800, 200),
    (2_500, 400, 120),
    (1_000, 200, 80),
    (400, 100, 40),
    (200, 50, 20),
)
SAMPLED = 6
# Problems in the list that were not chosen: enough to compare with.
MAX_OTHERS = 3000
STATEMENT_CHARS = 220
VALUE_CHARS = 600


@dataclass(frozen=True)
class Archive:
    """What the page embeds.

    Args:
        index (`str`): The list, compressed.
        pieces (`list[str]`): The problems, `PER_PIECE` in each.
        limits (`tuple[int, int, int]`): How long chosen and other solutions and steps may be.
        num_listed (`int`): Entries of the list.
    """

    index: str
    pieces: list[str]
    limits: tuple[int, int, int]
    num_listed: int


def archive(folder: CuratedFolder, cases: Sequence[Case], budget: int = BUDGET) -> Archive:
    """Pack a folder for the page.

    Args:
        folder ([`CuratedFolder`]): What was curated.
        cases (`Sequence[Case]`): What was measured of the problems shown.
        budget (`int`): Characters that the pieces may take together.
    """
    listed = [_entry(case.row) for case in cases] + _others(folder)
    index = pack(listed)
    groups = [cases[at : at + PER_PIECE] for at in range(0, len(cases), PER_PIECE)]
    curves = curves_of(folder.manifest)
    limits = _limits(groups, budget - len(index), curves)
    pieces = [pack([_record(case, limits, curves) for case in group]) for group in groups]
    return Archive(index, pieces, limits, len(listed))


def pack(value: Any) -> str:
    """JSON, deflated, in base 64; equal values give equal text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    data = text.encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(data, 6)).decode()


def curves_of(manifest: Mapping[str, Any]) -> Curves:
    """What tells what RPD and the distance that chose mean, where anything does."""
    options = manifest["options"]
    if "calibration" in manifest:  # the user's own, which the run was read by
        own = {one["distance"]: Calibration(**one) for one in manifest["calibration"]}
        return own.get("rpd"), own.get(options.get("solutions", "rpd"))
    by_rpd, by_choice = (
        calibration(
            name,
            manifest["embedder"]["name"],
            chat=manifest["summarizer"]["name"] not in WITHOUT_CHAT,
            truncate_dim=options.get("truncate_dim"),
        )
        for name in ("rpd", options.get("solutions", "rpd"))
    )
    return by_rpd, by_choice


def _limits(groups: Sequence[Sequence[Case]], budget: int, curves: Curves) -> tuple[int, int, int]:
    """The widest limits that fit, estimated on pieces spread over all."""
    if not groups:
        return LIMITS[0]
    sample = [groups[at] for at in range(0, len(groups), max(1, len(groups) // SAMPLED))]
    share = len(groups) / len(sample)
    for limits in LIMITS:
        size = sum(len(pack([_record(case, limits, curves) for case in group])) for group in sample)
        if size * share <= budget * 0.97:
            return limits
    return LIMITS[-1]


def _entry(row: ChosenProblem) -> dict[str, Any]:
    marks = _marks(row)
    chosen = [marks[index] for index in row.selected] if marks else []
    return {
        **_numbers(row.score),
        "statement": _one_line(row.problem),
        "subject": _subject(row.extra),
        "right": sum(mark is True for mark in chosen),
        "wrong": sum(mark is False for mark in chosen),
    }


def effective_number(mean_distance: float, size: int) -> float:
    """How many fully different solutions a set of `size` is worth, by its mean pairwise distance.

    The similarity-sensitive diversity of order 2 (Leinster and Cobbold, 2012) with similarity
    1 - distance and equal weights: 1 where all are alike, `size` where all distances are 1.

    Example:

    >>> [round(effective_number(distance, 3), 2) for distance in (0.0, 1.0, 0.3)]
    [1.0, 3.0, 1.25]
    """
    return 1 / (1 - (size - 1) / size * min(mean_distance, 1.0))


def _numbers(score: Score) -> dict[str, Any]:
    number = score.strategies
    if number is None and score.mean_rpd is not None and score.num_usable > 1:
        number = effective_number(score.mean_rpd, score.num_usable)
    return {
        "rank": score.rank,
        "key": score.key,
        "where": score.where,
        "score": None if score.score is None else round(score.score, 4),
        "strategies": None if number is None else round(number, 2),
        "usable": score.num_usable,
        "solutions": score.num_solutions,
        "tokens": round(score.mean_tokens),
    }


def _others(folder: CuratedFolder) -> list[dict[str, Any]]:
    """Problems that were not chosen, best first, with why and as far as known their text."""
    reasons: dict[str, LeftOut] = {one.where: one for one in folder.left_out}
    others = [score for score in folder.scores if score.rank is None]
    others.sort(key=lambda score: (score.score is None, -(score.score or 0)))
    found = []
    for score in others[:MAX_OTHERS]:
        why = reasons.pop(score.where, None)
        found.append(
            {
                **_numbers(score),
                "statement": _one_line((why.problem if why else None) or score.statement),
                **(
                    {"why": f"{why.reason.replace('_', ' ')}: {why.detail}"}
                    if why
                    else {"why": "not chosen: other problems came first"}
                ),
            }
        )
    for one in list(reasons.values())[: MAX_OTHERS - len(found)]:  # never came to be a problem
        found.append(
            {
                "rank": None,
                "where": one.where,
                "score": None,
                "strategies": None,
                "statement": _one_line(one.problem or ""),
                "why": f"{one.reason.replace('_', ' ')}: {one.detail}",
            }
        )
    return found


def _record(case: Case, limits: tuple[int, int, int], curves: Curves) -> dict[str, Any]:
    row = case.row
    chosen = set(row.selected)
    beside = {
        name: value
        for name, value in row.extra.items()
        if isinstance(value, list) and len(value) == len(row.solutions)
    }
    labels = strategy_labels(row.extra, len(row.solutions))
    shown = dict(beside)
    if labels and "strategy" not in beside:  # a column of that name is the user's own
        del shown["strategies"]
        shown["strategy"] = labels
    return {
        "problem": row.problem,
        "selected": row.selected,
        "solutions": [
            {
                **_cut(text, limits[index not in chosen]),
                "steps": [_short(step, limits[2]) for step in row.steps[index] if step.strip()],
                "tokens": row.num_tokens[index],
                "dropped": row.drop_reasons[index].replace("_", " "),
                "detail": row.details.get(index, ""),
                "beside": {name: _value(values[index], 80) for name, values in shown.items()},
            }
            for index, text in enumerate(row.solutions)
        ],
        "rpd": _thousandths(row.rpd),
        "distances": None if row.distances is None else _thousandths(row.distances),
        "pairs": [_pair(pair, row.distances, curves) for pair in case.pairs],
        "plane": case.plane
        and {
            "steps": {
                index: points.round(4).tolist() for index, points in case.plane.steps.items()
            },
            "texts": {index: point.round(4).tolist() for index, point in case.plane.texts.items()},
            "explained": [round(share, 4) for share in case.plane.explained],
        },
        "carried": {
            name: _value(value, VALUE_CHARS)
            for name, value in row.extra.items()
            if name not in beside
        },
    }


def _pair(pair: Pair, distances: Array | None, curves: Curves) -> dict[str, Any]:
    """A pair with its distances, and what the one that chose means in words."""
    chosen_by = None if distances is None else float(distances[pair.first, pair.second])
    curve, distance = (curves[0], pair.rpd) if chosen_by is None else (curves[1], chosen_by)
    says = None
    if curve is not None and distance is not None and not np.isnan(distance):
        says = curve.phrase(distance)
    return {
        "distance": None if chosen_by is None or np.isnan(chosen_by) else round(chosen_by, 4),
        "says": says,
        "first": pair.first,
        "second": pair.second,
        "rpd": None if pair.rpd is None else round(pair.rpd, 4),
        "raw": None if pair.raw is None else round(pair.raw, 4),
        "matches": [
            [match.asker, match.step, match.match, round(match.distance, 4)]
            for match in pair.matches
        ],
    }


def _cut(text: str, limit: int) -> dict[str, Any]:
    if len(text) <= limit:
        return {"text": text}
    head, tail = limit * 2 // 3, limit // 3
    return {"text": text[:head], "omitted": len(text) - head - tail, "tail": text[-tail:]}


def _thousandths(matrix: Array) -> list[list[int | None]] | None:
    """Whole thousandths take a third of the room of decimals; null where there is no distance."""
    if np.isnan(matrix).all():
        return None
    return [[None if np.isnan(v) else round(1000 * v) for v in line] for line in matrix.tolist()]


def _marks(row: ChosenProblem) -> list[Any] | None:
    marks = row.extra.get(mark_column(row.extra) or "")
    return marks if isinstance(marks, list) and len(marks) == len(row.solutions) else None


def _subject(extra: Mapping[str, Any]) -> str:
    meta = extra.get("meta")
    places = (extra, meta) if isinstance(meta, Mapping) else (extra,)
    for name in ("subject", "domain", "category", "topic", "problem_type", "type"):
        for place in places:
            if isinstance(place.get(name), str):
                return str(place[name])
    return ""


def _one_line(text: str) -> str:
    return _short(" ".join(text.split()), STATEMENT_CHARS)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _value(value: Any, limit: int) -> str:
    """A carried value as text: strings as they are, the rest as JSON, cut where it is long."""
    shown: Any = value
    if isinstance(value, (list, Mapping)):
        shown = json.dumps(value, ensure_ascii=False, default=str)
    text = "–" if shown is None else str(shown)
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
