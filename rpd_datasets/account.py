"""How a run chose, in words, and how it went, in numbers: for the terminal, the card, the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpd_datasets.config import GROUPS, CurationConfig, distance_of
from rpd_metric.distance.calibration import TOGETHER
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.reasons import with_option
from rpd_metric.steps.summarizers import asks_chat_model

SELECTION_RULES = {
    "maxmin": "the solution furthest from all others, then always the one whose closest chosen "
    "neighbour is furthest away (the paper's Algorithm 2)",
    "maxavg": "always the solution with the highest average distance to those chosen (Sec. 3.2)",
    "exact": "the subset with the largest smallest distance",
    "random": "at random, without regard to distance",
}
BUDGET_RULE = (
    "first the one nearest to the problem's others; what the budget then has left went, one by one "
    "over all problems, to the solution furthest from those chosen for its own problem"
)

GROUPS_RULE = (
    "one of each strategy in turn, as the chat model sorted and named them by their steps, the "
    "furthest first"
)
# Groups of an outcome that hold shares of solutions.
SHARES = ("right", "wrong", "not_checked", "minority_answer", "floundering")
# AUROC of "do these two differ in strategy?" with the encoder minilm, on 164 natural problems (of
# which 82 taught `taught` and do not count there) and on 48 where wording misleads
# (docs/distances.md): by a chat model's groups or steps, or without.
_SEEN = {
    (GROUPS, True): (0.983, 1.0),
    ("strategy", True): (0.884, 0.807),
    ("combined", True): (0.903, 0.795),
    ("rpd", True): (0.819, 0.763),
    ("rpd", False): (0.804, 0.554),
    ("taught", False): (0.853, 0.761),
    ("pieces", False): (0.841, 0.552),
    ("raw", False): (0.772, 0.55),
}


def worth(choice: str, *, chat: bool) -> str:
    """What a choice by a distance or by groups is worth, as the end of a sentence.

    Args:
        choice (`str`): As the options name it.
        chat (`bool`): Whether a chat model made the steps.

    >>> worth("strategy", chat=True)[:56]
    '; on labelled problems it tells strategies apart with an'
    """
    distance = distance_of(choice)
    if distance is None:
        return ""
    chat = chat and DISTANCES[distance].reads_steps
    said = "" if chat else f"; it sees {TOGETHER}"
    if seen := _SEEN.get((choice, chat)):
        natural, hard = seen
        by = ", read by a large model" if choice == GROUPS else ""
        said += (
            f"; on labelled problems it tells strategies apart with an AUROC of {natural:.2f}, and "
            f"of {hard:.2f} where wording misleads{by} (0.50 is chance)"
        )
    return said


def problem_rule(config: CurationConfig) -> str:
    """How problems were chosen, in words."""
    if config.num_samples is not None:
        return f"all, or a draw of {config.num_samples:,} where there are more than samples"
    if config.problems == "random":
        return "drawn at random"
    if config.problems == "llm":
        return "drawn at random among those that a language model calls diverse in method"
    distance = DISTANCES[distance_of(config.problems) or ""].description
    if config.problems == GROUPS:
        return (
            "ranked by the chance that two solutions are in different groups of the chat model, as "
            f"far as it is trusted, and by Eq. 3; the distance is {distance}"
        )
    return f"ranked by Eq. 3 (largest mean distance of one solution); the distance is {distance}"


def solution_rule(config: CurationConfig) -> str:
    """How the solutions of a chosen problem were chosen, in words."""
    if config.solutions == "random" or config.selection == "random":
        return SELECTION_RULES["random"]
    if config.solutions == "llm":
        return "the set that a language model calls most diverse in method"
    if config.solutions == "all":
        return f"all there are, up to {config.num_solutions}"
    distance = DISTANCES[distance_of(config.solutions) or ""].description
    distance += worth(config.solutions, chat=asks_chat_model(config.summarizer))
    if config.num_samples is not None:
        if config.solutions == GROUPS:
            distance = f"{distance}, of two strategies always larger"
        return f"{BUDGET_RULE}; the distance is {distance}"
    quality = ""
    if config.quality_column is not None:
        quality = f", plus {config.quality_weight:g} times `{config.quality_column}` as 0 to 1"
    rule = GROUPS_RULE if config.solutions == GROUPS else SELECTION_RULES[config.selection]
    return f"`{config.selection}` – {rule}; the distance is {distance}{quality}"


def outcome_lines(manifest: Mapping[str, Any], word: str = "chosen") -> list[tuple[str, str]]:
    """How a run went, by its manifest: the verdict, what came in and came out, and each group.

    Under another `word`, where solutions are only picked to be looked at, there is no verdict.

    >>> counts = {"problems_read": 9, "problems_chosen": 2}
    >>> outcome_lines({"counts": counts, "outcome": {"steps": {"asked": 3}, "warnings": ["!"]}})
    [('Counts', 'problems read 9, problems chosen 2'), ('Steps', 'asked 3'), ('Warning', '!')]
    """
    groups = {"counts": manifest["counts"], **manifest.get("outcome", {})}
    warnings, verdict = groups.pop("warnings", ()), groups.pop("verdict", None)
    lines = []
    if verdict and word == "chosen":
        lines.append(("Verdict", f"{verdict['word']}: {verdict['reason']}"))
    for group, values in groups.items():
        known = {name: one for name, one in (values or {}).items() if one not in (None, "")}
        if known.keys() - {"by"}:
            form = _share if group in SHARES else _cell
            said = (f"{name.replace('_', ' ')} {form(one)}" for name, one in known.items())
            if group.endswith("_left_out"):
                said = (with_option(name, one) for name, one in known.items())
            name = group.replace("_", " ").capitalize()
            lines.append((name, ", ".join(said).replace("chosen", word)))
    return lines + [("Warning", one) for one in warnings]


def _share(value: Any) -> str:
    return f"{100 * value:.3g} %" if isinstance(value, (int, float)) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
