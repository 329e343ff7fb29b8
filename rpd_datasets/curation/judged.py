"""The filters of a problem, where a chat model takes part in them.

The filters themselves (`filters/pipeline.py`) ask nobody. Here they are run once supposing that the
judge finds no fault, which shows what it must be asked about, and again with what it said. A
solution without a verdict is never taken for a good one: it goes, with the reason.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.filters.candidates import AnswerCheck, Unsound
from rpd_datasets.filters.completeness import Completeness, is_complete
from rpd_datasets.filters.pipeline import Filtered, filter_problem
from rpd_datasets.filters.soundness import argument_of
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem


async def filtered(
    problem: Problem,
    config: CurationConfig,
    models: Models,
    answers: AnswerCheck,
    *,
    unread: bool = False,
) -> Filtered:
    """The filters, with a judge of endings and of arguments where the options want one.

    Args:
        problem ([`~rpd_datasets.Problem`]): The problem.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.
        answers ([`AnswerCheck`]): What is known about its final answers.
        unread (`bool`): Whether a solution stays about which the judge gave no verdict.
    """

    def run(finished: Completeness, judged: Unsound | None) -> Filtered:
        return filter_problem(
            problem, config.filters, models.count_tokens, finished, answers, judged
        )

    finished: Completeness = is_complete
    silent: dict[str, str] = {}  # by solution, why there is no verdict on its end
    if config.completeness == "llm" and config.filters.require_complete:
        tails: dict[str, None] = {}

        def remember(_: str, tail: str) -> tuple[bool, None]:
            tails[tail] = None
            return True, None

        # Which ends would be looked at, supposing that all are fine? The rest need no request.
        if_all_complete = run(remember, _sound)
        if not if_all_complete.kept:
            return if_all_complete
        verdicts = await _endings(list(tails), models)

        def look_up(solution: str, tail: str) -> tuple[bool, str | None]:
            verdict = verdicts[tail]
            if verdict.value is None:
                silent[solution] = f"no verdict on its completeness: {verdict.detail}"
                return unread, verdict.reason
            return verdict.value, None if verdict.value else "incomplete"

        finished = look_up
    found = run(finished, _sound)
    if config.filters.soundness == "llm" and found.kept:
        arguments = await _arguments(problem, found, models)
        found = replace(
            run(finished, lambda solution: _why_unsound(arguments[solution], unread)),
            soundness=_said(problem, arguments, found.kept),
        )
    details = list(found.details)
    for index, solution in enumerate(problem.solutions):
        if solution in silent and details[index]:
            details[index] = silent[solution]
    return replace(found, details=tuple(details))


def _sound(_: str) -> None:
    """No solution is unsound."""


async def _endings(tails: list[str], models: Models) -> dict[str, Judgement[bool]]:
    judge = models.required_judges().completeness
    found = await asyncio.gather(*(judge.judge(tail) for tail in tails))
    return dict(zip(tails, found, strict=True))


async def _arguments(
    problem: Problem, found: Filtered, models: Models
) -> dict[str, Judgement[bool]]:
    """What the judge says of each solution that is left; equal ones are asked about once."""
    judge = models.required_judges().soundness
    texts = list(dict.fromkeys(problem.solutions[index] for index in found.kept))
    verdicts = await asyncio.gather(
        *(judge.judge(problem.problem, argument_of(text)) for text in texts)
    )
    return dict(zip(texts, verdicts, strict=True))


def _why_unsound(verdict: Judgement[bool], unread: bool) -> tuple[str, str] | None:
    if verdict.value is None:
        detail = f"no verdict on its argument: {verdict.detail}"
        return None if unread else (verdict.reason or "no_verdict", detail)
    if verdict.value:
        return None
    return "unsound", f"The judge: {verdict.detail or 'its argument has failed.'}"


def _said(
    problem: Problem, arguments: dict[str, Judgement[bool]], asked: tuple[int, ...]
) -> tuple[str, ...]:
    words = {True: "sound", False: "unsound", None: "no_verdict"}
    return tuple(
        words[arguments[text].value] if index in asked else ""
        for index, text in enumerate(problem.solutions)
    )
