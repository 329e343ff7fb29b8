"""Problems in shards that any process on any machine can score, and what comes back of them.

A shard is a file of some problems, so that no more than those at work are in memory. Its records go
back to the run, which keeps them in its journal and goes on as if it had scored the problems.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.folder import Journal, journal_key, seen_columns
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.scoring import Scored, score_all, scoring_fingerprint
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError, RPDError
from rpd_metric.models.concurrency import run
from rpd_metric.models.store import Replies


@dataclass(frozen=True)
class Engine:
    """A map of [`score_shard`] over shards, on a process pool or on a cluster.

    `map` is given the shards and the fingerprint they were cut with, and yields what
    [`score_shard`] returns for each, in any order.
    """

    map: Callable[[Sequence[Path], str], Generator[str]]
    shard_size: int = 16


def cut(problems: Iterable[Problem], folder: Path, journal: Journal, size: int) -> list[Path]:
    """Write problems into shards of `size`, one at a time, and return these."""
    shards: list[Path] = []
    iterator = iter(problems)
    while chunk := list(islice(iterator, size)):
        # The bare names of the columns that scoring does not look at: an error says what could
        # have been meant.
        slim = [
            replace(one, extra={**dict.fromkeys(one.extra), **seen_columns(one, journal.filters)})
            for one in chunk
        ]
        shards.append(folder / f"{len(shards):06d}")
        with gzip.open(shards[-1], "wb", compresslevel=1) as file:
            pickle.dump(slim, file)
    return shards


def problems_of(shard: Path) -> list[Problem]:
    """The problems of a shard, without the columns that scoring does not look at."""
    with gzip.open(shard) as file:
        problems: list[Problem] = pickle.load(file)
    return problems


def score_in_shards(
    problems: Iterable[Problem],
    journal: Journal,
    folder: Path,
    engine: Engine,
    on_problem: Callable[[Scored], None] = lambda _: None,
) -> None:
    """Fill the journal: let an engine score all problems that are not in it, in `folder`.

    `on_problem` is called for each problem, those in the journal included.
    """

    def missing() -> Iterator[Problem]:
        for problem in problems:
            known = journal.find(problem)
            if known is None:
                yield problem
            else:
                on_problem(known)

    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    folder.mkdir()
    shards = cut(missing(), folder, journal, engine.shard_size)
    # Closed whatever happens: an engine has processes.
    with closing(engine.map(shards, journal.fingerprint)) as results:
        for text in results if shards else ():
            scored = json.loads(text)
            if "error" in scored:
                raise RPDError(scored["error"])
            for key, record in scored["records"]:
                journal.put(key, record)
                on_problem(Scored.from_record(record))
    shutil.rmtree(folder)


def score_shard(
    shard: Path,
    config: CurationConfig,
    fingerprint: str,
    sharers: int = 1,
    replies: Replies | None = None,
) -> str:
    """Score a shard in this process; `sharers` workers ask the same servers, and several threads
    may score shards at once.

    Returns:
        `str`: JSON, with `records` or with an `error` that the user can fix: not every exception
            survives pickling.
    """
    try:
        if not shard.exists():
            raise InputError(
                f"the machine {socket.gethostname()} does not see {shard}: the output folder must "
                "be on a file system that every machine has under the same path"
            )
        with _LOADING:
            models = _models(config, fingerprint, sharers, replies)  # type: ignore[arg-type]

        async def records() -> list[tuple[str, dict[str, Any]]]:
            return [
                (journal_key(problem, fingerprint, config.filters), scored.as_record())
                async for problem, scored in score_all(problems_of(shard), config, models)
            ]

        return json.dumps({"records": run(records())})
    except RPDError as error:
        return json.dumps({"error": str(error)})


_LOADING = threading.Lock()


@lru_cache(maxsize=1)
def _models(
    config: CurationConfig, fingerprint: str, sharers: int, replies: Replies | None
) -> Models:
    """What a worker keeps from one shard to the next."""
    models = load_models(config, replies=replies)
    for flow in models.flows:
        flow.share(sharers)
    if scoring_fingerprint(config, models) != fingerprint:
        raise InputError(
            f"{socket.gethostname()} would score differently from the machine that started "
            "the run: another version of this package, or a server with another model"
        )
    return models
