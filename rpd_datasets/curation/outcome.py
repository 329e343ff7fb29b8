"""What a run did, in plain numbers: the card, the manifest and the figures are made from it.

[`RunSummary`] is filled as a run goes, and [`outcome`] sums it up for the manifest; the words for
it are `rpd_datasets/account.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median
from typing import Any

import numpy as np

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.inputs.raw_rows import Terms
from rpd_datasets.problem import Problem
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration, calibration
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.reasons import Reason
from rpd_metric.steps.summarizers import asks_chat_model

# Why a solution goes whose final answer is, or may be, wrong.
WRONG_REASONS = (
    *(Reason.INCORRECT, Reason.CORRECTNESS_UNKNOWN, Reason.WRONG_ANSWER),
    *(Reason.MINORITY_ANSWER, Reason.NO_MAJORITY, Reason.NO_ANSWER),
)
MARKED_BY = {"marks": "marks in the input", "reference": "reference answers"}
STATEMENT_CHARS = 220
EXAMPLES = 2
# Distinct steps that are compared; those that come later are not looked at.
REMEMBERED = 200_000


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
class InputInfo:
    """What the card says of one input."""

    name: str
    layout: str
    fingerprint: str
    rows_read: int
    problems_read: int
    problems_wanted: int
    problems_chosen: int
    columns: Mapping[str, str] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)


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
    """

    num_chosen: int
    chosen: float | None
    random: float | None
    steps_per_solution: float | None = None
    strategies: float | None = None


def tally(scored: Scored, among: Sequence[int] | None = None) -> Counter[str]:
    """What is known of solutions' answers: how many are `right` of how many `marked`, `dissenting`
    from most of their problem's of how many `answered`, and `floundering`."""
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
    )


def curves(
    config: CurationConfig, embedder: str, path: str | None = None
) -> dict[str, Calibration | None]:
    """What labelled pairs say of RPD, and of the distance that chooses (`""`; RPD where none does).

    `path` names a file of curves of the user's own.
    """
    chat = asks_chat_model(config.summarizer)
    choosing = "rpd" if config.reads_steps else None
    if config.solutions in METRICS:
        choosing = config.solutions
    return {
        name: calibration(
            distance, embedder, chat=chat, path=path, truncate_dim=config.truncate_dim
        )
        for name, distance in (("rpd", "rpd"), ("", choosing))
    }


@dataclass
class SummaryHealth:
    """How well a chat model's summaries went: how many were refused, and how much they repeat."""

    accepted: int = 0  # solutions with steps
    asked_again: int = 0  # solutions whose first reply could not be used
    repaired: int = 0  # of those, the ones that then had steps
    rejected: Counter[str] = field(default_factory=Counter)  # solutions without steps, by reason
    examples: list[str] = field(default_factory=list)  # what was wrong with the first of them
    problems: int = 0  # with steps
    _first_in: dict[bytes, int] = field(default_factory=dict)  # step's hash: its first problem
    _sharing: set[int] = field(default_factory=set)
    _steps: int = 0

    def add(self, scored: Scored) -> None:
        """Count one problem."""
        for reject in scored.rejects:
            if reject.stage == "steps":
                self.rejected[reject.reason] += 1
                if len(self.examples) < EXAMPLES:
                    self.examples.append(f"{reject.reason}: {reject.detail}")
        self.asked_again += scored.asked_again
        self.repaired += scored.repaired
        with_steps = [steps for steps in scored.steps if steps]
        self.accepted += len(with_steps)
        self.problems += bool(with_steps)
        for step in (step for steps in with_steps for step in steps):
            if len(self._first_in) == REMEMBERED:
                return
            words = " ".join(step.lower().split()).encode("utf-8", "replace")
            self._steps += 1
            step_hash = blake2b(words, digest_size=8).digest()
            first = self._first_in.setdefault(step_hash, self.problems)
            if first != self.problems:
                self._sharing |= {first, self.problems}

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the manifest."""
        return {
            "asked": self.accepted + self.rejected.total(),
            "accepted": self.accepted,
            "asked_again": self.asked_again,
            "repaired": self.repaired,
            "rejected": dict(sorted(self.rejected.items())),
            "examples": self.examples,
            "distinct_steps": round(len(self._first_in) / self._steps, 4) if self._steps else None,
            "problems": self.problems,
            "problems_sharing_steps": len(self._sharing),
        }


@dataclass
class RunSummary:
    """What a run did; `drops` counts by `(stage, reason, "problem" | "solution")`."""

    inputs: list[InputInfo] = field(default_factory=list)
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    scores: list[ProblemScore] = field(default_factory=list)  # in the order of the input
    chosen: list[int] = field(default_factory=list)  # indices into them, best first for each input
    choices: list[Choice] = field(default_factory=list)  # as long as `chosen`
    num_selected: int = 0  # solutions, over all chosen problems
    selected_tokens: list[int] = field(default_factory=list)  # the length of each
    json_columns: list[str] = field(default_factory=list)  # stored as text for want of one type
    tables: dict[str, TableInfo] = field(default_factory=dict)  # by configuration of the dataset
    candidates: Counter[str] = field(default_factory=Counter)  # see `tally`
    chosen_known: Counter[str] = field(default_factory=Counter)  # the same of chosen solutions
    marked_by: Counter[str] = field(default_factory=Counter)  # "marks", "reference", "": problems
    soundness: Counter[str] = field(default_factory=Counter)  # what a judge made of solutions
    health: SummaryHealth | None = None  # where a chat model wrote the summaries
    example: tuple[str, dict[int, list[str]]] | None = None  # the best problem, steps by solution
    curves: dict[str, Calibration | None] = field(default_factory=dict)  # see `curves`
    own_curves: bool = False  # whether they are from a file of the user's own
    missing: dict[str, Any] | None = None  # of a partial set, see `DryRun.shortfall`

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
        if self.health is not None:
            self.health.add(scored)

    def add_choice(
        self, problem: Problem, scored: Scored, selected: Sequence[int], config: CurationConfig
    ) -> None:
        """Measure a choice by RPD, or without steps by the distance that chose; the first one is
        the card's example.
        """
        self.num_selected += len(selected)
        self.chosen_known.update(tally(scored, selected))
        self.selected_tokens += [scored.num_tokens[index] for index in selected]
        if self.example is None:
            steps = {index: scored.steps[index] for index in selected}
            self.example = (problem.problem, steps)
        matrix = nan_for_none(scored.matrix if config.reads_steps else scored.chosen_by)
        lengths = [len(scored.steps[index]) for index in selected] if config.reads_steps else []
        choice = Choice(
            num_chosen=len(selected),
            chosen=mean_pairwise(matrix[np.ix_(selected, selected)]),
            random=mean_pairwise(matrix),
            steps_per_solution=_median(lengths),
            strategies=self.strategies(scored, selected),
        )
        self.choices.append(choice)

    def strategies(self, scored: Scored, among: Sequence[int] | None = None) -> float | None:
        """The effective number of strategies among solutions, by the chances of their pairs."""
        if (curve := self.curves.get("")) is None:
            return None
        number = curve.effective_strategies(nan_for_none(scored.chosen_by), among)
        return None if number is None else round(number, 4)


def counts(summary: RunSummary) -> dict[str, int]:
    """How much came in, could be used, and was chosen."""
    scores = summary.scores
    compared = [(score.rpd_score, score.problem_score) != (None, None) for score in scores]
    return {
        "rows_read": sum(one.rows_read for one in summary.inputs),
        "problems_read": len(scores),
        "solutions_read": sum(score.num_solutions for score in scores),
        "solutions_usable": sum(score.num_usable for score in scores),
        "problems_scored": sum(compared),
        "problems_chosen": len(summary.chosen),
        "solutions_chosen": summary.num_selected,
    }


def outcome(summary: RunSummary, config: CurationConfig) -> dict[str, Any]:
    """Sum a run up, for the manifest and [`~rpd_datasets.account.outcome_lines`].

    Returns:
        `dict`: Plain JSON types; `None` where something cannot be known.
    """
    drops, number, filters = summary.drops, counts(summary), config.filters
    candidates, chosen = summary.candidates, summary.chosen_known
    both = [one for one in summary.choices if one.chosen is not None and one.random is not None]
    left_out: dict[str, Counter[str]] = {"problem": Counter(), "solution": Counter()}
    for (_, reason, unit), count in sorted(drops.items()):
        left_out[unit][reason] += count
    distance = "rpd" if config.reads_steps else None
    if distance is None and config.solutions in METRICS:
        distance = config.solutions
    curve = summary.curves.get("rpd" if distance == "rpd" else "")
    among_chosen = _median([one.chosen for one in both])
    by_rpd = [one.mean_rpd for one in summary.scores] if config.reads_steps else []
    failed = sum(n for what, n in drops.items() if (what[0], what[2]) == ("steps", "solution"))
    steps: dict[str, Any] = {
        "solutions": number["solutions_usable"] if config.reads_steps else 0,
        "failed": failed,
        "per_solution": _median([one.steps_per_solution for one in summary.choices]),
    }
    if summary.health:
        steps["summaries"] = summary.health.as_dict()
    wanted = {
        "problems": sum(one.problems_wanted for one in summary.inputs),
        "chosen": len(summary.chosen),
    }
    if config.num_samples is not None:
        wanted |= {"samples": config.num_samples, "samples_chosen": summary.num_selected}
    found = {
        "distance": distance,
        "reading": curve.in_words(among_chosen) if curve and among_chosen is not None else None,
        "median_distance": {
            "chosen": among_chosen,
            "random": _median([one.random for one in both]),
            "all_problems": _median(by_rpd),
        },
        "strategies": _strategies(summary),
        "right": {
            # The words for who says so, most problems first.
            "by": [MARKED_BY[by] for by, _ in summary.marked_by.most_common() if by],
            "wrong_kept": not filters.only_correct
            and (filters.keep_wrong or filters.answers == "any"),
            "left_out": sum(drops["filter", reason, "solution"] for reason in WRONG_REASONS),
            "candidates": candidates["right"],
            "candidates_marked": candidates["marked"],
            "chosen": chosen["right"],
            "chosen_marked": chosen["marked"],
        },
        "agreement": {
            "candidates_dissenting": candidates["dissenting"],
            "candidates_answered": candidates["answered"],
            "chosen_dissenting": chosen["dissenting"],
            "chosen_answered": chosen["answered"],
        },
        "floundering": {
            "candidates": candidates["floundering"],
            "candidate_solutions": number["solutions_read"],
            "chosen": chosen["floundering"],
            "chosen_solutions": summary.num_selected,
            "left_out": drops["filter", Reason.FLOUNDERING, "solution"],
        },
        "left_out": left_out,
        "steps": steps,
        "wanted": wanted,
    }
    if summary.soundness:
        found["soundness"] = dict(sorted(summary.soundness.items()))
    if summary.missing:
        found["missing"] = summary.missing
    return found


def _strategies(summary: RunSummary) -> dict[str, Any] | None:
    """How many strategies problems show, and by which pairs that was counted."""
    curve = summary.curves.get("")
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


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(median(known)), 5) if known else None
