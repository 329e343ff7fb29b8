"""Problems in shards that any process on any machine can score, and what comes back of them.

A shard is one file of problems, named by a hash of its content and of everything that decides
its scores. Scoring it makes one file of records beside it, which appears under its name only when
it is complete. The run puts these records into its journal and then goes on as if it had scored the
problems itself. Every machine has to see the folder under the same path.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

SHARD_SIZE = 16
WAITING, DONE = ".waiting", ".done"

# Scores shards, given the fingerprint that they were cut with, and gives each back once its records
# are there: a map over a process pool, or over a cluster.
Engine = Callable[[Sequence[Path], str], Iterator[Path]]


def cut(problems: Iterable[Problem], folder: Path, journal: Journal, size: int) -> list[Path]:
    """Write problems into shards of `size`, one at a time, and return these, each once."""
    shards: dict[Path, None] = {}
    iterator = iter(problems)
    while chunk := list(islice(iterator, size)):
        lines = []
        for one in chunk:
            # The bare names of the columns that scoring does not look at: an error says what could
            # have been meant.
            extra = {**dict.fromkeys(one.extra), **seen_columns(one, journal.filters)}
            row = {"problem": one.problem, "solutions": one.solutions}
            lines.append(_line({**row, "extra": extra, "where": one.where}))
        name = hashlib.sha256(journal.fingerprint.encode() + b"".join(lines)).hexdigest()[:32]
        shards[folder / (name + WAITING)] = None
        _write_lines(folder / (name + WAITING), lines)
    return list(shards)


def problems_of(shard: Path) -> Iterator[Problem]:
    """The problems of a shard, without the columns that scoring does not look at."""
    for row in _read_lines(shard):
        yield Problem(**{**row, "solutions": tuple(row["solutions"])})


def harvest(done: Path, journal: Journal) -> Iterator[Scored]:
    """Put a finished shard's records into the journal."""
    for row in _read_lines(done):
        journal.put(row["key"], row["record"])
        yield Scored.from_record(row["record"])


def harvest_earlier(folder: Path, journal: Journal) -> None:
    """Take up what an earlier run, killed perhaps, left in its folder of shards; then empty it."""
    for done in sorted(folder.glob(f"*{DONE}")):
        for _ in harvest(done, journal):
            pass
    if folder.exists():
        shutil.rmtree(folder)


def score_in_shards(
    problems: Iterable[Problem],
    journal: Journal,
    folder: Path,
    engine: Engine,
    *,
    size: int = SHARD_SIZE,
    on_problem: Callable[[Scored], None] = lambda _: None,
) -> None:
    """Fill the journal: let an engine score all problems that are not in it, in `folder`.

    `on_problem` is called for each problem, those in the journal included.
    """
    if size < 1:
        raise InputError(f"a shard of {size} problems is none; choose 1 or more")

    def missing() -> Iterator[Problem]:
        for problem in problems:
            known = journal.find(problem)
            if known is None:
                yield problem
            else:
                on_problem(known)

    folder.mkdir(exist_ok=True)
    shards = cut(missing(), folder, journal, size)
    # A retry after a fault may give a shard back twice.
    finished: set[Path] = set()
    for shard in engine(shards, journal.fingerprint) if shards else ():
        if shard not in finished:
            finished.add(shard)
            for scored in harvest(shard.with_suffix(DONE), journal):
                on_problem(scored)
    shutil.rmtree(folder)


def score_shard(
    shard: Path,
    config: CurationConfig,
    fingerprint: str,
    sharers: int = 1,
    replies: Replies | None = None,
) -> str | None:
    """Score a shard in this process, unless its records are there already; `sharers` workers ask
    the same servers, and several threads may score shards at once.

    What the user can fix comes back as one line: not every exception survives pickling.
    """
    done = shard.with_suffix(DONE)
    try:
        if not shard.exists():
            raise InputError(
                f"the machine {socket.gethostname()} does not see {shard}: the output folder must "
                "be on a file system that every machine has under the same path"
            )
        with _LOADING:
            models = _models(config, fingerprint, sharers, replies)  # type: ignore[arg-type]
        if not done.exists():
            _write_lines(done, run(_records(shard, config, models, fingerprint)))
    except RPDError as error:
        return str(error)
    except OSError as error:
        return f"cannot write beside {shard}: {error.strerror or error}"
    return None


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
    run(asyncio.sleep(0))  # one loop for all threads, made before they want it at once
    return models


async def _records(
    shard: Path, config: CurationConfig, models: Models, fingerprint: str
) -> list[bytes]:
    lines = []
    async for problem, scored in score_all(problems_of(shard), config, models):
        assert scored is not None, "only a run with a budget leaves problems undone"
        key = journal_key(problem, fingerprint, config.filters)
        lines.append(_line({"key": key, "record": scored.as_record()}))
    return lines


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=str).encode("ascii") + b"\n"


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    import pyarrow as pa

    # A name of its own: a worker given up for lost may still be writing the same file.
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with pa.CompressedOutputStream(str(part), "zstd") as file:
        for line in lines:
            file.write(line)
    os.replace(part, path)


def _read_lines(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    with pa.CompressedInputStream(str(path), "zstd") as file:
        content: bytes = file.read()
    for line in content.splitlines():
        yield json.loads(line)
