"""`rpd_curate`: the function for `datasets.Dataset.map`, wherever a program runs.

`datasets` runs a coroutine function on the current event loop, which fails where one is running
already, as in every notebook. The work is therefore done on a loop of its own in a thread, and
what comes back can be used both ways: it is awaitable, and it is a mapping that waits when it is
first looked into. `datasets` is told that this is a coroutine function where no loop is running,
and then has many problems in flight; in a notebook a row is done before the next one begins,
unless `batched=True` hands over many at once.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.scoring import choice_columns, choose, score_problem, scoring_fingerprint
from rpd_datasets.judging.judges import Judgement
from rpd_datasets.problem import Problem
from rpd_metric.arrays import MatrixRows
from rpd_metric.errors import InputError

FINGERPRINT = "rpd_fingerprint"
MADE = ("steps", "rpd_matrix", "rpd_score", "selected", "drop_reasons", FINGERPRINT)
# Problems of a batch that are worked on at once; a flow has its own limit on requests.
AT_ONCE = 32


def curation_fingerprint(config: CurationConfig, models: Models) -> str:
    """A hash of all that decides what `rpd_curate` gives a row."""
    parts = [
        scoring_fingerprint(config, models),
        config.problems,
        config.solutions,
        config.num_solutions,
        config.selection,
        config.seed,
        *((config.quality_column, config.quality_weight) if config.quality_column else ()),
    ]
    if config.num_samples is not None:
        parts.append("in the order of a budget")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class _Worker:
    """What a process keeps from one row to the next: models, an event loop, a thread to encode."""

    def __init__(self, config: CurationConfig) -> None:
        self.config = config
        self.models = load_models(config)
        self.fingerprint = curation_fingerprint(config, self.models)
        self.encoding = ThreadPoolExecutor(max_workers=1)
        self.limit = asyncio.Semaphore(AT_ONCE)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, row: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Begin a row, or a batch of rows."""
        problems = row[self.config.problem_column]
        if not isinstance(problems, list):
            return asyncio.run_coroutine_threadsafe(self.one(row), self.loop)
        names = list(row)
        rows = [dict(zip(names, values, strict=True)) for values in zip(*row.values(), strict=True)]
        return asyncio.run_coroutine_threadsafe(self.several(rows), self.loop)

    async def one(self, row: Mapping[str, Any]) -> dict[str, Any]:
        async with self.limit:
            columns = await _curated(row, self.config, self.models, self.encoding)
        return {**_kept(row, columns), **columns, FINGERPRINT: self.fingerprint}

    async def several(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        done = await asyncio.gather(*(self.one(row) for row in rows))
        return {name: [columns[name] for columns in done] for name in done[0]} if done else {}


@functools.lru_cache(maxsize=4)
def _worker(config: CurationConfig, process: int) -> _Worker:  # noqa: ARG001
    # A forked process has the thread's memory, but not the thread: it needs a worker of its own.
    return _Worker(config)


class CuratedRow(Mapping[str, Any]):
    """The new columns of a row, or of a batch: await them, or just look into them.

    Args:
        future (`concurrent.futures.Future`): The work.
    """

    def __init__(self, future: Future[dict[str, Any]]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return asyncio.wrap_future(self._future).__await__()

    def __getitem__(self, name: str) -> Any:
        return self._future.result()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._future.result())

    def __len__(self) -> int:
        return len(self._future.result())


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _coroutine_function() -> None:
    """What `inspect` finds where a coroutine function serves `datasets` best."""


def _plain_function() -> None:
    """What `inspect` finds where an event loop is running."""


class RowCurator(functools.partial[Any]):
    """The type of [`rpd_curate`].

    A `partial`, because `inspect.iscoroutinefunction` looks at a partial's `func`, which can be
    another one in a notebook than in a script.
    """

    @property
    def func(self) -> Any:
        """What `inspect` takes this function for."""
        return _plain_function if _loop_is_running() else _coroutine_function

    def __reduce__(self) -> str:
        return "rpd_curate"  # by name, like any function of a module

    def __repr__(self) -> str:
        return "rpd_curate"

    def __call__(
        self, row: Mapping[str, Any], *place: Any, config: CurationConfig | None = None
    ) -> CuratedRow:
        """See [`rpd_curate`]."""
        for one in place:
            # An index or a rank, as `with_indices` and `with_rank` pass them, decides nothing.
            config = one if isinstance(one, CurationConfig) else config
        config = (config or CurationConfig()).resolved()
        if not isinstance(row, Mapping):
            raise InputError("rpd_curate takes whole rows; leave input_columns out of ds.map")
        for column in (config.problem_column, config.solutions_column):
            if column not in row:
                raise InputError(
                    f"the rows have no column {column!r}, only {', '.join(row)}; rename one, or "
                    "set problem_column and solutions_column in CurationConfig"
                )
        return CuratedRow(_worker(config, os.getpid()).start(dict(row)))


rpd_curate = RowCurator(_coroutine_function)
rpd_curate.__doc__ = """Score one row's solutions and choose among them: the function for `ds.map`.

It works in a script, in a notebook, with `num_proc`, `with_indices` and `batched=True`, and on
an `IterableDataset`. In a script many rows are in flight at once, which keeps a server busy; in
a notebook that takes `batched=True`. Outside `map`, `rpd_curate(row)` gives a mapping with the
columns, which may also be awaited.

Args:
    row (`Mapping`): With the columns `problem` (`str`) and `solutions` (`list[str]`); other
        columns are carried along by `map`.
    config ([`CurationConfig`], *optional*): The options; pass them as
        `fn_kwargs={"config": CurationConfig(...)}`.

Returns:
    `dict`: The new columns.

    - `steps` (`list[list[str]]`): per solution;
    - `rpd_matrix` (`list[list[float]]`): RPD of each pair, null for solutions left out;
    - `rpd_score` (`float`): Eq. 3 on it, null under two usable solutions;
    - `selected` (`list[int]`): indices into `solutions`, in order of choice; with `num_samples` all
      usable ones, in the order in which [`select_samples`] takes them;
    - `drop_reasons` (`list[str]`): why a solution was left out, `""` where it was not.
    - `rpd_fingerprint` (`str`): of the configuration and the models.

    With other distances or a judge also those of [`choice_columns`], and with `"llm"` for
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


def _kept(row: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """A user's columns that are called like ours, under another name."""
    if FINGERPRINT in row:
        return {}  # they are ours, of an earlier map
    taken = [name for name in columns if name in row]
    for name in taken:
        warnings.warn(
            f"the column {name!r} of these rows is kept as 'original_{name}': rpd_curate makes one "
            "of that name",
            stacklevel=2,
        )
    return {f"original_{name}": row[name] for name in taken}


async def _curated(
    row: Mapping[str, Any], config: CurationConfig, models: Models, encoding: ThreadPoolExecutor
) -> dict[str, Any]:
    text, solutions = row[config.problem_column], row[config.solutions_column]
    if not isinstance(text, str) or not isinstance(solutions, (list, tuple)):
        count = len(solutions) if isinstance(solutions, (list, tuple)) else 0
        return _left_out(["bad_row"] * count, config)
    good = [index for index, solution in enumerate(solutions) if isinstance(solution, str)]
    reasons = ["" if isinstance(solution, str) else "not_text" for solution in solutions]
    result = _left_out(reasons, config)
    if not good:
        return result
    extra = {
        name: value
        for name, value in row.items()
        if name not in (config.problem_column, config.solutions_column)
    }
    problem = Problem(text, tuple(solution or "" for solution in solutions), extra).take(good)
    scored = await score_problem(problem, config, models, encoding)
    for position, index in enumerate(good):
        result["steps"][index] = scored.steps[position]
        result["drop_reasons"][index] = scored.drop_reasons[position]
    result["rpd_matrix"] = _spread(scored.matrix, good, len(solutions))
    result["rpd_score"] = scored.score
    for name, value in choice_columns(scored, len(good), config).items():
        matrix = name == "distance_matrix"
        result[name] = _spread(value, good, len(solutions)) if matrix else value
    if config.problems == "llm" and not scored.diverse:
        selected: Judgement[tuple[int, ...]] = Judgement(None, "not_diverse")
    else:
        selected = await choose(problem, scored, config, models)
    result["selected"] = [good[position] for position in selected.value or ()]
    if "choice_reason" in result:
        result["choice_reason"] = selected.reason or ""
    return result


def _spread(matrix: MatrixRows, good: Sequence[int], k: int) -> MatrixRows:
    spread: MatrixRows = [[None] * k for _ in range(k)]
    for index, row in zip(good, matrix, strict=True):
        for other, value in zip(good, row, strict=True):
            spread[index][other] = value
    return spread


def _left_out(reasons: list[str], config: CurationConfig) -> dict[str, Any]:
    """The new columns of a row of which nothing can be used."""
    k = len(reasons)
    columns: dict[str, Any] = {
        "steps": [[] for _ in range(k)],
        "rpd_matrix": [[None] * k for _ in range(k)],
        "rpd_score": None,
        "selected": [],
        "drop_reasons": list(reasons),
        **choice_columns(None, k, config),
    }
    if "llm" in (config.problems, config.solutions):
        columns["choice_reason"] = "no_solutions"
    return columns
