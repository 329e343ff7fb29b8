"""Problems in shards that any process on any machine can score, and what comes back of them.

A shard is one file of problems, named by a hash of its content and of everything that decides
its scores. Scoring it makes one file of records beside it, which appears under its name only when
it is complete. The run that cut the shards puts these records into its journal and then goes on
as if it had scored the problems itself, so that its result does not depend on who did. Who does
is an `Engine`: `processes.py` for this machine, `ray_cluster.py` for many.

What it leaves out: moving files. Every machine has to see the folder under the same path.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import cached_property
from pathlib import Path
from typing import Any

from rpd_datasets.curation.journal import Journal
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import (
    CurationConfig,
    Models,
    Scored,
    score_problem,
    scoring_fingerprint,
)
from rpd_datasets.filters.correctness import evidence_columns
from rpd_datasets.filters.pipeline import FilterConfig
from rpd_datasets.inputs.grouping import encode_values
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError, RPDError
from rpd_metric.models.concurrency import run_bounded
from rpd_metric.models.store import Replies

SHARD_SIZE = 16
MAX_IN_FLIGHT = 32
WAITING, DONE = ".waiting", ".done"

# Scores the shards of a folder, given their names and the fingerprint that they were cut with, and
# gives each name back once its records are there.
Engine = Callable[[Path, Sequence[str], str], Iterator[str]]


def journal_key(problem: Problem, fingerprint: str, filters: FilterConfig) -> str:
    """The problem's name in the journal: another mark or reference answer makes it another one."""
    name = f"{problem.key}:{fingerprint}"
    seen = _evidence(problem, filters)
    if not seen:
        return name
    return f"{name}:{hashlib.sha256(encode_values(seen).encode()).hexdigest()[:16]}"


def _evidence(problem: Problem, filters: FilterConfig) -> dict[str, Any]:
    """The carried columns that scoring looks at."""
    names = evidence_columns(problem.extra, filters.correct_column, filters.answer_column)
    return {name: problem.extra[name] for name in sorted(names)}


def failed_on_a_model(record: dict[str, Any]) -> bool:
    """Whether a server failed to do something that it may do in a later run."""
    return any(reject["reason"] == "model_error" for reject in record["rejects"])


def cut(
    problems: Iterable[Problem], folder: Path, fingerprint: str, config: CurationConfig, size: int
) -> list[str]:
    """Write problems into shards.

    Args:
        problems (`Iterable[Problem]`): Read once; one shard is held at a time.
        folder (`Path`): Where the shards go.
        fingerprint (`str`): What decides the scores.
        config ([`CurationConfig`]): Names the carried columns that scoring may look at; the
            others stay behind.
        size (`int`): Problems in a shard.

    Returns:
        `list[str]`: The shards' names, each once.
    """
    names: dict[str, None] = {}
    lines: list[bytes] = []

    def write() -> None:
        digest = hashlib.sha256(fingerprint.encode())
        for line in lines:
            digest.update(line)
        name = digest.hexdigest()[:32]
        names[name] = None
        _write_lines(folder / (name + WAITING), lines)
        lines.clear()

    for problem in problems:
        # The bare names of the others: an error says what could have been meant.
        extra = {**dict.fromkeys(problem.extra), **_evidence(problem, config.filters)}
        row = {
            "problem": problem.problem,
            "solutions": problem.solutions,
            "extra": extra,
            "where": problem.where,
        }
        lines.append(json.dumps(row, default=str).encode("ascii") + b"\n")
        if len(lines) == size:
            write()
    if lines:
        write()
    return list(names)


def problems_of(shard: Path) -> Iterator[Problem]:
    """The problems of a shard, without the columns that scoring does not look at."""
    for row in _read_lines(shard):
        yield Problem(**{**row, "solutions": tuple(row["solutions"])})


async def score_shard(
    shard: Path,
    config: CurationConfig,
    models: Models,
    fingerprint: str,
    encoding: ThreadPoolExecutor,
) -> None:
    """Score a shard's problems, unless its records are there already.

    Args:
        shard (`Path`): The file.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What they name, loaded.
        fingerprint (`str`): What decides the scores.
        encoding (`ThreadPoolExecutor`): Where embeddings are made.
    """
    done = shard.with_suffix(DONE)
    if done.exists():
        return

    async def work(problem: Problem) -> bytes:
        scored = await score_problem(problem, config, models, encoding)
        record = {
            "key": journal_key(problem, fingerprint, config.filters),
            "record": scored.as_record(),
        }
        return json.dumps(record).encode("ascii") + b"\n"

    results = run_bounded(problems_of(shard), work, max_in_flight=MAX_IN_FLIGHT)
    async with aclosing(results):
        lines = [line async for line in results]
    _write_lines(done, lines)


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
    fingerprint: str,
    config: CurationConfig,
    folder: Path,
    engine: Engine,
    *,
    size: int = SHARD_SIZE,
    on_problem: Callable[[Scored], None] = lambda _: None,
) -> None:
    """Fill the journal: let an engine score all problems that are not in it.

    Args:
        problems (`Iterable[Problem]`): The input.
        journal ([`Journal`]): Afterwards, it holds a record of every problem.
        fingerprint (`str`): What decides the scores.
        config ([`CurationConfig`]): The options.
        folder (`Path`): Where the shards go; made here, and removed at the end.
        engine (`Engine`): Who scores them.
        size (`int`): Problems in a shard.
        on_problem (`Callable`): Called for each problem, those in the journal included.

    Raises:
        [`InputError`]: `size` is below one.
        [`RPDError`]: What a worker ran into.
    """
    if size < 1:
        raise InputError(f"a shard of {size} problems is none; choose 1 or more")

    def missing() -> Iterator[Problem]:
        for problem in problems:
            record = journal.get(journal_key(problem, fingerprint, config.filters))
            if record is None or failed_on_a_model(record):
                yield problem
            else:
                on_problem(Scored.from_record(record))

    folder.mkdir(exist_ok=True)
    names = cut(missing(), folder, fingerprint, config, size)
    if names:
        # A retry after a fault may give a name back twice.
        finished: set[str] = set()
        for name in engine(folder, names, fingerprint):
            if name not in finished:
                finished.add(name)
                for scored in harvest(folder / (name + DONE), journal):
                    on_problem(scored)
    shutil.rmtree(folder)


class ShardWorker:
    """What a worker process keeps from one shard to the next: the models, and an event loop.

    Nothing is loaded before the first shard, so that an error can be returned as the result of a
    shard instead of ending a process. Several threads may score shards at once: that
    keeps a server busy while the last requests of one shard come in.

    Args:
        config ([`CurationConfig`]): The options.
        fingerprint (`str`): What the shards were cut with.
        sharers (`int`): How many workers ask the same servers.
        replies ([`Replies`], *optional*): Where the replies of chat models are
            kept; the store that the options name if unset.
    """

    def __init__(
        self,
        config: CurationConfig,
        fingerprint: str,
        *,
        sharers: int = 1,
        replies: Replies | None = None,
    ) -> None:
        self._config = config
        self._fingerprint = fingerprint
        self._sharers = sharers
        self._replies = replies
        self._loading = threading.Lock()
        # One thread encodes: several would take turns anyway.
        self._encoding = ThreadPoolExecutor(max_workers=1)

    def score(self, shard: Path) -> str | None:
        """Score a shard.

        Returns:
            `str`, *optional*: One line that says what the user can fix. Errors travel as text
                because not every exception survives pickling.
        """
        try:
            if not shard.exists():
                return (
                    f"the machine {socket.gethostname()} does not see {shard}: the output folder "
                    "must be on a file system that every machine has under the same path"
                )
            with self._loading:
                models = self._models
            scoring = score_shard(shard, self._config, models, self._fingerprint, self._encoding)
            asyncio.run_coroutine_threadsafe(scoring, self._loop).result()
        except RPDError as error:
            return str(error)
        except OSError as error:
            return f"cannot write beside {shard}: {error.strerror or error}"
        return None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        return loop

    @cached_property
    def _models(self) -> Models:
        models = load_models(self._config, replies=self._replies)
        for flow in models.flows:
            flow.share(self._sharers)
        if scoring_fingerprint(self._config, models) != self._fingerprint:
            raise InputError(
                f"{socket.gethostname()} would score differently from the machine that started "
                "the run: another version of this package, or a server with another model"
            )
        _ = self._loop  # made under the same lock
        return models


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
