"""`rpd_curate`: the function for `datasets.Dataset.map`, wherever a program runs.

It is a plain function: `datasets` runs coroutines on the current event loop, which fails where one
is running already, as in every notebook. The work is done on a loop of its own in a thread.
"""

import asyncio
import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rpd_datasets.config import CurationConfig, config_or_default
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import (
    MAX_IN_FLIGHT,
    UNSCORED,
    choose,
    column_names,
    options_fingerprint,
    row_columns,
    score_problem,
)
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.reasons import Reason

FINGERPRINT = "rpd_fingerprint"


class _Worker:
    """What a process keeps from one row to the next."""

    def __init__(self, config: CurationConfig) -> None:
        self.config = config
        self.models = load_models(config)
        self.fingerprint = options_fingerprint(config)
        self.room = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that a row gets."""
        async with self.room:
            columns = await self._curated({**row})
        return {**_renamed(row, columns), **columns, FINGERPRINT: self.fingerprint}

    async def batch(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The columns of a batch of rows."""
        results = await asyncio.gather(*map(self.columns, rows))
        return {name: [row[name] for row in results] for name in results[0]} if results else {}

    async def _curated(self, row: dict[str, Any]) -> dict[str, Any]:
        config, models = self.config, self.models
        text, solutions = row.pop(config.problem_column), row.pop(config.solutions_column)
        count = len(solutions) if isinstance(solutions, (list, tuple)) else 0
        is_text = isinstance(text, str)
        texts = [index for index in range(count) if is_text and isinstance(solutions[index], str)]
        scored, choice = UNSCORED, Judgement[tuple[int, ...]](None, Reason.NO_SOLUTIONS)
        if texts:
            nothing_null = tuple(solution or "" for solution in solutions)
            problem = Problem(text, nothing_null, row).take(texts)
            scored = await score_problem(problem, config, models)
            if config.problems == "llm" and not scored.diverse:
                choice = Judgement(None, Reason.NOT_DIVERSE)
            else:
                choice = await choose(problem, scored, config, models)
        scored = scored.among(texts, count, Reason.NOT_TEXT if is_text else Reason.BAD_ROW)
        selected = [texts[position] for position in choice.value or ()]
        columns = row_columns(scored, selected, config) | {"choice_reason": choice.reason or ""}
        names = made_columns(config)
        return {name: value for name, value in columns.items() if name in names}


@functools.lru_cache(maxsize=4)
def _worker(config: CurationConfig, _process: int) -> _Worker:
    return _Worker(config)


def rpd_curate(row: Mapping[str, Any], config: CurationConfig | None = None) -> dict[str, Any]:
    """Score one row's solutions and choose among them: the function for `ds.map`.

    It works in scripts and notebooks, with `num_proc`, and on an `IterableDataset`. With a chat
    model, `batched=True` keeps the server busy: the rows of a batch are worked on at once.

    Args:
        row (`Mapping`): With the columns `problem` (`str`) and `solutions` (`list[str]`); other
            columns are carried along by `map`.
        config ([`CurationConfig`], *optional*): The options, passed as
            `fn_kwargs={"config": CurationConfig(...)}`.

    Returns:
        `dict`: The new columns.

        - `steps` (`list[list[str]]`): per solution;
        - `rpd_matrix` (`list[list[float]]`): RPD of each pair, null for solutions left out;
        - `rpd_score` (`float`): Eq. 3 on it, null under two usable solutions;
        - `selected` (`list[int]`): indices into `solutions`, in order of choice; with `num_samples`
          all usable ones, in the order in which [`select_samples`] takes them;
        - `drop_reasons` (`list[str]`): why a solution was left out, `""` where it was not.
        - `rpd_fingerprint` (`str`): of the configuration.

        With other distances or a judge also others (see docs/formats.md), and with `"llm"` for
        problems or solutions a column `choice_reason` (`str`): why nothing was selected, `""`
        where something was. A problem that a judge calls uniform has nothing selected, and no
        request is spent on it.

    Raises:
        [`InputError`]: A column is missing. A bad value in a row raises nothing: the row gets a
            null score and its solutions the reason `"bad_row"` or `"not_text"`.

    Example:

    ```py
    >>> from datasets import Dataset
    >>> from rpd_datasets import rpd_curate
    >>> ds = Dataset.from_list([{"problem": "What is 2 + 3?", "solutions": [
    ...     "We count on from two. After two come three, four, five. The sum is 5.",
    ...     "Put two coins and three coins on a table. Counting all of them gives 5."]}])
    >>> ds = ds.map(rpd_curate)
    >>> sorted(ds["selected"][0])
    [0, 1]

    ```
    """
    config = config_or_default(config)
    if not isinstance(row, Mapping):
        raise InputError("rpd_curate takes whole rows; leave input_columns out of ds.map")
    for name in (config.problem_column, config.solutions_column):
        if name not in row:
            raise InputError(
                f"the rows have no column {name!r}, only {', '.join(row)}. Name yours with "
                "problem_column and solutions_column of CurationConfig; curate_dataset(rows, "
                "folder) reads other layouts as well"
            )
    # A forked process has the memory, but not the thread of the loop: it needs its own.
    worker = _worker(config, os.getpid())
    problems = row[config.problem_column]
    # Messages are one row's, and no problem: a batch has texts.
    if not isinstance(problems, list) or dict in map(type, problems):
        return run(worker.columns(row))
    records = zip(*row.values(), strict=True)
    return run(worker.batch([dict(zip(row, values, strict=True)) for values in records]))


def _renamed(row: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """A user's columns that are called like ours, under another name."""
    # With our fingerprint they are ours, of an earlier map.
    clashes = [] if FINGERPRINT in row else [name for name in columns if name in row]
    for name in clashes:
        warnings.warn(
            f"the column {name!r} of these rows is kept as 'original_{name}': rpd_curate makes one "
            "of that name",
            stacklevel=2,
        )
    return {f"original_{name}": row[name] for name in clashes}


def made_columns(config: CurationConfig) -> set[str]:
    """The columns that `ds.map(rpd_curate)` adds with these options."""
    judged = {"choice_reason"} if "llm" in (config.problems, config.solutions) else set()
    return {*column_names(config), FINGERPRINT, *judged} - {"num_tokens"}
