"""A Ray cluster of several nodes on this machine, whose processes can be killed one by one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

# Ray sends usage statistics unless this is set.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Whether the user has a token in the home folder must not matter.
os.environ["RAY_AUTH_MODE"] = "disabled"

OBJECT_STORE_BYTES = 100_000_000


@contextlib.contextmanager
def ray_folder() -> Iterator[str]:
    """The variable RAY_TMPDIR for everything that Ray writes, in a folder that is removed again.

    `Cluster` writes its address below RAY_TMPDIR whatever `temp_dir` says, and fails where that
    folder is missing; so the variable is set and `temp_dir` is not. The path is short, because
    that of a socket may have about a hundred characters only.
    """
    with (
        tempfile.TemporaryDirectory("", "ray-", "/tmp", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        yield folder


class LocalCluster:
    """A head node, to which others can be added; a context manager.

    Nothing of it outlives the context: neither processes nor the folder of its sockets.
    """

    def __enter__(self) -> LocalCluster:
        from ray.cluster_utils import Cluster

        with contextlib.ExitStack() as stack:
            stack.enter_context(ray_folder())
            self._cluster = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 1,
                    "object_store_memory": OBJECT_STORE_BYTES,
                    "include_dashboard": False,
                },
            )
            self._folder = stack.pop_all()
        self.head = self._cluster.head_node
        return self

    def __exit__(self, *_: object) -> None:
        nodes = (self.head, *self._cluster.worker_nodes)
        left = [process for node in nodes for process in _processes_of(node)]
        self._cluster.shutdown()
        _kill(left)
        self._folder.close()

    @property
    def address(self) -> str:
        """What `--ray-address` takes."""
        return str(self._cluster.address)

    @contextlib.contextmanager
    def another_node(self) -> Iterator[Any]:
        """A second node, removed again at the end if it is still there."""
        node = self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES)
        try:
            yield node
        finally:
            if node in self._cluster.worker_nodes:
                self.lose(node)

    def lose(self, node: Any) -> None:
        """Take a node away with all of its processes."""
        family = _processes_of(node)
        self._cluster.remove_node(node, allow_graceful=False)
        _kill(family)


def actors_on(node: Any) -> list[psutil.Process]:
    """The processes on a node that score."""
    found = []
    for process in _processes_of(node):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "ScoreShards" in " ".join(process.cmdline()):
                found.append(process)
    return found


def _processes_of(node: Any) -> list[psutil.Process]:
    for info in node.all_processes.get("raylet", ()):
        with contextlib.suppress(psutil.NoSuchProcess):
            raylet = psutil.Process(info.process.pid)
            return [raylet, *raylet.children(recursive=True)]
    return []


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)
