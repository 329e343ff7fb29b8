"""Who scores: this process, several of this machine, or actors on a Ray cluster.

An engine maps over shards, each a file of some problems, so that no more than those at work are in
memory; the result is the same bytes whoever scores. Ray Data hands shards out as its actors become
free, and gives those of a lost worker or machine to others. Replies of chat models are kept in one
store, next to the process that started the run, which an actor there opens to all others: nothing
depends on SQLite over a network (see docs/scaling.md).
"""

import gzip
import json
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.commands import stopped_by_signals
from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.folder import Journal, journal_key, seen_columns
from rpd_datasets.curation.forecast import processes_that_fit, runs_on_cores
from rpd_datasets.curation.models import Models, default_store, load_models
from rpd_datasets.curation.scoring import score_all, scoring_fingerprint
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem
from rpd_metric.errors import (
    InputError,
    RPDError,
    StoreError,
    check_least,
    first_line,
    needs_extra,
)
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import chat_spec, embedder_spec
from rpd_metric.models.store import Replies, ReplyStore, RequestKeys
from rpd_metric.steps.summarizers import asks_chat_model, summarizer_spec

# Shards hold paths only in Ray's own memory.
OBJECT_STORE_BYTES = 100_000_000
# While the last replies of one shard come in, the next one keeps the server busy.
SHARDS_AT_ONCE = 4
# Loading an encoder in each of several processes takes longer than scoring so many.
FEW_PROBLEMS = 200


@dataclass(frozen=True)
class Engine:
    """A map of [`score_shard`] over shards, on a process pool or on a cluster.

    `map` is given the shards and the fingerprint they were cut with, and yields what
    [`score_shard`] returns for each, in any order.
    """

    map: Callable[[Sequence[Path], str], Generator[str]]
    shard_size: int = 16
    least: int = 0  # with fewer problems, the process that runs scores
    num_proc: int | None = None  # for a line about it, where nobody asked for processes

    def suits(self, problems: Iterable[Problem]) -> bool:
        """Whether there are enough problems."""
        return not self.least or len(list(islice(problems, self.least))) == self.least


def cut(problems: Iterable[Problem], folder: Path, journal: Journal, size: int) -> list[Path]:
    """Write problems into shards of `size`, one at a time, and return these."""
    shards: list[Path] = []
    iterator = iter(problems)
    while chunk := list(islice(iterator, size)):
        slim = []
        for problem in chunk:
            # Other columns keep their bare names: an error says what could have been meant.
            columns = {**dict.fromkeys(problem.extra), **seen_columns(problem, journal.filters)}
            slim.append(replace(problem, extra=columns))
        shards.append(folder / f"{len(shards):06d}")
        shards[-1].write_bytes(gzip.compress(pickle.dumps(slim), compresslevel=1))
    return shards


def problems_of(shard: Path) -> list[Problem]:
    """The problems of a shard, without the columns that scoring does not look at."""
    problems: list[Problem] = pickle.loads(gzip.decompress(shard.read_bytes()))
    return problems


def score_in_shards(
    problems: Iterable[Problem],
    journal: Journal,
    folder: Path,
    engine: Engine,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Fill the journal: let an engine score all problems that are not in it, in `folder`.

    `advance` is called for each problem, those in the journal included.
    """

    def missing() -> Iterator[Problem]:
        for problem in problems:
            if journal.find(problem) is None:
                yield problem
            else:
                advance()

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
                advance()
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
        flow.sharers = sharers
    if scoring_fingerprint(config, models) != fingerprint:
        raise InputError(
            f"{socket.gethostname()} would score differently from the machine that started "
            "the run: another version of this package, or a server with another model"
        )
    return models


@documented
@dataclass(frozen=True)
class EngineOptions:
    """Where problems are scored."""

    num_proc: int | None = option(
        None,
        "processes that score, each with its own copy of the models that run in it; the result is "
        "the same (default: from 200 problems on as many as cores and memory allow if the encoder "
        "runs on cores, else one; on Ray one per GPU for st: and hf: models, one per machine where "
        "servers do all the work, else one per core)",
        metavar="N",
    )
    engine: Literal["local", "ray"] = option(
        "local",
        "ray: actors on a Ray cluster of any number of machines, which all see the output folder",
    )
    ray_address: str | None = option(
        None,
        "host:port of a running cluster, or auto for this machine's (default: $RAY_ADDRESS, or a "
        "cluster of this machine alone, for this run)",
        metavar="ADDR",
    )
    shard_size: int = option(
        Engine.shard_size, "problems that a process is handed at a time", metavar="N"
    )

    def load(self, config: CurationConfig) -> Engine | None:
        """The engine; `None` is this process."""
        check_least(1, self, "num_proc", "shard_size")
        if self.ray_address is not None and self.engine != "ray":
            raise InputError(
                "{ray_address} goes with {engine=ray}", option=("ray_address", "engine")
            )
        automatic = self.engine == "local" and self.num_proc is None and runs_on_cores(config)
        num_proc = processes_that_fit() if automatic else self.num_proc or 1
        if self.engine == "local" and num_proc == 1:
            return None
        requests = config.requests
        budget = {requests.max_requests, requests.max_output_tokens, requests.max_cost}
        if not automatic and budget != {None}:
            raise InputError(
                "a budget is counted by one process, which keeps a server busy: leave out "
                "{num_proc} and {engine}, or the budget",
                option=("num_proc", "engine"),
            )
        if self.engine == "local":
            processes = partial(_on_processes, config, num_proc)
            unasked = (FEW_PROBLEMS, num_proc) if automatic else ()
            return Engine(processes, self.shard_size, *unasked)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when ray is imported
        with needs_extra("--engine ray", "ray"):
            import ray.data  # noqa: F401
        return Engine(partial(_on_ray, config, self), self.shard_size)


def _on_processes(
    config: CurationConfig, num_proc: int, shards: Sequence[Path], fingerprint: str
) -> Generator[str]:
    """Score shards in worker processes of this machine."""
    workers = min(num_proc, len(shards))
    life, ours = multiprocessing.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(life, num_proc),
    )
    score = partial(score_shard, config=config, fingerprint=fingerprint, sharers=workers)
    try:
        # Nothing else holds the futures: each goes with its records.
        for future in as_completed([pool.submit(score, shard) for shard in shards]):
            yield future.result()
        pool.shutdown()
    except BrokenProcessPool as error:
        raise RPDError(
            "a worker process was killed, most often for want of memory; what is finished is "
            "kept: run the same command again, with a smaller --num-proc"
        ) from error
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        life.close()


def _start(life: Connection, num_proc: int) -> None:
    """Prepare a worker: it goes when the run does, however that ends."""
    from tqdm.std import tqdm

    # Ctrl-C reaches every process of a terminal; who acts on it is the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before torch is loaded. The encoders of this machine take one core each (see --threads); what
    # else there is, a chat model, shares the machine.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_proc)))
    # Else its lock is a semaphore of the system, which a process that just goes would leave behind.
    tqdm.set_lock(threading.RLock())

    def watch() -> None:
        wait([life])  # the other end is closed, by the run or by its death
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_ray(
    config: CurationConfig, options: EngineOptions, shards: Sequence[Path], fingerprint: str
) -> Generator[str]:
    """Score shards by actors on a Ray cluster."""
    # Python drops an interrupt that is raised in a destructor or in a callback from Ray's core.
    with (
        stopped_by_signals() as stop_if_interrupted,
        _connected(options.ray_address) as ray,
    ):
        resources = ray.cluster_resources()
        nodes = [node for node in ray.nodes() if node["Alive"]]
        actors, gpus = actor_pool(options, config, resources, len(nodes), len(shards))
        chats = bool(config.judge) or asks_chat_model(config.summarizer)
        store = RemoteReplies(default_store(config.store)) if chats else None
        at_once = SHARDS_AT_ONCE if chats else 1
        # One shard to a block: each is handed out, repeated and given back by itself.
        scored = ray.data.from_items(
            [{"shard": str(shard.absolute())} for shard in shards],
            override_num_blocks=len(shards),
        ).map_batches(
            _ScoreShards,
            fn_constructor_args=(config, fingerprint, actors, store),
            batch_size=1,
            num_cpus=1,
            num_gpus=gpus,
            compute=ray.data.ActorPoolStrategy(
                min_size=1,
                max_size=actors,
                initial_size=actors,
                # None waits at an actor that may be lost with its machine.
                max_tasks_in_flight_per_actor=at_once,
                max_concurrent_calls_per_actor=at_once,
                enable_true_multi_threading=at_once > 1,
            ),
        )
        for row in scored.iter_rows():
            stop_if_interrupted()
            yield row["scored"]
        stop_if_interrupted()


def actor_pool(
    options: EngineOptions,
    config: CurationConfig,
    resources: Mapping[str, float],
    num_nodes: int,
    num_shards: int,
) -> tuple[int, float]:
    """How many actors there are on a cluster with such resources, and how many GPUs each has."""
    specs = [summarizer_spec(config.summarizer), embedder_spec(config.embedder)]
    specs += [chat_spec(spec) for spec in (config.judge, config.filters.student) if spec]
    gpus = int(resources.get("GPU", 0)) if any(spec.needs_gpu for spec in specs) else 0
    in_process = any(spec.runs_here for spec in specs)
    actors = options.num_proc or gpus or (int(resources.get("CPU", 1)) if in_process else num_nodes)
    return max(1, min(actors, num_shards)), float(gpus > 0)


class _ScoreShards:
    """The function that Ray Data maps over shards; each actor holds one."""

    def __init__(self, *options: Any) -> None:
        self._options = options

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"scored": [score_shard(Path(path), *self._options) for path in batch["shard"]]}


class RemoteReplies:
    """The store of replies for any process of a cluster, by an actor that holds it open here."""

    def __init__(self, file: Path) -> None:
        import ray

        ReplyStore(file).close()  # what is wrong with it is said here
        this_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = ray.remote(ReplyStore).options(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=this_node
        )
        self._actor = actor.remote(str(file.absolute()))

    def find(self, keys: RequestKeys) -> ChatReply | None:
        """See [`~rpd_metric.models.store.Replies`]."""
        return self._wait(self._actor.find.remote(keys))  # type: ignore[no-any-return]

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """See [`~rpd_metric.models.store.Replies`]."""
        return self._wait(self._actor.keep.remote(keys, reply))  # type: ignore[no-any-return]

    def _wait(self, reference: Any) -> Any:
        import ray

        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            raise StoreError(f"the store of replies: {getattr(error, 'cause', error)}") from error


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster; quiet, and gone again at the end."""
    import ray
    import ray.data

    if ray.is_initialized():
        yield ray  # connected by the caller, who also disconnects
        return
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": address or "local"}
    if address is None:
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    elif address not in ("auto", "local"):
        _check_reachable(address)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise RPDError(
            f"cannot use Ray at {address or 'this machine'} ({first_line(error)}); if that cluster "
            "wants a token, set RAY_AUTH_MODE=token (docs/scaling.md); without --ray-address a run "
            "has a cluster of its own"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray sets its own
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = -1  # one shard may take hours on a busy server
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for a quarter of an hour to reach an address where nothing listens."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise RPDError(
            f"no Ray cluster answers at {address} ({error}); name its head as host:port, where "
            "the port is 6379 unless ray start was told another one"
        ) from error
