"""What a run did, in plain numbers: the card, the manifest and the figures are made from it.

What was decided about one problem is `score.py`; how a run goes about it is `run.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rpd_datasets.curation.health import SummaryHealth
from rpd_datasets.curation.scored import Scored
from rpd_datasets.inputs.rows import Terms
from rpd_datasets.problem import Problem
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration
from rpd_metric.distance.core import mean_pairwise

STATEMENT_CHARS = 220


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

    @classmethod
    def of(cls, problem: Problem, scored: Scored, strategies: float | None) -> ProblemScore:
        """Sum up a problem that was scored."""
        return cls(
            key=problem.key,
            where=problem.where,
            rpd_score=scored.score,
            mean_rpd=mean_pairwise(nan_for_none(scored.matrix)),
            num_solutions=len(problem.solutions),
            num_usable=len(scored.usable),
            mean_tokens=sum(scored.num_tokens) / len(scored.num_tokens),
            problem_score=scored.problem_score,
            diverse=scored.diverse,
            strategies=strategies,
            statement=" ".join(problem.problem.split())[:STATEMENT_CHARS],
        )


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

    Args:
        num_chosen (`int`): How many were chosen.
        chosen (`float`, *optional*): Mean distance of their pairs; `None` below two.
        random (`float`, *optional*): That of as many drawn at random. Every pair is as likely to
            be drawn as any other, so it is the mean over all pairs.
        right, marked (`int`): Chosen solutions that are right, and those of which that is known.
        dissenting, answered (`int`): Chosen solutions with another final answer than most of their
            problem's, and those of which that is known.
        floundering (`int`): Chosen solutions with signs of a failed argument.
        steps_per_solution (`float`, *optional*): The median over the chosen ones.
        strategies (`float`, *optional*): The effective number of strategies among the chosen.
    """

    num_chosen: int
    chosen: float | None
    random: float | None
    right: int = 0
    marked: int = 0
    steps_per_solution: float | None = None
    strategies: float | None = None
    dissenting: int = 0
    answered: int = 0
    floundering: int = 0


@dataclass(frozen=True)
class Example:
    """The best problem with the steps of its chosen solutions, for the card.

    Args:
        problem (`str`): Its text.
        steps (`dict[int, list[str]]`): Per chosen solution, by its index, in order of choice.
    """

    problem: str
    steps: dict[int, list[str]]


@dataclass(frozen=True)
class Shortfall:
    """What a run left undone when its budget was spent, and what it would cost to finish it.

    Args:
        spent (`str`): What was spent, in a few words.
        problems, solutions (`int`): That wait for replies.
        requests (`int`): That are missing; a judge's are counted as far as they can be foreseen.
        prompt_tokens, new_tokens (`int`): Of these, new ones as long as those so far.
        cost (`float`, *optional*): At the prices of the run, where there are any.
    """

    spent: str
    problems: int
    solutions: int
    requests: int
    prompt_tokens: int
    new_tokens: int
    cost: float | None = None

    def __str__(self) -> str:
        cost = "" if self.cost is None else f", {self.cost:,.2f} at the same prices"
        return (
            f"{self.problems:,} problems with {self.solutions:,} solutions are missing: about "
            f"{self.requests:,} requests with {self.prompt_tokens:,} prompt and "
            f"{self.new_tokens:,} new tokens{cost}"
        )


@dataclass
class RunSummary:
    """What a run did; the card and the manifest are made from it.

    Args:
        inputs (`list[InputInfo]`): The input, and what was mixed in.
        drops (`Counter`): Left out, by `(stage, reason, "problem" | "solution")`.
        scores (`list[ProblemScore]`): In the order of the input.
        chosen (`list[int]`): Indices into `scores`, best first for each input.
        num_selected (`int`): Solutions chosen, over all chosen problems.
        selected_tokens (`list[int]`): Length of each of them.
        json_columns (`list[str]`): Carried columns stored as JSON text for want of one type.
        tables (`dict`): Per configuration of the dataset what was written: its Arrow schema, its
            rows, and their size in memory.
        choices (`list[Choice]`): As long as `chosen`: what was chosen beside a random choice.
        candidates_right, candidates_marked (`int`): Solutions of all problems whose final answer
            is right, and those of which that is known.
        marked_by (`Counter`): Problems by who says so: `"marks"`, `"reference"`, `""`.
        dissenting, answered (`int`): Solutions of all problems with another final answer than most
            of their problem's, and those of which that is known.
        floundering (`int`): Solutions of all problems with signs of a failed argument.
        soundness (`Counter`): Solutions by what a judge made of their argument, where one was
            asked: `"sound"`, `"unsound"`, `"no_verdict"`.
        health ([`SummaryHealth`], *optional*): How the summaries went, where a chat model wrote
            them.
        example (`Example`, *optional*): The best problem.
        calibration ([`~rpd_metric.distance.calibration.Calibration`], *optional*): What labelled
            pairs say of the distance and the encoder, where there were any.
        own_curves (`tuple`, *optional*): What a file of the user's own says of RPD and of the
            distance that chose; the packaged curves then say nothing.
        embedder (`str`): Whose vectors were compared.
        shortfall ([`Shortfall`], *optional*): What is missing in a partial set.
    """

    inputs: list[InputInfo] = field(default_factory=list)
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    scores: list[ProblemScore] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    num_selected: int = 0
    selected_tokens: list[int] = field(default_factory=list)
    json_columns: list[str] = field(default_factory=list)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    candidates_right: int = 0
    candidates_marked: int = 0
    marked_by: Counter[str] = field(default_factory=Counter)
    dissenting: int = 0
    answered: int = 0
    floundering: int = 0
    soundness: Counter[str] = field(default_factory=Counter)
    health: SummaryHealth | None = None
    example: Example | None = None
    calibration: Calibration | None = None
    own_curves: tuple[Calibration, ...] | None = None
    embedder: str = ""
    shortfall: Shortfall | None = None


def counts(summary: RunSummary) -> dict[str, int]:
    """How much came in, could be used, and was chosen."""
    return {
        "rows_read": sum(one.rows_read for one in summary.inputs),
        "problems_read": len(summary.scores),
        "solutions_read": sum(score.num_solutions for score in summary.scores),
        "solutions_usable": sum(score.num_usable for score in summary.scores),
        "problems_scored": sum(
            score.rpd_score is not None or score.problem_score is not None
            for score in summary.scores
        ),
        "problems_chosen": len(summary.chosen),
        "solutions_chosen": summary.num_selected,
    }


def ranking_scores(summary: RunSummary) -> tuple[list[float], list[float]]:
    """The scores that ranked the problems: those of all scored ones, and of the chosen ones."""

    def known(scores: Iterable[ProblemScore]) -> list[float]:
        values = [s.rpd_score if s.problem_score is None else s.problem_score for s in scores]
        return [value for value in values if value is not None]

    return known(summary.scores), known(summary.scores[index] for index in summary.chosen)
