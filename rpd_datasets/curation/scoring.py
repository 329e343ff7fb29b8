"""Curation of one problem: filters, steps, distances, verdicts, and the chosen solutions.

`score_problem` is what the command line shares with `mapping.py`, the function for
`datasets.Dataset.map`. Choosing among problems is `select.py`; reading, resuming and writing a
whole dataset is `run.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.allocation import spending_order
from rpd_datasets.curation.judged import filtered
from rpd_datasets.curation.models import Models, configured_summarizer, default_store, load_models
from rpd_datasets.curation.scored import Scored
from rpd_datasets.filters.candidates import AnswerCheck
from rpd_datasets.filters.decisions import choose_around, kept_by_hand, read_decisions
from rpd_datasets.filters.soundness import signs_of_floundering
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_datasets.select import select_solutions
from rpd_datasets.sft import sft_messages, to_sft
from rpd_metric.arrays import MatrixRows, nan_for_none, none_for_nan
from rpd_metric.distance.core import problem_score
from rpd_metric.errors import InputError
from rpd_metric.metrics.matrices import distance_matrices

# Of distances and scores, where they are written and where they are compared. Machines whose
# products are rounded otherwise differ by some 1e-7: what is nearer than 1e-5 counts as equal.
DIGITS = 5

__all__ = [
    "CurationConfig",
    "Models",
    "Scored",
    "check_answers",
    "choice_columns",
    "choose",
    "configured_summarizer",
    "default_store",
    "load_models",
    "score_problem",
    "scoring_fingerprint",
    "sft_messages",
    "to_sft",
]


async def score_problem(
    problem: Problem,
    config: CurationConfig,
    models: Models,
    encoding: ThreadPoolExecutor | None = None,
) -> Scored:
    """Filter a problem's solutions, extract their steps, and compare them.

    A solution that a filter refuses or that cannot be summarised is left out of scoring with
    its reason; it never counts as far away.

    Args:
        problem ([`~rpd_datasets.Problem`]): The problem.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.
        encoding (`ThreadPoolExecutor`, *optional*): Where embeddings are made.

    Returns:
        [`Scored`]: Lists as long as the problem's solutions.
    """
    config = config.resolved()
    # In a thread too: an answer that takes computer algebra must not hold other problems up.
    answers = await asyncio.get_running_loop().run_in_executor(
        encoding, check_answers, problem, config, models
    )
    found = await filtered(problem, config, models, answers)
    count = len(problem.solutions)
    reasons = list(found.reasons)
    rejects = list(found.rejects(problem))
    steps: list[list[str]] = [[] for _ in range(count)]
    kept = list(found.kept)
    asked_again = repaired = 0
    if kept and config.reads_steps:
        summaries = await models.summarizer.summarize(
            problem.problem, [problem.solutions[index] for index in kept]
        )
        for index, summary in zip(kept, summaries, strict=True):
            asked_again += summary.asked_again
            repaired += summary.asked_again and summary.ok
            if summary.ok:
                steps[index] = list(summary.steps)
            else:
                reason = summary.reason or "no_steps"
                reasons[index] = reason
                detail = summary.detail or "no step could be extracted"
                rejects.append(problem.rejected("steps", reason, detail, index))
    usable = [index for index, reason in enumerate(reasons) if not reason]
    # Encoding in a thread lets other problems' requests go on meanwhile.
    matrices = await asyncio.get_running_loop().run_in_executor(
        encoding, _matrices, problem, steps, usable, config, models
    )
    diverse = None
    if config.problems == "llm":
        verdict = await _classified(problem, [steps[index] for index in usable], models)
        diverse = verdict.value
        if diverse is None:
            detail = f"no verdict on the problem: {verdict.detail}"
            rejects.append(problem.rejected("select", verdict.reason or "no_verdict", detail))
        elif not diverse and len(usable) > 1:
            detail = "the judge finds one method in all of its solutions"
            rejects.append(problem.rejected("select", "uniform", detail))
    unknown: MatrixRows = [[None] * count for _ in range(count)]
    rpd = matrices.get("rpd")
    by = {name: matrices.get(name) for name in (config.problems, config.solutions)}
    ranking, choosing = by[config.problems], by[config.solutions]
    return Scored(
        steps=steps,
        matrix=unknown if rpd is None else none_for_nan(rpd),
        score=_score(rpd),
        drop_reasons=reasons,
        num_tokens=list(found.num_tokens),
        rejects=rejects,
        problem_score=_score(ranking),
        distances=None if choosing is None or config.solutions == "rpd" else none_for_nan(choosing),
        diverse=diverse,
        asked_again=asked_again,
        repaired=repaired,
        marks=list(answers.marks),
        marked_by=answers.by,
        agrees=list(answers.agrees),
        floundering=[bool(signs_of_floundering(text)) for text in problem.solutions],
        soundness=list(found.soundness),
    )


def check_answers(problem: Problem, config: CurationConfig, models: Models) -> AnswerCheck:
    """What is known about a problem's final answers."""
    filters = config.filters
    return models.answers.check(problem, filters.correct_column, filters.answer_column)


async def _classified(
    problem: Problem, steps: Sequence[Sequence[str]], models: Models
) -> Judgement[bool]:
    if len(steps) < 2:
        return Judgement(False)  # one solution is one method; there is nothing to ask
    return await models.required_judges().problems.judge(problem.problem, steps)


def _matrices(
    problem: Problem,
    steps: Sequence[Sequence[str]],
    usable: Sequence[int],
    config: CurationConfig,
    models: Models,
) -> dict[str, npt.NDArray[np.float64]]:
    """The distances that the options call for, by the names that the options use."""
    found = distance_matrices(
        [config.metric(name) for name in config.metrics],
        problem.problem,
        [problem.solutions[index] for index in usable],
        [steps[index] for index in usable],
        models.embedder,
        config.seed,
    )
    matrices = {}
    for name in config.metrics:
        matrices[name] = np.full((len(steps), len(steps)), np.nan)
        matrices[name][np.ix_(usable, usable)] = found[config.metric(name)].round(DIGITS)
    return matrices


def _score(matrix: npt.NDArray[np.float64] | None) -> float | None:
    score = None if matrix is None else problem_score(matrix)
    return None if score is None else round(score, DIGITS)


def scoring_fingerprint(config: CurationConfig, models: Models) -> str:
    """A hash of all that decides a problem's scores, and of nothing else."""
    judges = models.judges
    parts = {
        "summarizer": models.summarizer.fingerprint if config.reads_steps else None,
        "embedder": [models.embedder.name, config.dtype, config.truncate_dim],
        "ties": config.ties,
        # Which distances, and which of them ranks: a choice without one needs no other scores.
        "problems": config.problems if config.problems in (*METRICS, "llm") else None,
        "solutions": config.solutions if config.solutions in METRICS else None,
        "filters": asdict(config.filters) | _decided(config),
        "completeness": judges.completeness.fingerprint
        if judges and config.completeness == "llm"
        else None,
        "classification": judges.problems.fingerprint
        if judges and config.problems == "llm"
        else None,
        "tokenizer": models.count_tokens.name,
    }
    if judges and config.filters.soundness == "llm":
        parts["soundness"] = judges.soundness.fingerprint
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _decided(config: CurationConfig) -> dict[str, Any]:
    """The marks themselves in the place of their file's name, which says nothing."""
    if config.filters.decisions is None:
        return {}
    return {"decisions": sorted(map(list, read_decisions(config.filters.decisions).items()))}


def solution_order(
    problem: Problem, scored: Scored, config: CurationConfig
) -> tuple[list[int], list[float]]:
    """In which order a budget takes a problem's solutions, and what each adds.

    Args:
        problem ([`~rpd_datasets.Problem`]): The problem.
        scored ([`Scored`]): What is known about it.
        config ([`CurationConfig`]): The options, with `num_samples`.

    Returns:
        `tuple[list[int], list[float]]`: See [`~rpd_datasets.curation.allocation.spending_order`]; what a person
            kept comes first.
    """
    kept: list[int] = []
    if config.filters.decisions is not None:
        kept = kept_by_hand(problem, config.filters.decisions, scored.usable)
    matrix = scored.matrix if scored.distances is None else scored.distances
    return spending_order(nan_for_none(matrix), kept)


async def choose(
    problem: Problem,
    scored: Scored,
    config: CurationConfig,
    models: Models,
    num_solutions: int | None = None,
) -> Judgement[tuple[int, ...]]:
    """Choose among a problem's solutions.

    Args:
        problem ([`~rpd_datasets.Problem`]): The problem.
        scored ([`Scored`]): What is known about it.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.
        num_solutions (`int`, *optional*): The problem's share of a budget; all if unset. Without
            a budget the options say how many.

    Returns:
        [`Judgement`]: Indices into its solutions, in order of choice; with a
            reason where a judge chooses and gave no usable answer.
    """
    if config.num_samples is not None:
        return Judgement(tuple(solution_order(problem, scored, config)[0][:num_solutions]))
    usable = scored.usable
    if config.solutions == "all":
        return Judgement(tuple(usable[: config.num_solutions]))
    if config.solutions == "llm":
        verdict = await models.required_judges().solutions.select(
            problem.problem, [scored.steps[index] for index in usable], config.num_solutions
        )
        if verdict.value is None:
            return verdict
        return Judgement(tuple(usable[position] for position in verdict.value))
    # A seed of its own for every problem, whatever its position: random picks must not be the
    # same indices everywhere.
    digest = hashlib.sha256(f"{config.seed}:{problem.key}".encode()).digest()
    if config.solutions == "random":
        matrix = np.zeros((len(usable), len(usable)))
    else:
        distances = scored.matrix if scored.distances is None else scored.distances
        matrix = np.array(distances, dtype=np.float64)[np.ix_(usable, usable)]
    picks = select_solutions(
        matrix,
        config.num_solutions,
        "random" if config.solutions == "random" else config.selection,
        seed=int.from_bytes(digest[:8], "big"),
        quality=quality_of(problem, config, usable),
        quality_weight=config.quality_weight,
    )
    if config.filters.decisions is not None:
        picks = choose_around(problem, config.filters.decisions, usable, picks, matrix)
    return Judgement(tuple(usable[pick] for pick in picks))


def quality_of(
    problem: Problem, config: CurationConfig, usable: Sequence[int]
) -> list[float | None] | None:
    """The usable solutions' scores, where the options name a column of them.

    Raises:
        InputError: The problem has no such column, or no score per solution in it.
    """
    if config.quality_column is None:
        return None
    scores = problem.extra.get(config.quality_column)
    if isinstance(scores, (int, float)):
        scores = [scores] * len(problem.solutions)  # flat rows whose scores never differ
    if not isinstance(scores, (list, tuple)) or len(scores) != len(problem.solutions):
        raise InputError(
            f"the column {config.quality_column!r} of {problem.where or 'the row'} does not hold a "
            f"score for each solution; its columns are: {', '.join(problem.extra) or 'none'}. Name "
            "another with --quality-column (quality_column)"
        )
    return [
        float(scores[index])
        if isinstance(scores[index], (int, float)) and not isinstance(scores[index], bool)
        else None
        for index in usable
    ]


def choice_columns(scored: Scored | None, k: int, config: CurationConfig) -> dict[str, Any]:
    """The columns beside the RPD ones that the options call for.

    Args:
        scored ([`Scored`], *optional*): What is known about the problem; `None` for a row of
            which nothing can be used.
        k (`int`): How many solutions it has.
        config ([`CurationConfig`]): The options.

    Returns:
        `dict`: `problem_score` where a distance other than RPD ranks problems, `diverse` where a
            judge classifies them, `distance_matrix` where a distance other than RPD chooses
            solutions.
    """
    columns: dict[str, Any] = {}
    if config.problems == "llm":
        columns["diverse"] = scored.diverse if scored else None
    elif config.problems in METRICS and config.problems != "rpd":
        columns["problem_score"] = scored.problem_score if scored else None
    if config.solutions in METRICS and config.solutions != "rpd":
        known = scored.distances if scored else None
        columns["distance_matrix"] = known or [[None] * k for _ in range(k)]
    return columns
