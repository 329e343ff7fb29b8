"""How problems and solutions were chosen, in words: for cards, reports and the terminal."""

from __future__ import annotations

from rpd_datasets.config import CurationConfig

METRIC_NAMES = {
    "rpd": "RPD, between the steps of two solutions",
    "strategy": "`strategy`, this project's own distance between the steps of two solutions",
    "combined": "`combined`, this project's own: `strategy` between steps, and a quarter of what "
    "the texts say",
    "pieces": "`pieces`, this project's own: two solutions' texts in pieces of 40 words, and the "
    "methods they name",
    "summary": "the cosine distance between embeddings of two solutions' joined steps",
    "raw": "the cosine distance between embeddings of two solutions' texts, as far as the encoder "
    "reads them",
    "raw_chunks": "the cosine distance between mean embeddings of two solutions' texts, piece by "
    "piece",
}
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
        f"distance is {METRIC_NAMES[config.problems]}"
    )


def solution_rule(config: CurationConfig) -> str:
    """How the solutions of a chosen problem were chosen, in words."""
    if config.num_samples is not None:
        return f"{BUDGET_RULE}; the distance is {METRIC_NAMES[config.solutions]}"
    if config.solutions == "random" or config.selection == "random":
        return SELECTION_RULES["random"]
    if config.solutions == "llm":
        return "the set that a language model calls most diverse in method"
    if config.solutions == "all":
        return f"all there are, up to {config.num_solutions}"
    quality = ""
    if config.quality_column is not None:
        quality = (
            f", and {config.quality_weight:g} times the score in `{config.quality_column}` (0 to 1 "
            "within each problem) is added to it"
        )
    return (
        f"`{config.selection}` – {SELECTION_RULES[config.selection]}; the distance is "
        f"{METRIC_NAMES[config.solutions]}{quality}"
    )
