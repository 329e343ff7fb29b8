"""What a run measured, in plain numbers: filled as it goes, summed up by `outcome.py`."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rpd_datasets.config import CurationConfig, distance_of
from rpd_datasets.curation.scoring import MatrixRows, Scored
from rpd_datasets.language import PROGRAM, RUN, written_in
from rpd_datasets.problem import UNNAMED, Problem
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.groups import ReaderTrust
from rpd_metric.distance.measured import CHAT, Calibration, EvidenceTable, read_evidence
from rpd_metric.reasons import with_option
from rpd_metric.statistics.strategy_counts import Labels, coverage_at_n
from rpd_metric.steps.summarizers import asks_chat_model

STATEMENT_CHARS = 220
EXAMPLES = 2
# Different steps that are remembered, to tell how many there are.
REMEMBERED = 500_000

# Who wrote replies: the model that was asked, the one that answered, its version and its host.
ReplySource = tuple[str, str, str, str]
# What the chosen solutions of a problem have, and what as many drawn at random have on average.
Both = tuple[float | None, float | None]


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
    groups_auroc: float | None = None  # of `strategy` against a chat model's groups
    statement: str = ""  # the beginning of the problem's text, to know it by


class TableInfo(NamedTuple):
    """What the card says of one configuration of the dataset."""

    schema: Any
    num_rows: int
    num_bytes: int


class Choice(NamedTuple):
    """One chosen problem: its chosen solutions beside all that could have been chosen."""

    num_chosen: int
    distance: Both  # mean of their pairs by RPD, or without steps by the distance that chose
    # How many they are worth by the chances of their pairs; where a chat model sorted the solutions
    # how many there are, and what to expect of a draw.
    strategies: Both = (None, None)
    labelled: Both = (None, None)  # the same by the strategies that the input names


def tally(scored: Scored, among: Sequence[int] | None = None) -> Counter[str]:
    """What is known of `solutions`: how many are `right`, `wrong` and `not_checked` (of problems
    with marks or references), `dissenting` from most of their problem's of how many `answered`,
    `floundering`."""
    among = range(len(scored.drop_reasons)) if among is None else among

    def known(values: Sequence[bool | None]) -> list[bool]:
        chosen = [values[index] for index in among] if values else []
        return [value for value in chosen if value is not None]

    marks, agrees = known(scored.marks), known(scored.agrees)
    return Counter(
        right=sum(marks),
        wrong=len(marks) - sum(marks),
        not_checked=(len(among) - len(marks)) * bool(scored.marked_by),
        dissenting=len(agrees) - sum(agrees),
        answered=len(agrees),
        floundering=sum(known(scored.floundering)),
        solutions=len(among),
    )


def measured_by(config: CurationConfig) -> str | None:
    """The distance that choices are measured by: RPD, or without steps the one that chose."""
    return "rpd" if config.reads_steps else distance_of(config.solutions)


def evidence_of(
    config: CurationConfig, embedder: str, summarizer: str, path: str | None = None
) -> EvidenceTable:
    """What is known of the distances of a run, by the packaged table and a file of one's own.

    The encoder and the summarizer are those that were loaded, by name.
    """
    choices = {config.problems, config.solutions, measured_by(config)}
    names = {*choices, *(distance_of(choice) for choice in choices if choice)}
    steps = CHAT if asks_chat_model(config.summarizer) else summarizer
    return read_evidence(path).about(names, embedder, steps)


@dataclass
class RunSummary:
    """What a run did; `drops` counts by `(stage, reason, "problem" | "solution")`."""

    input: dict[str, Any] = field(default_factory=dict)  # as the manifest has it
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    scores: list[ProblemScore] = field(default_factory=list)  # in the order of the input
    chosen: list[int] = field(default_factory=list)  # indices into them, best first
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
    unread: list[str] = field(default_factory=list)  # examples of answers that were not checked
    steps: Counter[str] = field(default_factory=Counter)  # summaries: asked, accepted, ...
    first_with: dict[int, int] = field(default_factory=dict)  # problem, by the hash of a step
    sharing: set[int] = field(default_factory=set)  # problems with a step of another problem
    served: Counter[ReplySource] = field(default_factory=Counter)  # replies by who answered
    refused: list[str] = field(default_factory=list)  # what was wrong with the first of them
    sorted_problems: int = 0  # by a chat model, into strategies
    ungrouped: Counter[str] = field(default_factory=Counter)  # why others were not
    untrusted: bool = False  # the reader: its groups did not decide
    names: Counter[str] = field(default_factory=Counter)  # strategies of chosen solutions
    labels: list[Labels] = field(default_factory=list)  # by problem, see `Scored.labels`
    marks: list[Sequence[bool | None]] = field(default_factory=list)  # of the same solutions
    evidence: EvidenceTable = field(default_factory=EvidenceTable)  # of the run's distances
    curve: Calibration | None = None  # of the distance that chooses: it counts strategies
    not_compared: str = ""  # with which benchmarks, in words

    def add(self, problem: Problem, scored: Scored) -> None:
        """Take a problem in that was scored."""
        written = [written_in(problem.solutions[index]) for index in scored.usable]
        self.scores.append(
            ProblemScore(
                key=problem.key,
                where=problem.where,
                rpd_score=scored.score,
                mean_rpd=mean_pairwise(scored.matrix),
                num_solutions=len(problem.solutions),
                num_usable=len(scored.usable),
                mean_tokens=sum(scored.num_tokens) / len(scored.num_tokens),
                problem_score=scored.problem_score,
                diverse=scored.diverse,
                # No curve says what distances between runs of agents mean.
                strategies=None
                if RUN in written and not scored.strategies
                else self.strategies(scored),
                groups_auroc=scored.groups_auroc,
                statement=" ".join(problem.problem.split())[:STATEMENT_CHARS],
            )
        )
        self.labels.append(scored.labels(problem))
        self.marks.append(scored.marks or [None] * len(problem.solutions))
        self.candidates.update(tally(scored))
        self.unread += scored.unread[: EXAMPLES - len(self.unread)]
        self.marked_by[scored.marked_by] += 1
        refused = [
            f"{reject.reason}: {reject.detail}"
            for reject in scored.rejects
            if reject.stage == "steps"
        ]
        self.refused += refused[: EXAMPLES - len(self.refused)]
        accepted = sum(map(bool, scored.steps))
        self.steps.update(
            asked=accepted + len(refused),
            accepted=accepted,
            asked_again=scored.asked_again,
            repaired=scored.repaired,
        )
        self._count_steps(step for steps in scored.steps for step in steps)
        for *source, times in scored.served:
            self.served[tuple(source)] += times
        self.written.update(written)
        self.num_mixed += len(set(written) - {"", PROGRAM, RUN}) > 1
        self.sorted_problems += bool(scored.strategy_names)
        if scored.ungrouped:
            self.ungrouped[scored.ungrouped] += 1

    def add_choice(
        self,
        scored: Scored,
        selected: Sequence[int],
        config: CurationConfig,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Measure a choice; `labels` are the strategies that the input names."""
        self.num_selected += len(selected)
        self.chosen_known.update(tally(scored, selected))
        self.selected_tokens += [scored.num_tokens[index] for index in selected]

        def means(matrix: MatrixRows) -> Both:
            # Every pair is as likely to be drawn as any other: a draw has the mean over all pairs.
            distances = np.array(matrix, dtype=np.float64)
            return mean_pairwise(distances[np.ix_(selected, selected)]), mean_pairwise(distances)

        strategies: Both = self.strategies(scored, selected), None
        if scored.strategy_names:
            groups = [strategy for strategy in scored.strategies if strategy is not None]
            taken = [
                strategy for index in selected if (strategy := scored.strategies[index]) is not None
            ]
            strategies = len(set(taken)), _of_a_draw(groups, len(selected))
            self.names.update(scored.strategy_names[strategy] for strategy in taken)
        distance = means(scored.matrix if config.reads_steps else scored.chosen_by)
        labelled: Both = None, None
        if labels is not None:
            known = [labels[index] for index in scored.usable if labels[index] != UNNAMED]
            taken_labels = {labels[index] for index in selected} - {UNNAMED}
            labelled = len(taken_labels), _of_a_draw(known, len(selected))
        self.choices.append(Choice(len(selected), distance, strategies, labelled))

    @property
    def trust(self) -> ReaderTrust:
        """How far the reader's groups are trusted, by all problems."""
        return ReaderTrust.of(score.groups_auroc for score in self.scores)

    def left_out(self) -> str:
        """The most frequent reasons, for a line."""
        reasons = [with_option(reason, n) for (_, reason, _), n in self.drops.most_common(5)]
        return ", ".join(reasons) or "nothing"

    def _count_steps(self, steps: Iterable[str]) -> None:
        """Count the steps of the latest problem, and those that no problem had before."""
        place = len(self.scores)
        for step in steps:
            if len(self.first_with) == REMEMBERED:
                break
            first = self.first_with.setdefault(hash(" ".join(step.lower().split())), place)
            if first != place:
                self.sharing |= {first, place}
            self.steps["steps"] += 1
        self.steps["distinct_steps"] = len(self.first_with)

    def strategies(self, scored: Scored, among: Sequence[int] | None = None) -> float | None:
        """The effective number of strategies among solutions: as a chat model sorted them, or by
        the chances of their pairs."""
        number = scored.num_strategies
        if not scored.strategies and self.curve is not None:
            number = self.curve.effective_strategies(scored.chosen_by, among)
        return None if number is None else round(number, 4)


def _of_a_draw(groups: Sequence[Hashable], number: int) -> float:
    """How many groups a draw of so many solutions is expected to hold."""
    number = min(number, len(groups))
    return coverage_at_n(groups, number) if number else 0.0
