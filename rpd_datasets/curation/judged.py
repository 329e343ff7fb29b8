"""The filters of a problem, where a chat model takes part in them.

The filters themselves (`filters/pipeline.py`) ask nobody. Here they are run once supposing that the
judge finds no fault, which shows what it must be asked about, and again with what it said. A
solution without a verdict is never taken for a good one: it goes, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.filters.candidates import AnswerCheck, Completeness, Unsound
from rpd_datasets.filters.completeness import is_complete
from rpd_datasets.filters.pipeline import FilterConfig, Filtered, filter_problem
from rpd_datasets.filters.soundness import argument_of
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import text_tail
from rpd_metric.reasons import Reason


async def filtered(
    problem: Problem, config: CurationConfig, models: Models, answers: AnswerCheck
) -> Filtered:
    """The filters, with a judge of endings and of arguments where the options want one."""
    filters = config.filters

    def run(
        finished: Completeness, judged: Unsound, filters: FilterConfig = config.filters
    ) -> Filtered:
        return filter_problem(problem, filters, models.count_tokens, finished, answers, judged)

    finished: Completeness = is_complete
    silent: dict[str, str] = {}  # by solution, why there is no verdict on its end
    if config.completeness == "llm" and filters.require_complete:
        # Which ends would be looked at, supposing that all are fine? The rest need no request.
        if_all_complete = run(_complete, _sound)
        if not if_all_complete.kept:
            return if_all_complete
        before = replace(
            filters, require_complete=False, drop_duplicates=False, near_duplicate=None
        )
        left, count = run(_complete, _sound, before), models.count_tokens
        tails = {
            problem.solutions[index]: text_tail(
                problem.solutions[index], filters.completeness_tokens, count, left.num_tokens[index]
            )
            for index in left.kept
        }
        endings = await _each_once(models.required_judges().completeness.judge, tails.values())

        def look_up(solution: str, _: str) -> tuple[bool, str | None]:
            verdict = endings[tails[solution]]
            if verdict.value is None:
                silent[solution] = f"no verdict on its completeness: {verdict.detail}"
                return False, verdict.reason
            return verdict.value, None if verdict.value else Reason.INCOMPLETE

        finished = look_up
    found = run(finished, _sound)
    if filters.soundness == "llm" and found.kept:
        judge = models.required_judges().soundness
        arguments = await _each_once(
            lambda text: judge.judge(problem.problem, argument_of(text)),
            (problem.solutions[index] for index in found.kept),
        )
        names = {True: "sound", False: "unsound", None: "no_verdict"}
        said = tuple(
            names[arguments[text].value] if index in found.kept else ""
            for index, text in enumerate(problem.solutions)
        )
        found = run(finished, lambda solution: _why_unsound(arguments[solution]))
        found = replace(found, soundness=said)
    details = tuple(
        silent.get(solution, detail) if detail else detail
        for solution, detail in zip(problem.solutions, found.details, strict=True)
    )
    return replace(found, details=details)


def _complete(_solution: str, _tail: str) -> tuple[bool, None]:
    return True, None


def _sound(_: str) -> None:
    """No solution is unsound."""


async def _each_once(
    judge: Callable[[str], Awaitable[Judgement[bool]]], texts: Iterable[str]
) -> dict[str, Judgement[bool]]:
    """What a judge says of each text; equal ones are asked about once."""
    asked = list(dict.fromkeys(texts))
    return dict(zip(asked, await asyncio.gather(*map(judge, asked)), strict=True))


def _why_unsound(verdict: Judgement[bool]) -> tuple[str, str] | None:
    if verdict.value is None:
        detail = f"no verdict on its argument: {verdict.detail}"
        return verdict.reason or Reason.NO_VERDICT, detail
    if verdict.value:
        return None
    return Reason.UNSOUND, f"The judge: {verdict.detail or 'its argument has failed.'}"
