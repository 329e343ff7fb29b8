"""Shards scored by several processes of this machine.

For models that run here on the CPU: each process loads its own. Where servers do the work one
process keeps them busy, and this does not help. More than one machine is `ray_cluster.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tqdm.std import tqdm

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.shards import WAITING, Engine, ShardWorker
from rpd_metric.errors import InputError, RPDError


def local_processes(config: CurationConfig, num_proc: int) -> Engine:
    """An engine of worker processes.

    Args:
        config ([`CurationConfig`]): The options; each process loads the models that they name.
        num_proc (`int`): How many.

    Raises:
        [`InputError`]: `num_proc` is below one.
    """
    if num_proc < 1:
        raise InputError(f"{num_proc} processes score nothing; choose 1 or more")

    def engine(folder: Path, names: Sequence[str], fingerprint: str) -> Iterator[str]:
        workers = min(num_proc, len(names))
        life, ours = multiprocessing.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(life, num_proc),
        )
        try:
            futures = [
                pool.submit(_score, folder, name, config, fingerprint, workers) for name in names
            ]
            for future in as_completed(futures):
                name, error = future.result()
                if error is not None:
                    raise RPDError(error)
                yield name
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

    return engine


def _start(life: Connection, num_proc: int) -> None:
    """Prepare a worker: it goes when the run does, however that ends."""
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


def _score(
    folder: Path, name: str, config: CurationConfig, fingerprint: str, sharers: int
) -> tuple[str, str | None]:
    return name, _worker(config, fingerprint, sharers).score(folder / (name + WAITING))


@lru_cache(maxsize=1)
def _worker(config: CurationConfig, fingerprint: str, sharers: int) -> ShardWorker:
    return ShardWorker(config, fingerprint, sharers=sharers)
