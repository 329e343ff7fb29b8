"""Curation of problems: filters, steps, distances, verdicts, and the chosen solutions.

[`score_problem`] looks at one problem: a run, the workers of an engine, `rpd_curate` and `rpd plan`
all go through it. [`score_all`] does so for many.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import GROUPS, WITHIN_GROUPS, CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.filters.candidates import AnswerCheck, EndVerdict
from rpd_datasets.filters.completeness import TAIL_TOKENS
from rpd_datasets.filters.pipeline import Filtered, filter_problem
from rpd_datasets.filters.soundness import signs_of_floundering
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.messages import actions_of
from rpd_datasets.problem import UNNAMED, Problem, Rejected, strategy_labels
from rpd_datasets.selection.decisions import KEEP, decided, read_decisions
from rpd_datasets.selection.solutions import quality_of, select_solutions, spending_order
from rpd_datasets.tokens import text_tail
from rpd_metric.distance.core import none_for_nan, problem_score
from rpd_metric.distance.groups import group_distances, groups_auroc
from rpd_metric.errors import PluginError
from rpd_metric.measure import distance_matrices
from rpd_metric.models.chat import answered_by
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.reasons import Reason
from rpd_metric.statistics.strategy_counts import effective_number
from rpd_metric.steps.actions import VERSION as ACTIONS_VERSION
from rpd_metric.steps.grouping import Grouping
from rpd_metric.steps.protocol import Summary, summaries_of
from rpd_metric.steps.summarizers import asks_chat_model

# Numbers; of left-out solutions, rows and columns are `None`.
MatrixRows = list[list[Any]]
# Of distances and scores, where they are written and where they are compared. Machines whose
# products are rounded otherwise differ by some 1e-7: what is nearer than 1e-5 counts as equal.
DIGITS = 5
MAX_IN_FLIGHT = 32
# Options that decide nothing of a problem: how many are chosen, and who works how fast.
BESIDE = ("num_problems", "store", "requests", "device", "batch_size", "threads")
JUDGES = ("completeness", "problems", "solutions")


@dataclass(frozen=True)
class Scored:
    """What is known about a problem before anything is chosen; lists are per solution."""

    steps: list[list[str]]  # empty where it was left out, and where nothing reads steps
    matrix: MatrixRows  # RPD; `None` in rows and columns of left-out solutions
    score: float | None  # Eq. 3 on it; `None` under two usable solutions
    drop_reasons: list[str]  # why it was left out; "" where it was not
    num_tokens: list[int]  # by the configured tokenizer
    rejects: list[Rejected]  # the reasons as records for the rejects file
    problem_score: float | None = None  # Eq. 3 on the distance that ranks problems
    distances: MatrixRows | None = None  # those that choose solutions, if not RPD
    diverse: bool | None = None  # what a judge said of the problem, where it was asked
    asked_again: int = 0  # solutions whose first summary could not be used
    repaired: int = 0  # of those, the ones that then had steps
    marks: list[bool | None] = field(default_factory=list)  # whether its final answer is right
    marked_by: str = ""  # who says so: "marks", "reference", "" for nobody
    unread: list[str] = field(default_factory=list)  # answers that could not be checked
    # Whether it has the problem's most frequent answer; `None` where it names none.
    agrees: list[bool | None] = field(default_factory=list)
    floundering: list[bool] = field(default_factory=list)  # signs of a failed argument
    # By a chat model's groups, see `Grouping`; all empty where none was asked.
    strategies: list[int | None] = field(default_factory=list)
    strategy_names: list[str] = field(default_factory=list)
    ungrouped: str = ""  # why they are not known, a `Reason`
    groups_auroc: float | None = None  # of `strategy` against them, see `ReaderTrust`
    served: list[list[Any]] = field(default_factory=list)  # replies by who answered, and how many

    @property
    def num_strategies(self) -> float | None:
        """How many equally common strategies they are worth; `None` where they are not known."""
        return effective_number(self.strategies) if self.strategies else None

    def labels(self, problem: Problem) -> list[str | int | None]:
        """Each solution's strategy, named by the input or sorted by a chat model; `None` where it
        is unknown or the solution was left out."""
        input_labels = strategy_labels(problem.extra, len(problem.solutions))
        labels = input_labels or self.strategies or [None] * len(self.drop_reasons)
        return [
            None if reason or label == UNNAMED else label
            for label, reason in zip(labels, self.drop_reasons, strict=True)
        ]

    @property
    def usable(self) -> list[int]:
        """Indices of the solutions that take part in scoring and selection."""
        return [index for index, reason in enumerate(self.drop_reasons) if not reason]

    @property
    def chosen_by(self) -> MatrixRows:
        """The distances that choose solutions; RPD where none does."""
        return self.matrix if self.distances is None else self.distances

    def among(self, indices: Sequence[int], count: int, reason: str) -> Scored:
        """The same for a row of `count` solutions, of which only those at `indices` were scored.

        `reason` is why the others were not.
        """

        def spread(values: Sequence[Any], blank: Any) -> list[Any]:
            value_at = dict(zip(indices, values, strict=False))
            return [value_at.get(index, blank) for index in range(count)]

        def square(matrix: MatrixRows) -> MatrixRows:
            return spread([spread(distances, None) for distances in matrix], [None] * count)

        return replace(
            self,
            steps=spread(self.steps, []),
            matrix=square(self.matrix),
            distances=square(self.distances or []),
            drop_reasons=spread(self.drop_reasons, reason),
            strategies=spread(self.strategies, None),
        )

    def as_record(self) -> dict[str, Any]:
        """Plain JSON types, for the journal."""
        # Not asdict, which would copy every step and every distance.
        return {**vars(self), "rejects": [asdict(reject) for reject in self.rejects]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], where: str | None = None) -> Scored:
        """The inverse of `as_record`; `where` is that of an equal problem elsewhere in an input."""
        moved = {} if where is None else {"where": where}
        rejects = [Rejected(**reject | moved) for reject in record["rejects"]]
        return cls(**{**record, "rejects": rejects})


UNSCORED = Scored(steps=[], matrix=[], score=None, drop_reasons=[], num_tokens=[], rejects=[])


async def score_problem(
    problem: Problem,
    config: CurationConfig,
    models: Models,
    answers: AnswerCheck | None = None,
) -> Scored:
    """Filter a problem's solutions, extract their steps, and compare them.

    A solution that a filter refuses or that cannot be summarised is left out of scoring with
    its reason; it never counts as far away. A problem on which a part of another package fails is
    left out as a whole.
    `answers` is what is known about its final answers already.
    """
    try:
        return await _score(problem, config, models, answers)
    except PluginError as error:
        count, reason = len(problem.solutions), Reason.PLUGIN_FAILED
        return replace(
            UNSCORED.among((), count, reason),
            num_tokens=[models.count_tokens(solution) for solution in problem.solutions],
            rejects=[problem.rejected("score", reason, str(error))],
        )


async def _score(
    problem: Problem, config: CurationConfig, models: Models, answers: AnswerCheck | None
) -> Scored:
    served: Counter[tuple[str, str, str, str]] = Counter()
    answered_by.set(served)
    # In a thread: answers that take computer algebra, and encoding, must not hold up the requests
    # of other problems.
    if answers is None:
        answers = await models.in_thread(check_answers, problem, config, models)
    filtered = await _filtered(problem, config, models, answers)
    count = len(problem.solutions)
    reasons = list(filtered.reasons)
    rejects = filtered.rejects(problem)
    steps: list[list[str]] = [[] for _ in range(count)]
    asked_again = repaired = 0
    # A run is read as its actions, one a line; without a chat model they are its steps.
    runs = actions_of(problem)
    texts = ["\n".join(run) or text for run, text in zip(runs, problem.solutions, strict=True)]
    as_read = replace(problem, solutions=tuple(texts))
    if filtered.remaining and config.reads_steps:
        summaries = await summaries_of(
            models.summarizer, problem.problem, [texts[index] for index in filtered.remaining]
        )
        if not asks_chat_model(config.summarizer):
            summaries = [
                Summary(tuple(runs[index])) if runs[index] else summary
                for index, summary in zip(filtered.remaining, summaries, strict=True)
            ]
        for index, summary in zip(filtered.remaining, summaries, strict=True):
            asked_again += summary.asked_again
            repaired += summary.asked_again and summary.ok
            if summary.ok:
                steps[index] = list(summary.steps)
            else:
                reasons[index] = summary.reason or Reason.NO_STEPS
                detail = summary.detail or "no step could be extracted"
                rejects.append(problem.rejected("steps", reasons[index], detail, index))
    usable = [index for index, reason in enumerate(reasons) if not reason]
    grouping = Grouping(())
    if config.asks_groups:
        grouping = await models.required_reader().sort(problem.problem, steps)
    matrices = await models.in_thread(_matrices, as_read, steps, usable, config, models)
    judgement = Judgement[bool](None)
    if config.problems == "llm":
        judgement = await _classified(problem, [steps[index] for index in usable], models)
        if judgement.reason:
            rejects.append(problem.rejected("select", judgement.reason, judgement.detail or ""))
    rpd, choosing = matrices.get("rpd"), matrices.get(config.solution_distance or "")
    return Scored(
        steps=steps,
        matrix=[[None] * count for _ in range(count)] if rpd is None else none_for_nan(rpd),
        score=score_of(rpd),
        drop_reasons=reasons,
        num_tokens=list(filtered.num_tokens),
        rejects=rejects,
        problem_score=score_of(matrices.get(config.problem_distance or "")),
        distances=None if choosing is None or choosing is rpd else none_for_nan(choosing),
        diverse=judgement.value,
        asked_again=asked_again,
        repaired=repaired,
        marks=list(answers.marks),
        marked_by=answers.by,
        unread=list(answers.unread),
        agrees=list(answers.agrees),
        floundering=[bool(signs_of_floundering(text)) for text in problem.solutions],
        strategies=list(grouping.groups),
        strategy_names=list(grouping.names),
        ungrouped=grouping.reason or "",
        groups_auroc=groups_auroc(grouping.groups, matrices[WITHIN_GROUPS])
        if grouping.ok
        else None,
        served=[[*source, times] for source, times in sorted(served.items())],
    )


async def score_all(
    problems: Iterable[Problem], config: CurationConfig, models: Models
) -> AsyncGenerator[tuple[Problem, Scored], None]:
    """Score problems, several at a time, and give them back in their order."""

    async def work(problem: Problem) -> tuple[Problem, Scored]:
        return problem, await score_problem(problem, config, models)

    results = run_bounded(problems, work, max_in_flight=MAX_IN_FLIGHT)
    async with aclosing(results):
        async for result in results:
            yield result


async def _filtered(
    problem: Problem, config: CurationConfig, models: Models, answers: AnswerCheck
) -> Filtered:
    """The filters, with a judge of endings where the options want one.

    They run once supposing that the judge finds no fault, which shows what it must be asked about,
    and again with what it said. A solution without a verdict is never taken for a complete one.
    """
    filters, count_tokens = config.filters, models.count_tokens

    def run(unfinished: EndVerdict | None, **changes: Any) -> Filtered:
        options = replace(filters, **changes)
        return filter_problem(problem, options, count_tokens, answers, unfinished)

    unfinished: EndVerdict | None = None
    if config.completeness == "llm" and filters.require_complete:
        # Which ends would be looked at, supposing that all are fine? The rest need no request.
        if_all_complete = run(lambda _: None)
        if not if_all_complete.remaining:
            return if_all_complete
        with_copies = run(None, require_complete=False, drop_duplicates=False)
        lengths = {problem.solutions[i]: with_copies.num_tokens[i] for i in with_copies.remaining}
        ends = {
            text: text_tail(text, TAIL_TOKENS, count_tokens, length)
            for text, length in lengths.items()
        }
        distinct = list(dict.fromkeys(ends.values()))
        judge = models.required_judges().completeness.judge
        endings = dict(zip(distinct, await asyncio.gather(*map(judge, distinct)), strict=True))
        unfinished = partial(_by_judge, {text: endings[end] for text, end in ends.items()})
    return await models.in_thread(run, unfinished) if filters.student else run(unfinished)


def _by_judge(verdicts: Mapping[str, Judgement[bool]], text: str) -> tuple[str, str] | None:
    """Why a solution goes by the verdict on its end; one without a verdict goes, too."""
    verdict, reason = verdicts[text], Reason.INCOMPLETE
    if verdict.value is None:
        detail = f"no verdict on its completeness: {verdict.detail}"
        return verdict.reason or Reason.NO_VERDICT, detail
    return None if verdict.value else (reason, f"The solution was not finished: {reason}.")


def without_groups(config: CurationConfig) -> CurationConfig:
    """The same by the distance that decides where the reader of groups is not trusted."""
    problems, solutions = (
        WITHIN_GROUPS if choice == GROUPS else choice
        for choice in (config.problems, config.solutions)
    )
    return replace(config, problems=problems, solutions=solutions)


def needed_solutions(config: CurationConfig) -> int:
    """How many usable solutions a problem needs to be chosen."""
    # With "all" the number of solutions is an upper limit; the filters set the lower one.
    needed = config.filters.min_solutions if config.solutions == "all" else config.num_solutions
    compares = config.problem_distance is not None or config.problems == "llm"
    return max(needed, 2) if compares else needed


def left_out(problem: Problem, scored: Scored, config: CurationConfig) -> list[Rejected]:
    """Why a problem cannot be chosen: one record for it, none where it can."""
    for rejected in scored.rejects:
        if rejected.solution_index is None:
            return [rejected]
    needed = needed_solutions(config)
    if len(scored.usable) >= needed:
        return uniform(problem, scored, config)
    count = len(problem.solutions)
    detail = f"{len(scored.usable)} of {count} solutions are left, {needed} are needed."
    return [problem.rejected("select", Reason.TOO_FEW_SOLUTIONS, detail)]


def uniform(problem: Problem, scored: Scored, config: CurationConfig) -> list[Rejected]:
    """Why a problem does not admit enough strategies: one record, none where it does."""
    needed = config.filters.min_strategies
    num_strategies = len(set(scored.labels(problem)) - {None})
    if num_strategies >= needed:
        return []
    detail = f"Its usable solutions show {num_strategies} known strategies, {needed} are needed."
    return [problem.rejected("select", Reason.TOO_FEW_STRATEGIES, detail)]


def check_answers(problem: Problem, config: CurationConfig, models: Models) -> AnswerCheck:
    """What is known about a problem's final answers."""
    filters = config.filters
    return models.answers.check(
        problem, filters.correct_column, filters.answer_column, filters.answer_pattern
    )


async def _classified(
    problem: Problem, steps: Sequence[Sequence[str]], models: Models
) -> Judgement[bool]:
    """Whether a judge calls the problem diverse, and why it is left out otherwise."""
    if len(steps) < 2:
        return Judgement(False)  # one solution is one method; there is nothing to ask
    judgement = await models.required_judges().problems.judge(problem.problem, steps)
    if judgement.value is None:
        reason = judgement.reason or Reason.NO_VERDICT
        return Judgement(None, reason, f"no verdict on the problem: {judgement.detail}")
    if not judgement.value:
        detail = "the judge finds one method in all of its solutions"
        return Judgement(False, Reason.UNIFORM, detail)
    return judgement


def _matrices(
    problem: Problem,
    steps: Sequence[Sequence[str]],
    usable: Sequence[int],
    config: CurationConfig,
    models: Models,
) -> dict[str, npt.NDArray[np.float64]]:
    """The distances that the options call for, by the names that the options use."""
    distances = distance_matrices(
        config.metrics.values(),
        problem.problem,
        [problem.solutions[index] for index in usable],
        [steps[index] for index in usable],
        models.embedder,
        config.seed,
        problem.extra,
    )
    matrices = {name: np.full((len(steps), len(steps)), np.nan) for name in config.metrics}
    for name, matrix in matrices.items():
        matrix[np.ix_(usable, usable)] = distances[config.metrics[name]].round(DIGITS)
    return matrices


def score_of(matrix: npt.ArrayLike | None) -> float | None:
    """Eq. 3 on a matrix of distances."""
    score = None if matrix is None else problem_score(matrix)
    return None if score is None else round(score, DIGITS)


def options_fingerprint(config: CurationConfig) -> str:
    """A hash of the options that decide what is found out about a problem."""
    parts = {name: value for name, value in config.as_dict().items() if name not in BESIDE}
    parts["num_samples"] = config.num_samples is not None  # all are ordered, whatever it is
    if config.filters.decisions is not None:
        # The marks themselves too: a file's name says nothing.
        parts["marks"] = sorted(map(list, read_decisions(config.filters.decisions).items()))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def scoring_fingerprint(config: CurationConfig, models: Models) -> str:
    """A hash of all that decides a problem's scores: options, and the models behind them."""
    parts = [options_fingerprint(config), models.embedder.name, models.count_tokens.name]
    parts.append(f"actions/{ACTIONS_VERSION}")
    if config.reads_steps:
        parts.append(models.summarizer.fingerprint)
    if models.judges is not None:
        parts += [getattr(models.judges, kind).fingerprint for kind in JUDGES]
    if config.asks_groups:
        parts.append(models.required_reader().fingerprint)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def solution_order(
    problem: Problem, scored: Scored, config: CurationConfig
) -> tuple[list[int], list[float]]:
    """In which order a budget takes a problem's solutions, and what each adds."""
    matrix: npt.ArrayLike = scored.chosen_by
    if config.solutions == GROUPS:
        matrix = group_distances(scored.strategies, matrix)
    return spending_order(matrix, _kept_by_hand(problem, config))


def _kept_by_hand(problem: Problem, config: CurationConfig) -> list[int]:
    decisions = config.filters.decisions
    return [] if decisions is None else decided(decisions, problem, KEEP)


async def choose(
    problem: Problem,
    scored: Scored,
    config: CurationConfig,
    models: Models,
    num_solutions: int | None = None,
) -> Judgement[tuple[int, ...]]:
    """Choose among a problem's solutions: their indices in order of choice, or why a judge's
    answer cannot be used.

    `num_solutions` is the problem's share of a budget; without a budget the options say how many.
    """
    if config.num_samples is not None:
        return Judgement(tuple(solution_order(problem, scored, config)[0][:num_solutions]))
    usable = scored.usable
    if config.solutions == "all":
        return Judgement(tuple(usable[: config.num_solutions]))
    if config.solutions == "llm":
        judgement = await models.required_judges().solutions.select(
            problem.problem, [scored.steps[index] for index in usable], config.num_solutions
        )
        positions = judgement.value
        return replace(judgement, value=positions and tuple(usable[at] for at in positions))
    at_random = config.solutions == "random"
    matrix: npt.ArrayLike = scored.chosen_by
    if at_random:  # it needs to know only which solutions are usable
        matrix = np.diag([np.nan if reason else 0.0 for reason in scored.drop_reasons])
    # A seed of its own for every problem, whatever its position: random picks must not be the
    # same indices everywhere.
    digest = hashlib.sha256(f"{config.seed}:{problem.key}".encode()).digest()
    indices = select_solutions(
        matrix,
        config.num_solutions,
        "random" if at_random else config.selection,
        seed=int.from_bytes(digest[:8], "big"),
        quality=quality_of(problem, config.quality_column),
        quality_weight=config.quality_weight,
        groups=scored.strategies if config.solutions == GROUPS else None,
        first=_kept_by_hand(problem, config),
    )
    return Judgement(tuple(indices))


class Column(NamedTuple):
    """A column: where its values come from, and their Arrow type."""

    field: str  # of `Scored`; "" for the choice itself
    arrow: str = ""  # the innermost type; "" if it is inferred from the values
    depth: int = 0  # of lists around it
    applies: Callable[[CurationConfig], bool] = lambda _: True


COLUMNS: Mapping[str, Column] = {
    "steps": Column("steps", "string", 2),
    "rpd_matrix": Column("matrix", "float64", 2),
    "rpd_score": Column("score", "float64"),
    "selected": Column("", "int64", 1),
    "drop_reasons": Column("drop_reasons", "string", 1),
    "num_tokens": Column("num_tokens", "int64", 1),
    "diverse": Column("diverse", applies=lambda config: config.problems == "llm"),
    "problem_score": Column(
        "problem_score", applies=lambda config: config.problem_distance not in (None, "rpd")
    ),
    "distance_matrix": Column(
        "distances", applies=lambda config: config.solution_distance not in (None, "rpd")
    ),
    "num_strategies": Column("num_strategies", applies=lambda config: config.problems == GROUPS),
    "groups_auroc": Column(
        "groups_auroc", "float64", applies=lambda config: config.problems == GROUPS
    ),
    "strategies": Column("strategies", applies=lambda config: config.asks_groups),
    "strategy_names": Column("strategy_names", applies=lambda config: config.asks_groups),
}


def column_names(config: CurationConfig) -> list[str]:
    """The columns that these options call for."""
    return [name for name, column in COLUMNS.items() if column.applies(config)]


def row_columns(scored: Scored, selected: Sequence[int], config: CurationConfig) -> dict[str, Any]:
    """The values of a row in them, given its chosen solutions."""
    return {
        name: getattr(scored, COLUMNS[name].field) if COLUMNS[name].field else list(selected)
        for name in column_names(config)
    }
