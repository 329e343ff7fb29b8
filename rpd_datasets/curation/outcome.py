"""Whether a run went well, in five lines: on the terminal, in report, card and manifest alike.

`measure_choice` looks at one chosen problem, `outcome` sums a run up in plain numbers, and
`outcome_lines` says them. No path and no date is among them, so that equal runs say equal things.
What the median distance means, and how many strategies there are, is said where labelled pairs tell
it for this distance and encoder (`strategies.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import numpy as np

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.health import health_line, health_warning
from rpd_datasets.curation.run_summary import Choice, RunSummary, Shortfall, counts
from rpd_datasets.curation.scored import Scored
from rpd_datasets.curation.strategies import count_strategies, curve_of
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration
from rpd_metric.distance.core import mean_pairwise

# A choice that is so much more often wrong than the candidates deserves a second look.
MORE_OFTEN_WRONG = 0.02
FAILED_SHARE = 0.1
# Why a solution goes whose final answer is, or may be, wrong.
WRONG_REASONS = (
    *("incorrect", "correctness_unknown", "wrong_answer"),
    *("minority_answer", "no_majority", "no_answer"),
)


def measure_choice(
    scored: Scored,
    selected: Sequence[int],
    config: CurationConfig,
    curve: Calibration | None = None,
) -> Choice:
    """Look at one chosen problem: by RPD, or without steps by the distance that chose."""
    known = scored.matrix if config.reads_steps or scored.distances is None else scored.distances
    matrix = nan_for_none(known)
    among = matrix[np.ix_(selected, selected)]
    right, marked = count_marks([scored.marks[index] for index in selected] if scored.marks else [])
    agree, answered = count_marks(
        [scored.agrees[index] for index in selected] if scored.agrees else []
    )
    return Choice(
        num_chosen=len(selected),
        chosen=mean_pairwise(among),
        random=mean_pairwise(matrix),
        right=right,
        marked=marked,
        dissenting=answered - agree,
        answered=answered,
        floundering=sum(scored.floundering[index] for index in selected)
        if scored.floundering
        else 0,
        steps_per_solution=_median([len(scored.steps[index]) for index in selected])
        if config.reads_steps
        else None,
        strategies=count_strategies(scored, curve, selected),
    )


def count_candidates(summary: RunSummary, scored: Scored) -> None:
    """Add what is known of one problem's final answers to the summary."""
    right, marked = count_marks(scored.marks)
    agree, answered = count_marks(scored.agrees)
    summary.candidates_right += right
    summary.candidates_marked += marked
    summary.answered += answered
    summary.dissenting += answered - agree
    summary.floundering += sum(scored.floundering)
    summary.soundness.update(filter(None, scored.soundness))
    summary.marked_by[scored.marked_by] += 1


def count_marks(marks: Sequence[Any]) -> tuple[int, int]:
    """How many are true, and how many are known."""
    known = [mark for mark in marks if isinstance(mark, bool)]
    return sum(known), len(known)


def effective_number(mean_distance: float, size: int) -> float:
    """How many fully different solutions a set of `size` is worth, by its mean pairwise distance.

    The similarity-sensitive diversity of order 2 (Leinster and Cobbold, 2012) with similarity
    1 - distance and equal weights: 1 where all are alike, `size` where all distances are 1.

    Example:

    >>> [round(effective_number(distance, 3), 2) for distance in (0.0, 1.0, 0.3)]
    [1.0, 3.0, 1.25]
    """
    return 1 / (1 - (size - 1) / size * min(mean_distance, 1.0))


def outcome(summary: RunSummary, config: CurationConfig) -> dict[str, Any]:
    """Sum a run up, for the manifest.

    Args:
        summary ([`RunSummary`]): What it did.
        config ([`CurationConfig`]): Its options.

    Returns:
        `dict`: Plain JSON types; `None` where something cannot be known.
    """
    both = [one for one in summary.choices if one.chosen is not None and one.random is not None]
    left_out: dict[str, dict[str, int]] = {"problem": {}, "solution": {}}
    for (_, reason, unit), number in sorted(summary.drops.items()):
        left_out[unit][reason] = left_out[unit].get(reason, 0) + number
    failed = sum(
        number
        for (stage, _, unit), number in summary.drops.items()
        if (stage, unit) == ("steps", "solution")
    )
    chosen = _median([one.chosen for one in both])
    return {
        "distance": _distance(config),
        "reading": _reading(chosen, config, summary),
        "median_distance": {
            "chosen": chosen,
            "random": _median([one.random for one in both]),
            "all_problems": _median([one.mean_rpd for one in summary.scores])
            if config.reads_steps
            else None,
        },
        "strategies": _strategies(summary),
        "right": {
            "by": _marked_by(summary),
            "wrong_kept": not leaves_out_wrong(config),
            "left_out": sum(
                number
                for (stage, reason, _), number in summary.drops.items()
                if stage == "filter" and reason in WRONG_REASONS
            ),
            "chosen": sum(one.right for one in summary.choices),
            "chosen_marked": sum(one.marked for one in summary.choices),
            "candidates": summary.candidates_right,
            "candidates_marked": summary.candidates_marked,
        },
        "floundering": {
            "chosen": sum(one.floundering for one in summary.choices),
            "chosen_solutions": summary.num_selected,
            "candidates": summary.floundering,
            "candidate_solutions": counts(summary)["solutions_read"],
            "left_out": summary.drops["filter", "floundering", "solution"],
        },
        **({"soundness": dict(sorted(summary.soundness.items()))} if summary.soundness else {}),
        "agreement": {
            "chosen_dissenting": sum(one.dissenting for one in summary.choices),
            "chosen_answered": sum(one.answered for one in summary.choices),
            "candidates_dissenting": summary.dissenting,
            "candidates_answered": summary.answered,
        },
        "left_out": left_out,
        "steps": {
            "solutions": counts(summary)["solutions_usable"] if config.reads_steps else 0,
            "failed": failed,
            "per_solution": _median([one.steps_per_solution for one in summary.choices]),
            **({"summaries": summary.health.as_dict()} if summary.health else {}),
        },
        **({"missing": asdict(summary.shortfall)} if summary.shortfall else {}),
        "wanted": {
            "problems": sum(one.problems_wanted for one in summary.inputs),
            "chosen": len(summary.chosen),
            **(
                {"samples": config.num_samples, "samples_chosen": summary.num_selected}
                if config.num_samples is not None
                else {}
            ),
        },
    }


def _distance(config: CurationConfig) -> str | None:
    if config.reads_steps:
        return "rpd"
    return config.solutions if config.solutions in METRICS else None


def _reading(distance: float | None, config: CurationConfig, summary: RunSummary) -> str | None:
    """A distance in words, where labelled pairs tell what it means."""
    name = _distance(config)
    if summary.own_curves is None:
        curve = curve_of(name, config, summary.embedder)
    else:
        curve = next((one for one in summary.own_curves if one.distance == name), None)
    return curve.in_words(distance) if curve and distance is not None else None


def _strategies(summary: RunSummary) -> dict[str, Any] | None:
    """How many strategies problems show, and by which pairs that was counted."""
    curve = summary.calibration
    counted = [one.strategies for one in summary.scores if one.strategies is not None]
    if curve is None or not counted:
        return None
    return {
        "distance": curve.distance,
        "embedder": curve.embedder,
        "labelled_pairs": curve.pairs,
        "candidates": _median(counted),
        "middle_half": [round(float(at), 4) for at in np.quantile(counted, (0.25, 0.75))],
        "chosen": _median([one.strategies for one in summary.choices if one.num_chosen > 1]),
    }


def outcome_lines(found: Mapping[str, Any], summarizer: str) -> list[tuple[str, str]]:
    """Say what `outcome` found.

    Args:
        found (`Mapping`): What [`outcome`] returns.
        summarizer (`str`): Who made the steps.

    Returns:
        `list[tuple[str, str]]`: Five pairs of a name and a sentence.
    """
    return [
        ("Difference", _difference(found)),
        (
            "Right answers",
            _right(found["right"], found["agreement"])
            + _floundering(found["floundering"])
            + _judged(found.get("soundness", {})),
        ),
        ("Left out", _left_out(found["left_out"])),
        ("Steps", _steps(found["steps"], summarizer)),
        ("Next", _next(found)),
    ]


def _difference(found: Mapping[str, Any]) -> str:
    medians = found["median_distance"]
    if medians["chosen"] is None:
        return "not measured: nothing that was asked for compares solutions"
    name = "RPD" if found["distance"] == "rpd" else f"distance by {found['distance']}"
    everywhere, reading = medians["all_problems"], found.get("reading")
    beyond = "" if everywhere is None else f", {everywhere:.3f} over all problems"
    return (
        f"median {name} {medians['chosen']:.3f} among the chosen, {medians['random']:.3f} among as "
        f"many at random{beyond}; effective number of strategies "
        f"{_number(found.get('strategies'))}"
        + (f". By labelled pairs {reading}" if reading else "")
    )


def _number(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return (
            "not known: no labelled pairs of this distance and encoder (see "
            "rpd compare-metrics --calibrate)"
        )
    low, high = found["middle_half"]
    among = "" if found["chosen"] is None else f", {found['chosen']:.2f} among the chosen"
    return (
        f"{found['candidates']:.2f} among a problem's candidates (median; half of the problems "
        f"{low:.2f} to {high:.2f}){among}, by chances from {found['labelled_pairs']:,} labelled "
        f"pairs, valid for `{found['distance']}` with the encoder {found['embedder']} only"
    )


def leaves_out_wrong(config: CurationConfig) -> bool:
    """Whether solutions that are known to be wrong are left out."""
    filters = config.filters
    return filters.only_correct or not (filters.keep_wrong or filters.answers == "any")


def _marked_by(summary: RunSummary) -> list[str]:
    """Who says what is right: the words for it, most problems first."""
    words = {"marks": "marks in the input", "reference": "reference answers"}
    return [words[by] for by, _ in summary.marked_by.most_common() if by]


def _right(right: Mapping[str, Any], agreement: Mapping[str, Any]) -> str:
    if not right["candidates_marked"]:
        said = "not known: the input has neither marks nor reference answers"
    else:
        share = _share(right["chosen"], right["chosen_marked"])
        everywhere = _share(right["candidates"], right["candidates_marked"])
        said = (
            f"{share} of the chosen, {everywhere} of all candidates"
            f" (by {' and '.join(right['by']) or 'marks'})"
        )
    if right["left_out"]:
        said += f"; {right['left_out']:,} left out for their answer (--keep-wrong keeps them)"
    elif right["wrong_kept"] and right["candidates"] < right["candidates_marked"]:
        said += "; wrong ones were kept"
    if agreement["candidates_answered"]:
        chosen = _share(agreement["chosen_dissenting"], agreement["chosen_answered"])
        everywhere = _share(agreement["candidates_dissenting"], agreement["candidates_answered"])
        said += (
            f"; another answer than most of their problem's: {chosen} of the chosen, "
            f"{everywhere} of all"
        )
    return said


def _floundering(found: Mapping[str, Any]) -> str:
    if not found["candidates"]:
        return ""
    chosen = _share(found["chosen"], found["chosen_solutions"])
    everywhere = _share(found["candidates"], found["candidate_solutions"])
    left_out = f", {found['left_out']:,} left out" if found["left_out"] else ""
    return f"; signs of a failed argument in {chosen} of the chosen, {everywhere} of all{left_out}"


def _judged(soundness: Mapping[str, int]) -> str:
    """What a judge said of arguments, where it was asked."""
    if not soundness:
        return ""
    total = sum(soundness.values())
    silent = soundness.get("no_verdict", 0)
    return (
        f"; a judge read {total:,} solutions: the argument of "
        f"{_share(soundness.get('unsound', 0), total - silent)} has failed"
        + (f", {silent:,} without a verdict" if silent else "")
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "unknown"


def _left_out(left_out: Mapping[str, Mapping[str, int]]) -> str:
    parts = []
    for unit in ("problem", "solution"):
        reasons = sorted(left_out[unit].items(), key=lambda one: (-one[1], one[0]))
        total = sum(number for _, number in reasons)
        named = ", ".join(
            f"{number:,} {reason.replace('_', ' ')}" for reason, number in reasons[:3]
        )
        more = ", ..." if len(reasons) > 3 else ""
        if total:
            parts.append(f"{total:,} {unit}{'s' if total > 1 else ''} ({named}{more})")
    return "; ".join(parts) or "nothing"


def _steps(steps: Mapping[str, Any], summarizer: str) -> str:
    if not steps["solutions"]:
        return "none were needed"
    asked = steps["solutions"] + steps["failed"]
    number = steps["per_solution"]
    length = "" if number is None else f", {number:g} each (median)"
    if "summaries" in steps:
        return f"by {summarizer}{length}: {health_line(steps['summaries'])}"
    return (
        f"{summarizer} gave {steps['solutions']:,} of {asked:,} solutions ("
        f"{steps['solutions'] / asked:.1%}) steps{length}"
    )


def _next(found: Mapping[str, Any]) -> str:
    if missing := found.get("missing"):
        return (
            f"this set is PARTIAL: its budget was spent, {Shortfall(**missing)}. The same command "
            "with a larger budget and --overwrite completes it"
        )
    summaries = found["steps"].get("summaries")
    if summaries and (warning := health_warning(summaries)):
        return warning
    right, medians = found["right"], found["median_distance"]
    if right["chosen_marked"] and right["candidates_marked"]:
        lost = right["candidates"] / right["candidates_marked"]
        lost -= right["chosen"] / right["chosen_marked"]
        if lost > MORE_OFTEN_WRONG:
            return "the choice is wrong more often than the candidates: see --answers"
    judged = found.get("soundness", {})
    if judged.get("no_verdict", 0) > FAILED_SHARE * sum(judged.values()):
        return (
            f"the judge gave no verdict on {judged['no_verdict']:,} arguments, and these solutions "
            "are left out: rejects.jsonl says why; try another model (--judge)"
        )
    if found["steps"]["failed"] > FAILED_SHARE * max(1, found["steps"]["solutions"]):
        return "many solutions have no steps: rejects.jsonl says why, one line each"
    if found["wanted"]["chosen"] < found["wanted"]["problems"]:
        return (
            f"only {found['wanted']['chosen']:,} of the {found['wanted']['problems']:,} problems "
            "asked for could be chosen: rejects.jsonl says why"
        )
    if found["wanted"].get("samples_chosen", 0) < found["wanted"].get("samples", 0):
        return (
            f"only {found['wanted']['samples_chosen']:,} of the {found['wanted']['samples']:,} "
            "samples of the budget could be spent: there are no more usable solutions"
        )
    if medians["chosen"] is not None and medians["chosen"] <= medians["random"]:
        return "the choice differs no more than a random one: look at some with rpd report"
    return "read some of the chosen solutions side by side: rpd report"


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(median(known)), 5) if known else None
