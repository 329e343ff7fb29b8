"""Shards scored by actors on a Ray cluster: any number of machines, with or without GPUs.

The actors run the same function on the same shards as one machine would, under Ray Data, which
hands out shards as actors become free and gives those of a lost worker or machine to others. What
is finished lies beside the shards, so that it also outlives the run itself.

Every machine needs this package in the same version, and the output folder under the same path.
Replies of chat models are kept in one store, next to the process that started the run: an actor
there reads and writes it for all others. A reply is on file before the shard that needs it goes
on, whichever machine is lost afterwards, and nothing depends on SQLite over a network.

What it leaves out: starting a cluster of several machines (`ray start`, Slurm, KubeRay: see
docs/scaling.md), and Ray Client addresses, which would put the run outside the cluster.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import default_store
from rpd_datasets.curation.shards import WAITING, Engine, ShardWorker
from rpd_metric.errors import InputError, MissingExtraError, RPDError, StoreError, first_line
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.kinds import chat_spec, embedder_spec
from rpd_metric.models.store import ReplyStore, RequestKeys
from rpd_metric.steps.summarizers import asks_chat_model, summarizer_spec

# Shards hold paths only in Ray's own memory.
OBJECT_STORE_BYTES = 100_000_000
# While the last replies of one shard come in, the next one keeps the server busy.
SHARDS_AT_ONCE = 4


@dataclass(frozen=True)
class RayOptions:
    """Where and how wide a run goes.

    Args:
        address (`str`, *optional*): `"host:port"` of a running cluster, or `"auto"` for the one
            that this machine belongs to; `$RAY_ADDRESS` if unset, and without that, a cluster of
            this machine alone, for this run.
        actors (`int`, *optional*): Processes that score. If unset, one for each GPU where models
            that run here can use one, one for each machine where servers do all the work, and
            one for each core otherwise.
        gpus_per_actor (`float`, *optional*): GPUs of each; may be a fraction. If unset, 1 where
            the cluster has any and a model other than `minilm` runs here.
    """

    address: str | None = None
    actors: int | None = None
    gpus_per_actor: float | None = None

    def __post_init__(self) -> None:
        if self.actors is not None and self.actors < 1:
            raise InputError(f"{self.actors} actors score nothing; choose 1 or more")
        if self.gpus_per_actor is not None and self.gpus_per_actor < 0:
            raise InputError(f"an actor cannot have {self.gpus_per_actor} GPUs; choose 0 or more")
        if self.address is not None and "://" in self.address:
            raise InputError(
                f"{self.address} is an address for Ray Client, from outside the cluster; start "
                "the run on a machine of the cluster (ray job submit does) and name host:port "
                "or auto"
            )


def actor_pool(
    options: RayOptions,
    config: CurationConfig,
    resources: Mapping[str, float],
    num_nodes: int,
    num_shards: int,
) -> tuple[int, float]:
    """How many actors there are, and how many GPUs each has.

    Args:
        options ([`RayOptions`]): What was asked for.
        config ([`CurationConfig`]): Names the models.
        resources (`Mapping[str, float]`): The cluster's, as Ray counts them.
        num_nodes (`int`): Machines in the cluster.
        num_shards (`int`): More actors than these would have nothing to do.

    Example:

    >>> eight_gpus = {"CPU": 96.0, "GPU": 8.0}
    >>> config = CurationConfig(summarizer="tgi:http://a:8080", embedder="st:some/model")
    >>> actor_pool(RayOptions(), config, eight_gpus, 1, 500)
    (8, 1.0)
    >>> actor_pool(RayOptions(), CurationConfig(), eight_gpus, 1, 500)
    (96, 0.0)
    """
    specs = [summarizer_spec(config.summarizer), embedder_spec(config.embedder)]
    if config.judge:
        specs.append(chat_spec(config.judge))
    all_served = not any(spec.runs_here for spec in specs)
    heavy = any(spec.needs_gpu for spec in specs)
    gpus = options.gpus_per_actor
    if gpus is None:
        gpus = 1.0 if heavy and resources.get("GPU", 0) >= 1 else 0.0
    if options.actors is not None:
        wanted = options.actors
    elif gpus:
        wanted = int(resources.get("GPU", 0) / gpus)
    elif all_served:
        wanted = num_nodes
    else:
        wanted = int(resources.get("CPU", 1))
    return max(1, min(wanted, num_shards)), float(gpus)


def on_ray(config: CurationConfig, options: RayOptions | None = None) -> Engine:
    """An engine of actors on a Ray cluster.

    Args:
        config ([`CurationConfig`]): The options; each actor loads the models that they name.
        options ([`RayOptions`], *optional*): Where and how wide.

    Raises:
        [`MissingExtraError`]: Ray is not installed.
    """
    options = options or RayOptions()
    # Read when ray is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray.data  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("--engine ray", extra="ray", module=error.name or "ray") from error

    def engine(folder: Path, names: Sequence[str], fingerprint: str) -> Iterator[str]:
        with _connected(options.address) as ray, _no_interrupt_lost() as stop_if_interrupted:
            nodes = [node for node in ray.nodes() if node["Alive"]]
            actors, gpus = actor_pool(
                options, config, ray.cluster_resources(), len(nodes), len(names)
            )
            if gpus and not ray.cluster_resources().get("GPU"):
                raise InputError(
                    "the cluster has no GPU; leave out --gpus-per-actor, or start Ray where it "
                    "sees them"
                )
            rows = _results(ray, folder.absolute(), names, fingerprint, config, actors, gpus)
            for row in rows:
                stop_if_interrupted()
                if row["error"]:
                    raise RPDError(row["error"])
                yield row["name"]
            stop_if_interrupted()

    return engine


def _results(
    ray: Any,
    folder: Path,
    names: Sequence[str],
    fingerprint: str,
    config: CurationConfig,
    actors: int,
    gpus: float,
) -> Iterator[dict[str, Any]]:
    """One row for each shard, as they are finished."""
    chats = bool(config.judge) or asks_chat_model(config.summarizer)
    store = None
    if chats:
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        store = (
            ray.remote(StoreActor)
            .options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
            .remote(str(Path(config.store) if config.store else default_store()))
        )
    at_once = SHARDS_AT_ONCE if chats else 1
    # One shard to a block, so that each is handed out, repeated and given back by itself.
    shards = ray.data.from_items([{"name": name} for name in names], override_num_blocks=len(names))
    scored = shards.map_batches(
        ScoreShards,
        fn_constructor_args=(str(folder), config, fingerprint, actors, store),
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
    rows: Iterator[dict[str, Any]] = scored.iter_rows()
    yield from rows


class ScoreShards:
    """The function that Ray Data maps over shards; each actor holds one.

    Args:
        folder (`str`): Where the shards are, on every machine.
        config ([`CurationConfig`]): The options.
        fingerprint (`str`): What the shards were cut with.
        sharers (`int`): How many actors there are.
        store: The handle of a [`StoreActor`], where chat models are asked.
    """

    def __init__(
        self, folder: str, config: CurationConfig, fingerprint: str, sharers: int, store: Any
    ) -> None:
        self._folder = Path(folder)
        replies = None if store is None else RemoteReplies(store)
        self._worker = ShardWorker(config, fingerprint, sharers=sharers, replies=replies)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """Score the shards of a batch; errors that the user can fix are returned as text."""
        names = [str(name) for name in batch["name"]]
        errors = [self._worker.score(self._folder / (name + WAITING)) or "" for name in names]
        return {"name": names, "error": errors}


class StoreActor:
    """The store of replies, for actors on other machines.

    Args:
        path (`str`): The file, on the machine that this actor runs on.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._store: ReplyStore | None = None

    def find(self, keys: RequestKeys, *, other_lengths: bool) -> ChatReply | StoreError | None:
        """See [`Replies`]; an error is returned, since it must be pickled."""
        try:
            return self._opened().find(keys, other_lengths=other_lengths)
        except StoreError as error:
            return error

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply | StoreError:
        """See [`Replies`]; an error is returned, since it must be pickled."""
        try:
            return self._opened().keep(keys, reply)
        except StoreError as error:
            return error

    def _opened(self) -> ReplyStore:
        if self._store is None:
            self._store = ReplyStore(self._path)
        return self._store


class RemoteReplies:
    """The way to a [`StoreActor`] from any process of the cluster.

    Args:
        actor: Its handle.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def find(self, keys: RequestKeys, *, other_lengths: bool = True) -> ChatReply | None:
        """See [`~rpd_metric.models.store.Replies`]."""
        reply = self._wait(self._actor.find.remote(keys, other_lengths=other_lengths))
        return None if reply is None else _kept(reply)

    def keep(self, keys: RequestKeys, reply: ChatReply) -> ChatReply:
        """See [`~rpd_metric.models.store.Replies`]."""
        return _kept(self._wait(self._actor.keep.remote(keys, reply)))

    def _wait(self, reference: Any) -> Any:
        import ray

        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            raise StoreError(f"the store of replies cannot be reached: {error}") from error


def _kept(reply: ChatReply | StoreError) -> ChatReply:
    if isinstance(reply, StoreError):
        raise reply
    return reply


@contextmanager
def core_log_aside() -> Iterator[None]:
    """Keep what Ray's core writes past Python's streams, to descriptor 2, off the screen.

    It stays in the log files of Ray's session. Progress bars must be made within.
    """
    sys.stderr.flush()
    screen, former = os.dup(2), sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        with os.fdopen(os.dup(screen), "w", buffering=1, encoding="utf-8") as ours:
            if _descriptor(former) == 2:
                sys.stderr = ours
            yield
    finally:
        sys.stderr = former
        os.dup2(screen, 2)
        os.close(screen)


def _descriptor(stream: Any) -> int | None:
    try:
        number: int = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None  # a stream that is no file, as in notebooks
    return number


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


@contextmanager
def _no_interrupt_lost() -> Iterator[Callable[[], None]]:
    """Remember Ctrl-C and SIGTERM, besides raising `KeyboardInterrupt`.

    Python drops an exception that is raised in a destructor or in a callback from Ray's core, and
    on a busy machine the main thread is often there. What is yielded raises it again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    received: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def stop_if_interrupted() -> None:
        if received:
            raise KeyboardInterrupt

    former = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop_if_interrupted
    finally:
        for number, handler in former.items():
            # `None` stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster; quiet, and gone again at the end."""
    import ray
    import ray.data

    if ray.is_initialized():
        yield ray  # connected by the caller, who also disconnects
        return
    options: dict[str, Any] = {
        "configure_logging": True,
        "logging_level": logging.ERROR,
        "log_to_driver": False,
    }
    if address := address or os.environ.get("RAY_ADDRESS"):
        options["address"] = address
        if address not in ("auto", "local"):
            _check_reachable(address)
    else:
        options |= {
            "address": "local",
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options)
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
    data_log = logging.getLogger("ray.data")
    data_log.setLevel(logging.CRITICAL)
    try:
        yield ray
    finally:
        ray.shutdown()
