"""Rows that `ds.map(rpd_curate)` made, taken as scored: nothing is summarised a second time.

Rows do not carry the configuration that made them, so it is named again, and rows that cannot
have come from it are refused. How far that can be told: filters, scores and choices are computed
again for every row, steps and distances for a few. Rows for which a judge was asked do not say
why a solution went, so they are not taken; the store has the judge's replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.run import Score
from rpd_datasets.curation.score import Models, Scored, choice_columns, choose, score_problem
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.problem import Problem
from rpd_metric.arrays import MatrixRows, nan_for_none
from rpd_metric.distance.core import problem_score
from rpd_metric.errors import InputError
from rpd_metric.steps.protocol import Summary

MADE = ("steps", "rpd_matrix", "rpd_score", "selected", "drop_reasons")
# Half precision and other batches move a distance by less, another encoder or direction by more.
TOLERANCE = 0.01


def made_columns(config: CurationConfig) -> tuple[str, ...]:
    """The columns that `ds.map(rpd_curate)` adds with these options."""
    return (*MADE, *choice_columns(None, 0, config))


def scores_of(rows: Any, config: CurationConfig, checked: int) -> Score:
    """What takes the place of scoring: the look into the row that a problem came from.

    Args:
        rows (`datasets.Dataset`): With the columns of [`made_columns`].
        config ([`CurationConfig`]): What they were made with.
        checked (`int`): For so many of them steps and distances are computed again.

    Raises:
        InputError: If a column is missing or a judge was asked. What comes back raises it at a
            row that this configuration does not make.
    """
    if config.asks_judge:
        raise InputError(
            "these rows do not say why a judge left something out: make the folder with "
            "curate_dataset(ds, output, config); the store has every reply, none is paid for twice"
        )
    missing = [name for name in made_columns(config) if name not in rows.column_names]
    if missing:
        raise InputError(
            f"the rows have no column {missing[0]!r}, which this configuration makes; run "
            'ds.map(rpd_curate, fn_kwargs={"config": config}) with this very config'
        )
    stored = rows.with_format("arrow")
    left = checked

    async def score(
        problem: Problem,
        config: CurationConfig,
        models: Models,
        encoding: ThreadPoolExecutor | None,
    ) -> Scored:
        nonlocal left
        number = int(problem.where.rpartition(":")[2])
        row: dict[str, Any] = stored[number - 1].to_pylist()[0]
        places = _places(row[config.solutions_column], problem.solutions)
        scored = _scored(row, places, problem, config, models, number)
        picks = (await choose(problem, scored, config, models)).value or ()
        if [places[pick] for pick in picks] != row["selected"]:
            raise _other(number, f"it selected {row['selected']} of its solutions")
        if left > 0 and len(scored.usable) > 1:
            left -= 1
            telling = _telling(models, problem, scored)
            again = await score_problem(problem, config, telling, encoding)
            if again.steps != scored.steps:
                raise _other(number, f"{config.summarizer} gives it other steps")
            for name in ("matrix", "distances"):
                if not _close(getattr(scored, name), getattr(again, name)):
                    raise _other(number, "its distances are others when they are computed again")
        return scored

    return score


def _scored(
    row: dict[str, Any],
    places: Sequence[int],
    problem: Problem,
    config: CurationConfig,
    models: Models,
    number: int,
) -> Scored:
    filtered = filter_problem(problem, config.filters, models.count_tokens)
    reasons = [row["drop_reasons"][place] for place in places]
    rejects = filtered.rejects(problem)
    for index, (reason, known) in enumerate(zip(reasons, filtered.reasons, strict=True)):
        if known != reason and (known or not config.reads_steps):
            said = f"left out for {reason}" if reason else "kept"
            raise _other(number, f"its solution {places[index]} was {said}")
        if reason and not known:
            rejects.append(problem.rejected("steps", reason, "no step could be extracted", index))
    matrix = _taken(row["rpd_matrix"], places)
    score = row["rpd_score"]
    if _score(matrix) != score:
        raise _other(number, f"its rpd_score {score} is not that of its rpd_matrix")
    extra = {name: row[name] for name in choice_columns(None, 0, config)}
    distances = extra.get("distance_matrix")
    return Scored(
        steps=[row["steps"][place] for place in places],
        matrix=matrix,
        score=score,
        drop_reasons=reasons,
        num_tokens=list(filtered.num_tokens),
        rejects=rejects,
        problem_score=score if config.problems == "rpd" else extra.get("problem_score"),
        distances=None if distances is None else _taken(distances, places),
    )


def _places(solutions: Sequence[str | None], usable: Sequence[str]) -> list[int]:
    """Where in a row its usable solutions stand; the others are blank or no text."""
    waiting = iter(enumerate(solutions))
    return [next(place for place, text in waiting if text == one) for one in usable]


def _taken(matrix: MatrixRows, places: Sequence[int]) -> MatrixRows:
    return [[matrix[a][b] for b in places] for a in places]


def _score(matrix: MatrixRows) -> float | None:
    return problem_score(nan_for_none(matrix))


def _close(one: MatrixRows | None, other: MatrixRows | None) -> bool:
    if one is None or other is None:
        return one is other
    a, b = nan_for_none(one), nan_for_none(other)
    return bool(np.allclose(a, b, rtol=0, atol=TOLERANCE, equal_nan=True))


@dataclass
class _Told:
    """Extracts the steps that are known already, by solution."""

    name: str
    fingerprint: str
    steps: dict[str, list[str]]

    async def summarize(self, _: str | None, solutions: Sequence[str]) -> list[Summary]:
        return [
            Summary(tuple(steps), None if steps else "no_steps")
            for steps in (self.steps.get(solution, []) for solution in solutions)
        ]


def _telling(models: Models, problem: Problem, scored: Scored) -> Models:
    """Models that ask no server for steps; without a server, steps are extracted again."""
    summarizer = models.summarizer
    if summarizer.name == "extractive":
        return models
    steps = {problem.solutions[index]: scored.steps[index] for index in scored.usable}
    return replace(models, summarizer=_Told(summarizer.name, summarizer.fingerprint, steps))


def _other(number: int, what: str) -> InputError:
    return InputError(
        f"row {number} was not made by this configuration: {what}. Pass the config that ds.map "
        "had, or start from the bare rows with curate_dataset"
    )
