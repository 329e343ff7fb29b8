"""Rows that `ds.map(rpd_curate)` made, taken as scored: nothing is summarised a second time.

Each row carries the fingerprint of the configuration and the models that made it; rows of another
one are refused. Rows for which a judge was asked do not say why a solution went, so they are not
taken; the store has the judge's replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.mapping import FINGERPRINT, MADE, curation_fingerprint
from rpd_datasets.curation.run_options import Score
from rpd_datasets.curation.scored import Scored
from rpd_datasets.curation.scoring import Models, check_answers, choice_columns
from rpd_datasets.filters.pipeline import filter_problem
from rpd_datasets.filters.soundness import signs_of_floundering
from rpd_datasets.problem import Problem
from rpd_metric.arrays import MatrixRows
from rpd_metric.errors import InputError


def made_columns(config: CurationConfig) -> tuple[str, ...]:
    """The columns that `ds.map(rpd_curate)` adds with these options."""
    return (*MADE, *choice_columns(None, 0, config))


def scores_of(rows: Any, config: CurationConfig) -> Score:
    """What takes the place of scoring: the look into the row that a problem came from.

    Args:
        rows (`datasets.Dataset`): With the columns of [`made_columns`].
        config ([`CurationConfig`]): What they were made with.

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

    async def score(
        problem: Problem,
        config: CurationConfig,
        models: Models,
        encoding: ThreadPoolExecutor | None,  # noqa: ARG001
    ) -> Scored:
        number = int(problem.where.rpartition(":")[2])
        row: dict[str, Any] = stored[number - 1].to_pylist()[0]
        if row[FINGERPRINT] != curation_fingerprint(config, models):
            raise InputError(
                f"row {number} was not made by this configuration. Pass the config that ds.map "
                "had, or start from the bare rows with curate_dataset"
            )
        places = _places(row[config.solutions_column], problem.solutions)
        return _scored(row, places, problem, config, models)

    return score


def _scored(
    row: dict[str, Any],
    places: Sequence[int],
    problem: Problem,
    config: CurationConfig,
    models: Models,
) -> Scored:
    answers = check_answers(problem, config, models)
    filtered = filter_problem(problem, config.filters, models.count_tokens, answers=answers)
    reasons = [row["drop_reasons"][place] for place in places]
    rejects = filtered.rejects(problem)
    for index, (reason, known) in enumerate(zip(reasons, filtered.reasons, strict=True)):
        if reason and not known:
            rejects.append(problem.rejected("steps", reason, "no step could be extracted", index))
    matrix = _taken(row["rpd_matrix"], places)
    score = row["rpd_score"]
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
        marks=list(answers.marks),
        marked_by=answers.by,
        agrees=list(answers.agrees),
        floundering=[bool(signs_of_floundering(text)) for text in problem.solutions],
    )


def _places(solutions: Sequence[str | None], usable: Sequence[str]) -> list[int]:
    """Where in a row its usable solutions stand; the others are blank or no text."""
    waiting = iter(enumerate(solutions))
    return [next(place for place, text in waiting if text == one) for one in usable]


def _taken(matrix: MatrixRows, places: Sequence[int]) -> MatrixRows:
    return [[matrix[a][b] for b in places] for a in places]
