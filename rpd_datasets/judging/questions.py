"""What `rpd judge` asks about problems with their steps, and what the answers come to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from rpd_datasets.judging.judges import Judgement, PairJudge, ProblemJudge, PromptedModel
from rpd_datasets.judging.labels import Labels, agreed, agreement
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError
from rpd_metric.reasons import Reason
from rpd_metric.steps.protocol import Summarizer, summaries_of

# A request, what labels say of it (`None`: nothing), and which part it is about.
Question = tuple[Awaitable[Judgement[bool]], bool | None, dict[str, Any]]


class JudgeVerdict(NamedTuple):
    """What a judge said of a problem or of a pair in it, and what labels say."""

    problem: Problem
    judgement: Judgement[bool]
    known: bool | None
    part: dict[str, Any]

    def as_row(self, task: Task) -> dict[str, Any]:
        """For people and programs: which problem or part, and what was said."""
        about = {"problem": self.problem.problem, "where": self.problem.where, **self.part}
        return {**about, task.yes: self.judgement.value, "reason": self.judgement.reason}


@dataclass
class JudgedProblem:
    """A problem, the steps of its usable solutions by index, and its labels where they are."""

    problem: Problem
    steps: dict[int, list[str]] | None  # `None` until somebody makes them
    labels: Labels | None

    @classmethod
    def of(cls, problem: Problem, *, labelled: bool) -> JudgedProblem:
        """A problem that was read, with the steps in its columns and, if `labelled`, the labels."""
        row = {**problem.extra, "solutions": problem.solutions}
        labels = Labels.of(row, problem.where) if labelled else None
        if labelled and labels is None:
            raise InputError(
                f"{problem.where} has no labels: --labels reads strategy_a and strategy_b, or "
                "strategies"
            )
        given = problem.extra.get("steps")
        return cls(problem, None if given is None else _usable(given, problem), labels)

    def pairs(self) -> list[tuple[int, int, bool | None]]:
        """The pairs of solutions with steps that a judge should see, with what the labels say.

        Labelled pairs are those that every pass agrees on. Without labels they are those among the
        `selected` solutions of a curated row, or among all of them.
        """
        steps, pairs = self.steps or {}, list[tuple[int, int, bool | None]]()
        if self.labels is not None:
            pairs += self.labels.pairs()
        else:
            chosen = self.problem.extra.get("selected")
            among = sorted(steps if chosen is None else chosen)
            pairs += [(i, j, None) for i, j in combinations(among, 2)]
        return [pair for pair in pairs if set(pair[:2]) <= steps.keys()]


def _usable(given: object, problem: Problem) -> dict[int, list[str]]:
    if not isinstance(given, list) or len(given) != len(problem.solutions):
        raise InputError(f"{problem.where}: the column steps must hold a list for each solution")
    usable = {}
    for index, steps in enumerate(given):
        if not all(isinstance(step, str) for step in steps or ()):
            raise InputError(f"{problem.where}: the steps of solution {index} are not all texts")
        if nonempty := [step for step in steps or () if step.strip()]:
            usable[index] = nonempty
    return usable


def _about_problem(judge: ProblemJudge, case: JudgedProblem) -> Iterator[Question]:
    steps = case.steps or {}
    passes = case.labels.passes if case.labels else ()
    several = agreed(len({labels[index] for index in steps}) > 1 for labels in passes)
    if len(steps) > 1:
        yield judge.judge(case.problem.problem, list(steps.values())), several, {}


def _about_pairs(judge: PairJudge, case: JudgedProblem) -> Iterator[Question]:
    steps, solutions = case.steps or {}, case.problem.solutions
    for i, j, label in case.pairs():
        texts = (solutions[i], solutions[j])
        request = judge.rate(case.problem.problem, (steps[i], steps[j]), texts)
        yield request, label, {"pair": [i, j]}


@dataclass(frozen=True)
class Task:
    """What is judged: by whom, what yes and no are called, and which of them the share is of."""

    judge: type[PromptedModel]
    questions: Callable[[Any, JudgedProblem], Iterator[Question]]
    yes: str
    no: str
    shared: str


TASKS = {
    "problems": Task(ProblemJudge, _about_problem, "diverse", "uniform", "uniform"),
    "pairs": Task(PairJudge, _about_pairs, "different", "same", "different"),
}


async def judge_all(
    cases: Sequence[JudgedProblem],
    task: Task,
    judge: PromptedModel,
    summarizer: Summarizer | None,
    on_problem: Callable[[], None],
) -> list[JudgeVerdict]:
    """Ask about all problems at once; steps that are missing are made first."""

    async def ask(case: JudgedProblem) -> list[JudgeVerdict]:
        problem = case.problem
        if case.steps is None and summarizer is not None:
            summaries = await summaries_of(summarizer, problem.problem, problem.solutions)
            steps = {i: list(summary.steps) for i, summary in enumerate(summaries) if summary.ok}
            case = replace(case, steps=steps)
        questions = list(task.questions(judge, case))
        judgements = await asyncio.gather(*(request for request, _, _ in questions))
        on_problem()
        answered = zip(judgements, questions, strict=True)
        return [
            JudgeVerdict(problem, judgement, known, part)
            for judgement, (_, known, part) in answered
        ]

    # How many requests are in flight is the flow's business.
    return [verdict for verdicts in await asyncio.gather(*map(ask, cases)) for verdict in verdicts]


def judged(task: Task, verdicts: Sequence[JudgeVerdict]) -> dict[str, Any]:
    """What the verdicts of a task come to."""
    by_verdict = Counter(verdict.judgement.value for verdict in verdicts)
    reasons = Counter(verdict.judgement.reason for verdict in verdicts if verdict.judgement.reason)
    counts = {
        task.yes: by_verdict[True],
        task.no: by_verdict[False],
        "no_verdict": by_verdict[None],
    }
    known = [
        (verdict.known, verdict.judgement.value)
        for verdict in verdicts
        if verdict.known is not None
    ]
    decided = by_verdict[True] + by_verdict[False]
    result: dict[str, Any] = {
        "counts": counts,
        "no_verdict": dict(reasons.most_common()),
        f"{task.shared}_share": counts[task.shared] / decided if decided else None,
    }
    if task.judge is PairJudge:
        both = decided + reasons[Reason.CONTRADICTION]
        result["order_agreement"] = decided / both if both else None
    if known:
        result["agreement"] = agreement(*zip(*known, strict=True))
        result["agreement"]["disputed_labels"] = len(verdicts) - len(known)
    return result
