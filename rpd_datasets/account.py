"""What a run says of itself: how it chose, and whether it went well.

The terminal, the card and the page of `rpd report` print these words. Rules are made from the
options, the rest from the plain numbers of a manifest's `"outcome"`: equal runs say equal things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_metric.distance.distances import DISTANCES

# A choice that is so much more often wrong than the candidates deserves a second look.
MORE_OFTEN_WRONG = 0.02
FAILED_SHARE = 0.1
# Below this share of accepted summaries a summarizer is called unfit.
FIT = 0.8
# Above this share of problems that have a step in common with another one, a run is warned about.
SHARING = 0.2

SELECTION_RULES = {
    "maxmin": "greedy: start with the solution furthest from all others, then keep adding the one "
    "whose closest chosen neighbour is furthest away (the paper's Algorithm 2)",
    "maxavg": "greedy: keep adding the solution with the highest average distance to those chosen "
    "(the paper's text in Sec. 3.2)",
    "exact": "the subset with the largest smallest distance among all subsets",
    "random": "at random, without regard to distance",
}
BUDGET_RULE = (
    "first the one nearest to the problem's others; what the budget then has left went, one by one "
    "over all problems, to the solution furthest from those chosen for its own problem"
)


def problem_rule(config: CurationConfig) -> str:
    """How problems were chosen, in words."""
    if config.num_samples is not None:
        return (
            f"one solution for every problem, as far as a budget of {config.num_samples:,} samples "
            "goes; of more problems than that, a draw"
        )
    if config.problems == "random":
        return "drawn at random"
    if config.problems == "llm":
        return "drawn at random among those that a language model calls diverse in method"
    return (
        "ranked by the largest mean distance of one solution to the others (Eq. 3), where the "
        f"distance is {DISTANCES[config.problems].description}"
    )


def solution_rule(config: CurationConfig) -> str:
    """How the solutions of a chosen problem were chosen, in words."""
    if config.solutions == "random" or config.selection == "random":
        return SELECTION_RULES["random"]
    if config.solutions == "llm":
        return "the set that a language model calls most diverse in method"
    if config.solutions == "all":
        return f"all there are, up to {config.num_solutions}"
    distance = DISTANCES[config.solutions].description
    if config.num_samples is not None:
        return f"{BUDGET_RULE}; the distance is {distance}"
    quality = ""
    if config.quality_column is not None:
        quality = (
            f", and {config.quality_weight:g} times the score in `{config.quality_column}` (0 to 1 "
            "within each problem) is added to it"
        )
    rule = SELECTION_RULES[config.selection]
    return f"`{config.selection}` – {rule}; the distance is {distance}{quality}"


def outcome_lines(found: Mapping[str, Any], summarizer: str) -> list[tuple[str, str]]:
    """Say whether a run went well: five pairs of a name and a sentence.

    Made of the manifest's `"outcome"` and of who made the steps.
    """
    return [
        ("Difference", _difference(found)),
        ("Right answers", _right(found)),
        ("Left out", _left_out(found["left_out"])),
        ("Steps", _steps(found["steps"], summarizer)),
        ("Next", _next(found)),
    ]


def _difference(found: Mapping[str, Any]) -> str:
    medians, reading = found["median_distance"], found.get("reading")
    if medians["chosen"] is None:
        return "not measured: nothing that was asked for compares solutions"
    name = "RPD" if found["distance"] == "rpd" else f"distance by {found['distance']}"
    said = (
        f"median {name} {medians['chosen']:.3f} among the chosen, {medians['random']:.3f} among as "
        "many at random"
    )
    if medians["all_problems"] is not None:
        said += f", {medians['all_problems']:.3f} over all problems"
    said += "; effective number of strategies "
    if counted := found.get("strategies"):
        low, high = counted["middle_half"]
        among = "" if counted["chosen"] is None else f", {counted['chosen']:.2f} among the chosen"
        said += (
            f"{counted['candidates']:.2f} among a problem's candidates (median; half of the "
            f"problems {low:.2f} to {high:.2f}){among}, by chances from "
            f"{counted['labelled_pairs']:,} labelled pairs, valid for `{counted['distance']}` with "
            f"the encoder {counted['embedder']} only"
        )
    else:
        said += (
            "not known: no labelled pairs of this distance and encoder (see "
            "rpd compare-metrics --calibrate)"
        )
    return said + (f". By labelled pairs {reading}" if reading else "")


def _right(found: Mapping[str, Any]) -> str:
    right, agreement, signs = found["right"], found["agreement"], found["floundering"]
    said = "not known: the input has neither marks nor reference answers"
    if right["candidates_marked"]:
        said = (
            f"{_share(right['chosen'], right['chosen_marked'])} of the chosen, "
            f"{_share(right['candidates'], right['candidates_marked'])} of all candidates"
            f" (by {' and '.join(right['by']) or 'marks'})"
        )
    if right["left_out"]:
        said += f"; {right['left_out']:,} left out for their answer (--keep-wrong keeps them)"
    elif right["wrong_kept"] and right["candidates"] < right["candidates_marked"]:
        said += "; wrong ones were kept"
    if everyone := agreement["candidates_answered"]:
        said += (
            "; another answer than most of their problem's: "
            f"{_share(agreement['chosen_dissenting'], agreement['chosen_answered'])} of the "
            f"chosen, {_share(agreement['candidates_dissenting'], everyone)} of all"
        )
    if signs["candidates"]:
        said += (
            "; signs of a failed argument in "
            f"{_share(signs['chosen'], signs['chosen_solutions'])} of the chosen, "
            f"{_share(signs['candidates'], signs['candidate_solutions'])} of all"
        )
        said += f", {signs['left_out']:,} left out" if signs["left_out"] else ""
    if soundness := found.get("soundness"):
        total, silent = sum(soundness.values()), soundness.get("no_verdict", 0)
        said += (
            f"; a judge read {total:,} solutions: the argument of "
            f"{_share(soundness.get('unsound', 0), total - silent)} has failed"
            + (f", {silent:,} without a verdict" if silent else "")
        )
    return said


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "unknown"


def _left_out(left_out: Mapping[str, Mapping[str, int]]) -> str:
    parts = []
    for unit in ("problem", "solution"):
        total = sum(left_out[unit].values())
        named = ", ".join(_most_common(left_out[unit])[:3])
        more = ", ..." if len(left_out[unit]) > 3 else ""
        if total:
            parts.append(f"{total:,} {unit}{'s' if total > 1 else ''} ({named}{more})")
    return "; ".join(parts) or "nothing"


def _most_common(reasons: Mapping[str, int]) -> list[str]:
    ordered = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    return [f"{number:,} {reason.replace('_', ' ')}" for reason, number in ordered]


def _steps(steps: Mapping[str, Any], summarizer: str) -> str:
    if not steps["solutions"]:
        return "none were needed"
    usable, number = steps["solutions"], steps["per_solution"]
    length = "" if number is None else f", {number:g} each (median)"
    if "summaries" in steps:
        return f"by {summarizer}{length}: {health_line(steps['summaries'])}"
    asked = usable + steps["failed"]
    return (
        f"{summarizer} gave {usable:,} of {asked:,} solutions ({usable / asked:.1%}) steps{length}"
    )


def _next(found: Mapping[str, Any]) -> str:
    if missing := found.get("missing"):
        return (
            f"this set is PARTIAL: its budget was spent, {shortfall_line(missing)}. The same "
            "command with a larger budget and --overwrite completes it"
        )
    summaries = found["steps"].get("summaries")
    if summaries and (warning := health_warning(summaries)):
        return warning
    right, medians, wanted = found["right"], found["median_distance"], found["wanted"]
    if right["chosen_marked"] and right["candidates_marked"]:
        lost = right["candidates"] / right["candidates_marked"]
        lost -= right["chosen"] / right["chosen_marked"]
        if lost > MORE_OFTEN_WRONG:
            return "the choice is wrong more often than the candidates: see --answers"
    if found["steps"]["failed"] > FAILED_SHARE * max(1, found["steps"]["solutions"]):
        return "many solutions have no steps: rejects.jsonl says why, one line each"
    if wanted["chosen"] < wanted["problems"]:
        return (
            f"only {wanted['chosen']:,} of the {wanted['problems']:,} problems "
            "asked for could be chosen: rejects.jsonl says why"
        )
    if wanted.get("samples_chosen", 0) < wanted.get("samples", 0):
        return (
            f"only {wanted['samples_chosen']:,} of the {wanted['samples']:,} "
            "samples of the budget could be spent: there are no more usable solutions"
        )
    if medians["chosen"] is not None and medians["chosen"] <= medians["random"]:
        return "the choice differs no more than a random one: look at some with rpd report"
    return "read some of the chosen solutions side by side: rpd report"


def shortfall_line(missing: Mapping[str, Any]) -> str:
    """What a spent budget left undone, and what it would cost to finish it."""
    cost = "" if missing["cost"] is None else f", {missing['cost']:,.2f} at the same prices"
    return (
        f"{missing['problems']:,} problems with {missing['solutions']:,} solutions are missing: "
        f"about {missing['requests']:,} requests with {missing['prompt_tokens']:,} prompt and "
        f"{missing['new_tokens']:,} new tokens{cost}"
    )


def health_line(found: Mapping[str, Any]) -> str:
    """How a chat model's summaries went, in one sentence.

    Example:

    >>> found = {"asked": 10, "accepted": 7, "asked_again": 4, "repaired": 1}
    >>> health_line({**found, "rejected": {"truncated": 3}, "distinct_steps": None})
    '7 of 10 accepted (70.0%), 4 asked again, 1 of them repaired; refused: 3 truncated'
    """
    asked = found["asked"]
    share = f" ({found['accepted'] / asked:.1%})" if asked else ""
    refused = ", ".join(_most_common(found["rejected"]))
    distinct = found["distinct_steps"]
    return (
        f"{found['accepted']:,} of {asked:,} accepted{share}, {found['asked_again']:,} asked again,"
        f" {found['repaired']:,} of them repaired"
        + (f"; refused: {refused}" if refused else "")
        + (f"; {distinct:.1%} of the steps are distinct" if distinct is not None else "")
    )


def health_warning(found: Mapping[str, Any]) -> str | None:
    """What a reader of the output must know about its summaries, where there is something."""
    if found["accepted"] < FIT * found["asked"]:
        return (
            f"this summarizer is not fit for these solutions: {found['accepted']:,} of "
            f"{found['asked']:,} summaries could be used. {'; '.join(found['examples'])}"
        )
    if found["problems_sharing_steps"] > SHARING * found["problems"]:
        return (
            f"{found['problems_sharing_steps']:,} of {found['problems']:,} problems have a step "
            "word for word in common with another problem: the summaries may not be about them"
        )
    return None
