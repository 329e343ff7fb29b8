"""The problems as the page's script reads them: JSON in compressed pieces.

The first piece is the list with everything that it is sorted and filtered by; the others hold a
few dozen problems each and are unpacked when one of them is looked at, and for the search. A page
stays under `BUDGET` whatever the corpus: first solutions that were not chosen are shortened, then
the chosen ones too, and each shortened text says so.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rpd_datasets.config import GROUPS, distance_of
from rpd_datasets.filters.answer_checks import mark_column
from rpd_datasets.messages import TRAJECTORIES, parting
from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_datasets.report.contents import Array, ChosenProblem, CuratedFolder, Line
from rpd_datasets.selection.problems import rank
from rpd_metric.distance.groups import scores_by_groups
from rpd_metric.distance.measured import Calibration, EvidenceTable

# By distance, where labelled pairs tell what it means.
Curves = Mapping[str, Calibration | None]
PER_PIECE = 48
BUDGET = 8_500_000
# How long a chosen solution, another one and one of its steps may be: from everything to little.
LIMITS = (
    (200_000, 200_000, 2_000),
    (200_000, 12_000, 2_000),
    (20_000, 3_000, 500),
    (5_000, 800, 200),
    (1_000, 200, 80),
    (200, 50, 20),
)
SAMPLED = 6
# Problems in the list that were not chosen: enough to compare with.
MAX_OTHERS = 3000
STATEMENT_CHARS = 220
VALUE_CHARS = 600


@dataclass(frozen=True)
class Archive:
    """What the page embeds: the list, and the compressed problems."""

    listed: list[Line]  # chosen problems by rank, then others, best first
    index: str  # the same, compressed
    pieces: list[str]
    limits: tuple[int, int, int]  # characters of a chosen solution, another one and a step


def archive(folder: CuratedFolder, budget: int = BUDGET) -> Archive:
    """Pack a folder into `budget` characters."""
    rows = folder.shown
    listed = [_entry(row) for row in rows] + _others(folder)
    index = _pack(listed)
    curves, chosen_by = curves_of(folder), folder.chosen_by
    groups = [rows[at : at + PER_PIECE] for at in range(0, len(rows), PER_PIECE)]

    def packed(group: Sequence[ChosenProblem], limits: tuple[int, int, int]) -> str:
        return _pack([_record(row, limits, curves, chosen_by) for row in group])

    # The widest limits that fit, estimated on pieces spread over all.
    sample = groups[:: max(1, len(groups) // SAMPLED)]
    room = (budget - len(index)) * 0.97 * len(sample) / max(1, len(groups))
    fitting = (lim for lim in LIMITS if sum(len(packed(group, lim)) for group in sample) <= room)
    limits = next(fitting, LIMITS[-1])
    return Archive(listed, index, [packed(group, limits) for group in groups], limits)


def curves_of(folder: CuratedFolder) -> Curves:
    """What tells what RPD and the distance that chose mean, where anything does."""
    table = EvidenceTable.of(folder.manifest["evidence"])
    return {name: table.curve(distance_of(name)) for name in {"rpd", folder.chosen_by}}


def _pack(value: Any) -> str:
    """JSON, deflated, in base 64; equal values give equal text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    data = text.encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _entry(row: ChosenProblem) -> Line:
    marks = _of_solutions(row).get(mark_column(row.extra) or "")
    chosen = [marks[index] for index in row.selected] if marks else []
    return {
        **_numbers(row.score),
        "statement": _one_line(row.problem),
        "subject": _subject(row.extra),
        "names": sorted(set(strategy_labels(row.extra, len(row.solutions)) or ()) - {UNNAMED}),
        "wrong": sum(mark is False for mark in chosen),
    }


def _of_solutions(row: ChosenProblem) -> dict[str, list[Any]]:
    """The carried columns that hold a value for each solution."""
    return {
        name: value
        for name, value in row.extra.items()
        if isinstance(value, list) and len(value) == len(row.solutions)
    }


def _numbers(score: Line) -> Line:
    number = score["strategies"]
    return {
        **{name: score[name] for name in ("rank", "key", "where")},
        "score": _rounded(score["score"]),
        "strategies": None if number is None else round(number, 2),
        "usable": score["num_usable"],
        "solutions": score["num_solutions"],
        "tokens": round(score["mean_tokens"]),
    }


def _others(folder: CuratedFolder) -> list[Line]:
    """Problems that were not chosen, best first, with why and as far as known their text."""
    reasons = {reject["where"]: reject for reject in folder.left_out}
    values = [score["score"] for score in folder.scores]
    if folder.manifest["options"]["problems"] == GROUPS:
        numbers = [score["strategies"] for score in folder.scores]
        aurocs = [score.get("groups_auroc") for score in folder.scores]
        values = scores_by_groups(numbers, aurocs, values)
    others = [folder.scores[place] for place in rank(values)]
    others = [score for score in others if score["rank"] is None]
    listed = [(_numbers(score), score["statement"]) for score in others[:MAX_OTHERS]]
    # Some never came to be a problem.
    scored = {score["where"] for score in others}
    unknown = dict.fromkeys(("rank", "score", "strategies"))
    listed += [({**unknown, "where": where}, "") for where in reasons if where not in scored]
    entries = []
    for entry, statement in listed[:MAX_OTHERS]:
        why = "not chosen: other problems came first"
        if reject := reasons.get(entry["where"]):
            why = f"{reject['reason'].replace('_', ' ')}: {reject['detail']}"
            statement = reject.get("problem") or statement
        entries.append({**entry, "statement": _one_line(statement), "why": why})
    return entries


def _record(
    row: ChosenProblem, limits: tuple[int, int, int], curves: Curves, chosen_by: str
) -> Line:
    columns = _of_solutions(row)
    curve = curves["rpd" if row.distances is None else chosen_by]
    carried = {name: value for name, value in row.extra.items() if name not in columns}
    columns.pop(TRAJECTORIES, None)  # of runs: they are messages, shown as solutions
    compared = [index for index, why in enumerate(row.drop_reasons) if not why]
    labels = strategy_labels(row.extra, len(row.solutions))
    if labels and "strategy" not in columns:  # a column of that name is the user's own
        del columns["strategies"]
        columns["strategy"] = labels
    return {
        "problem": row.problem,
        "selected": row.selected,
        "parting": parting(Problem(row.problem, tuple(row.solutions), row.extra), compared),
        "solutions": [
            {
                **_cut(text, limits[index not in row.selected]),
                "steps": [_short(step, limits[2]) for step in row.steps[index] if step.strip()],
                "tokens": row.num_tokens[index],
                "dropped": row.drop_reasons[index].replace("_", " "),
                "detail": row.details.get(index, ""),
                "beside": {name: _value(values[index], 80) for name, values in columns.items()},
            }
            for index, text in enumerate(row.solutions)
        ],
        "rpd": _thousandths(row.rpd),
        "distances": None if row.distances is None else _thousandths(row.distances),
        "pairs": [
            _pair(row, first, second, curve)
            for first, second in combinations(sorted(row.selected), 2)
        ],
        "carried": {name: _value(value, VALUE_CHARS) for name, value in carried.items()},
    }


def _pair(row: ChosenProblem, first: int, second: int, curve: Calibration | None) -> Line:
    """A pair, and what its distance means in words."""
    distance = (row.rpd if row.distances is None else row.distances)[first, second]
    says = None if curve is None or np.isnan(distance) else curve.phrase(float(distance))
    return {"first": first, "second": second, "says": says}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _cut(text: str, limit: int) -> Line:
    if len(text) <= limit:
        return {"text": text}
    head, tail = limit * 2 // 3, limit // 3
    return {"text": text[:head], "omitted": len(text) - head - tail, "tail": text[-tail:]}


def _thousandths(matrix: Array) -> list[list[int | None]] | None:
    """Whole thousandths take a third of the room of decimals; null where there is no distance."""
    if np.isnan(matrix).all():
        return None
    return [[None if np.isnan(v) else round(1000 * v) for v in line] for line in matrix.tolist()]


def _subject(extra: Mapping[str, Any]) -> str:
    meta = extra.get("meta")
    places = (extra, meta) if isinstance(meta, Mapping) else (extra,)
    names = ("subject", "domain", "category", "topic", "problem_type", "type")
    values = (place.get(name) for name in names for place in places)
    return next((value for value in values if isinstance(value, str)), "")


def _one_line(text: str) -> str:
    return _short(" ".join(text.split()), STATEMENT_CHARS)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _value(value: Any, limit: int) -> str:
    """A carried value as text: strings as they are, the rest as JSON, cut where it is long."""
    if isinstance(value, (list, Mapping)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = "–" if value is None else str(value)
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
