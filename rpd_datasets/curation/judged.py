"""The filters of a problem, where a chat model takes part in them.

The filters themselves (`filters/pipeline.py`) ask nobody. Here they are run once supposing that the
judge finds no fault, which shows what it must be asked about, and again with what it said. A
solution without a verdict is never taken for a good one: it goes, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.filters.candidates import AnswerCheck, Verdict
from rpd_datasets.filters.completeness import TAIL_TOKENS
from rpd_datasets.filters.pipeline import Filtered, filter_problem
from rpd_datasets.filters.soundness import argument_of
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import text_tail
from rpd_metric.reasons import Reason


async def filtered(
    problem: Problem, config: CurationConfig, models: Models, answers: AnswerCheck
) -> Filtered:
    """The filters, with a judge of endings and of arguments where the options want one."""
    filters, count_tokens = config.filters, models.count_tokens

    def run(unfinished: Verdict | None, unsound: Verdict = _fine, **changes: Any) -> Filtered:
        options = replace(filters, **changes)
        return filter_problem(problem, options, count_tokens, answers, unfinished, unsound)

    unfinished: Verdict | None = None
    if config.completeness == "llm" and filters.require_complete:
        # Which ends would be looked at, supposing that all are fine? The rest need no request.
        if_all_complete = run(_fine)
        if not if_all_complete.kept:
            return if_all_complete
        left = run(None, require_complete=False, drop_duplicates=False, near_duplicate=None)
        texts = {problem.solutions[index]: left.num_tokens[index] for index in left.kept}
        ends = {one: text_tail(one, TAIL_TOKENS, count_tokens, n) for one, n in texts.items()}
        endings = await _each_once(models.required_judges().completeness.judge, ends.values())
        said = f"The solution was not finished: {Reason.INCOMPLETE}."

        def unfinished_by_judge(text: str) -> tuple[str, str] | None:
            return _why(endings[ends[text]], "completeness", Reason.INCOMPLETE, said)

        unfinished = unfinished_by_judge

    found = run(unfinished)
    if filters.soundness == "llm" and found.kept:
        judge = models.required_judges().soundness
        arguments = await _each_once(
            lambda text: judge.judge(problem.problem, argument_of(text)),
            (problem.solutions[index] for index in found.kept),
        )
        names = {True: "sound", False: "unsound", None: "no_verdict"}
        verdicts = tuple(
            names[arguments[text].value] if index in found.kept else ""
            for index, text in enumerate(problem.solutions)
        )

        def unsound(text: str) -> tuple[str, str] | None:
            verdict = arguments[text]
            said = f"The judge: {verdict.detail or 'its argument has failed.'}"
            return _why(verdict, "argument", Reason.UNSOUND, said)

        found = replace(run(unfinished, unsound), soundness=verdicts)
    return found


def _fine(_: str) -> None:
    """Every solution is."""


def _why(verdict: Judgement[bool], about: str, reason: Reason, said: str) -> tuple[str, str] | None:
    """Why a solution goes by a verdict; one without a verdict goes, too."""
    if verdict.value is None:
        return verdict.reason or Reason.NO_VERDICT, f"no verdict on its {about}: {verdict.detail}"
    return None if verdict.value else (reason, said)


async def _each_once(
    judge: Callable[[str], Awaitable[Judgement[bool]]], texts: Iterable[str]
) -> dict[str, Judgement[bool]]:
    """What a judge says of each text; equal ones are asked about once."""
    asked = list(dict.fromkeys(texts))
    return dict(zip(asked, await asyncio.gather(*map(judge, asked)), strict=True))
