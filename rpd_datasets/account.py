"""How a run chose, and what happened in it, in words: for the terminal, the card and the page."""

from collections.abc import Mapping
from typing import Any

from rpd_datasets.config import GROUPS, CurationConfig, distance_of
from rpd_datasets.filters.answer_checks import in_three
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.reasons import with_option

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
# Whether the chosen solutions differ more than as many drawn at random.
SHARES = ("differs_from_most_frequent", "admits_a_mistake")  # of solutions
MODELS = {"extractive": " (no language model)", "minilm": " (all-MiniLM-L6-v2)"}
YES, NO, FEW = "yes", "no", "too few problems"


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
    """What happened in a run, by its manifest: a name and a sentence for each line.

    The first are the first screen: right, wrong and not checked, and whether the choice is better
    than a draw. Solutions that are only looked at are no choice; `word` says what they are.

    >>> groups = {"better_than_random": {"answer": "yes"}, "steps": {"asked": 3}, "warnings": ["!"]}
    >>> outcome_lines({"counts": {"problems_read": 9}, "outcome": groups}, "picked")
    [('Counts', 'problems read 9'), ('Steps', 'asked 3'), ('Warning', '!')]
    """
    groups = dict(manifest.get("outcome", {}))
    answers, better = groups.pop("answers", {}), groups.pop("better_than_random", {})
    warnings, distance = groups.pop("warnings", ()), groups.pop("distance", {})
    median = groups.pop("median", {})
    lines = [("Answers", _answers_line(answers, word))] if answers else []
    if better and word == "chosen":
        lines.append(("Better than random", better_line(better)))
    lines.append(("Counts", _listed(manifest["counts"])))
    if distance:
        lines.append(("Distance", f"`{distance['name']}` measures {distance['sees']}"))
    if median.get("chosen") is not None:
        name = _named(median["of"])
        if median.get("sees"):
            lines.append((name, f"measures {median['sees']}"))
        lines.append((f"Median {name}", _median_line(median)))
    for group, values in groups.items():
        listed = _shares(values) if group in SHARES else _listed(values)
        if group.endswith("_left_out"):
            listed = ", ".join(with_option(name, count) for name, count in values.items())
        if listed:
            lines.append((group.replace("_", " ").capitalize(), listed))
    lines = [(name, text.replace("chosen", word)) for name, text in lines]
    return lines + [("Warning", text) for text in warnings]


def made_lines(manifest: Mapping[str, Any], word: str = "chosen") -> list[tuple[str, str]]:
    """How a set was made, by its manifest: a name and a text for each line."""
    options, used, judge = manifest["options"], manifest["used"], manifest["judge"]
    tokenizer, known = manifest["tokenizer"], manifest["decontaminated"] or {"by": []}
    source = manifest["input"]
    read = f"{source['name']}, read as {source['layout']}, fingerprint {source['fingerprint']}"
    lines = [("Input", read)]
    for made, role in (("Steps by", "summarizer"), ("Embeddings by", "embedder")):
        name = manifest[role]["name"]
        lines.append((made, name + MODELS.get(name, "") if used[role] else "not used"))
    if judge:
        lines.append(("Judged by", judge["name"]))
    complete = judge["name"] if options["completeness"] == "llm" and judge else "rules"
    complete = complete if options["require_complete"] else "not checked"
    ties = {"mean": "both directions averaged", "first": "the first asks (Algorithm 3)"}
    names = [f"{row['name']} ({row['problems']} problems)" for row in known["by"]]
    same = ": the same text or 13 words in a row is left out"
    counted = tokenizer["name"] + " (an offline estimate)" * tokenizer["estimated"]
    lines += [
        ("Completeness by", complete),
        *([("Equally long step lists", ties[options["ties"]])] if used["summarizer"] else []),
        ("Problems", f"`{options['problems']}` – {manifest['rules']['problems']}"),
        ("Solutions", f"`{options['solutions']}` – {manifest['rules']['solutions']}"),
        ("Tokens counted by", counted),
        ("Benchmarks", ", ".join(names) + same if names else "not compared with any"),
        ("Seed", str(options["seed"])),
    ]
    return [(name, text.replace("chosen", word)) for name, text in lines]


def number_of(count: int, noun: str) -> str:
    """A number with its noun.

    >>> number_of(1, "problem"), number_of(2_000, "problem")
    ('1 problem', '2,000 problems')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def better_line(better: Mapping[str, Any]) -> str:
    """Whether a choice is better than a draw, with the figures.

    >>> better_line({"answer": "not measured", "why": "not independent: `pieces` also selected"})
    'not measured (not independent: `pieces` also selected)'
    """
    if "why" in better:
        return f"{better['answer']} ({better['why']})"
    answer, number = better["answer"], f"{better['problems']:,}"
    answer = (
        f"{FEW} ({number}) for a verdict" if answer == FEW else f"{answer}, in {number} problems"
    )
    gain, low, high = (format(better[name], "+.3f") for name in ("gain", "low", "high"))
    return (
        f"{answer}: {better['measure']} {better['chosen']:.3f} among the chosen solutions of a "
        f"problem, {better['random']:.3f} at random: {gain} [{low}, {high}]"
    )


def _answers_line(answers: Mapping[str, Any], word: str) -> str:
    if not answers["by"]:
        number = sum(answers["chosen"].values())
        return f"{number:,} not checked: the input has neither marks nor reference answers"
    chosen, candidates = (in_three([*answers[name].values()]) for name in ("chosen", "candidates"))
    return f"{chosen}, of the {word}; of all {candidates}; by {answers['by']}"


def _median_line(median: Mapping[str, Any]) -> str:
    means = f" ({median['means']})" if median["means"] else ""
    text = f"{median['chosen']:.3f} between the chosen solutions of a problem{means}"
    text += f", random {median['random']:.3f}"
    if median["all_problems"] is not None:
        text += f", in all problems {median['all_problems']:.3f}"
    return text + (f"; selected by `{median['selected_by']}`" if median["selected_by"] else "")


def _named(distance: str) -> str:
    return "RPD" if distance == "rpd" else f"`{distance}`"


def _shares(values: Mapping[str, float | None]) -> str:
    known = {name: share for name, share in values.items() if share is not None}
    return ", ".join(f"{100 * share:.3g} % of the {name}" for name, share in known.items())


def _listed(values: Mapping[str, Any]) -> str:
    known = {name: value for name, value in values.items() if value not in (None, "")}
    return ", ".join(f"{name.replace('_', ' ')} {_cell(value)}" for name, value in known.items())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
