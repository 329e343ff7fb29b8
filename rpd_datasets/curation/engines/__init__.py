"""Who scores: this process, several of this machine, or actors on a Ray cluster.

[`EngineOptions`] says which; the result is the same. The engines are `processes.py` and
`ray_cluster.py`, which are imported when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.shards import SHARD_SIZE, Engine
from rpd_datasets.options import documented, option
from rpd_metric.errors import InputError


@documented
@dataclass(frozen=True)
class EngineOptions:
    """Where problems are scored."""

    num_proc: int = option(
        1,
        "processes of this machine, each with its own copy of the models that run here. Where "
        "servers do the work it does not help: one process keeps them busy",
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
    ray_actors: int | None = option(
        None,
        "processes that score (default: one per GPU for models that run there, one per machine "
        "where servers do all the work, else one per core)",
        metavar="N",
    )
    gpus_per_actor: float | None = option(
        None,
        "GPUs of each, e.g. 0.5 (default: 1 where there are any and st: or hf: runs on them)",
        metavar="SHARE",
    )
    shard_size: int = option(SHARD_SIZE, "problems that a process is handed at a time", metavar="N")

    def load(self, config: CurationConfig) -> Engine | None:
        """The engine; `None` is this process.

        Args:
            config ([`CurationConfig`]): Names the models that each worker loads.

        Raises:
            [`InputError`]: Options contradict each other.
            [`MissingExtraError`]: Ray is not installed.
        """
        if (self.engine == "ray" or self.num_proc > 1) and config.requests.budget().limited:
            raise InputError(
                "a budget is counted by one process, which keeps a server busy: leave out "
                "--num-proc and --engine, or the budget"
            )
        if self.engine == "ray":
            from rpd_datasets.curation.engines.ray_cluster import RayOptions, on_ray

            if self.num_proc != 1:
                raise InputError(
                    "--num-proc is for one machine; with --engine ray use --ray-actors"
                )
            options = RayOptions(self.ray_address, self.ray_actors, self.gpus_per_actor)
            return on_ray(config, options)
        for name in ("ray_address", "ray_actors", "gpus_per_actor"):
            if getattr(self, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} goes with --engine ray")
        if self.num_proc == 1:
            return None
        from rpd_datasets.curation.engines.processes import local_processes

        return local_processes(config, self.num_proc)
