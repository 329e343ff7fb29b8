"""A run on a Ray cluster of two nodes: whatever is lost, its result is the single process's."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.fake_tgi import FakeTGI
from parts.kill_loop import contents, environment, start, summary, wait_until, write_problems
from parts.openai_embeddings import OpenAIEmbeddings
from parts.ray_cluster import LocalCluster, actors_on, ray_folder
from rpd_datasets import CurationConfig
from rpd_datasets.cli import main
from rpd_datasets.curation.engines import EngineOptions, actor_pool

NUM_PROBLEMS = 40
# Four summaries a problem, and one request to sort them.
NUM_REQUESTS = NUM_PROBLEMS * 5
SLOTS = 4


class Bench:
    """Model servers, an input, and the result of a run in one process to compare with."""

    def __init__(self, folder: Path, chat: FakeTGI, embeddings: OpenAIEmbeddings) -> None:
        self.folder = folder
        self.chat = chat
        self.rows = write_problems(folder / "rows.jsonl", NUM_PROBLEMS)
        self._embeddings = embeddings
        self._finish(self.start("expected"))
        self.expected = contents(folder / "expected")
        assert len(self.chat.requests) == NUM_REQUESTS

    def start(self, name: str, *more: str) -> subprocess.Popen[str]:
        """Start a run with a store of its own."""
        return start(
            *("curate", self.rows, "--json", "--num-problems", "10", "--num-solutions", "2"),
            *("--summarizer", f"tgi:{self.chat.url}"),
            *("--embedder", f"openai:{self._embeddings.url}/v1#minilm"),
            *("--store", self.folder / f"{name}.sqlite"),
            *("--output", self.folder / name, *more),
        )

    def finish_and_compare(self, process: subprocess.Popen[str], name: str) -> int:
        """Wait for the end; returns how many requests were sent more than once."""
        self._finish(process)
        assert contents(self.folder / name) == self.expected
        sent = [json.dumps(one.body, sort_keys=True) for one in self.chat.requests]
        assert len(set(sent)) == NUM_REQUESTS, "a request was lost"
        return len(sent) - len(set(sent))

    def _finish(self, process: subprocess.Popen[str]) -> None:
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    chat = FakeTGI(reply=summary, seconds=0.1, info={"max_concurrent_requests": SLOTS})
    with chat, OpenAIEmbeddings(max_batch=64) as embeddings:
        yield Bench(tmp_path_factory.mktemp("bench"), chat, embeddings)


@pytest.fixture
def servers(bench: Bench) -> Bench:
    bench.chat.requests.clear()
    return bench


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


def on(cluster: LocalCluster) -> list[str]:
    return ["--engine", "ray", "--ray-address", cluster.address, "--shard-size", "4"]


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["worker", "node"])
def test_a_lost_worker_or_node_repeats_only_what_was_in_flight(lost, cluster, servers):
    with cluster.another_node() as node:
        run = servers.start(lost, *on(cluster))
        wait_until(lambda: actors_on(node), run)
        wait_until(lambda: len(servers.chat.requests) >= 40, run)
        if lost == "worker":
            actors_on(node)[0].kill()
        else:
            cluster.lose(node)
        assert run.poll() is None, f"the {lost} was lost in the middle of the run"
        assert servers.finish_and_compare(run, lost) <= SLOTS


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_in_one_line_and_leave_nothing_running(stop, cluster, servers):
    run = servers.start(f"stopped-{stop}", *on(cluster))
    wait_until(lambda: len(servers.chat.requests) >= 20, run)
    os.killpg(run.pid, stop)
    _, err = run.communicate(timeout=300)
    assert run.returncode == 130, err
    assert after_the_bar(err) == ("rpd curate: interrupted; run the same command again to continue")
    wait_until(lambda: not actors_on(cluster.head))


@pytest.mark.slow
def test_without_an_address_a_run_has_a_cluster_of_its_own_with_models_in_its_actors(tmp_path):
    assert curate_sample(tmp_path / "one").returncode == 0
    # One actor: what is to be seen is that it loads the models, not how fast.
    with ray_folder():
        run = curate_sample(
            tmp_path / "two", "--engine", "ray", "--num-proc", "1", "--shard-size", "2"
        )
    assert run.returncode == 0, run.stderr
    assert "Ray" not in run.stderr, "its log stays off the screen"
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def curate_sample(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "rpd_datasets.cli", "curate", "sample", "--limit", "4"),
        *("--num-problems", "2", "--num-solutions", "2", "--output", str(folder / "out"), *more),
    ]
    env = {name: value for name, value in environment().items() if name != "RAY_ADDRESS"}
    # As users have it: Ray makes a token for its own cluster, in the home folder.
    del env["RAY_AUTH_MODE"]
    env["HOME"] = str(folder.parent)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


def after_the_bar(err: str) -> str:
    """The screen below the progress bar."""
    return err.replace("\r", "\n").rstrip().rpartition("\n")[2]


def test_an_address_where_nothing_listens_is_one_line_and_does_not_take_minutes(capsys, tmp_path):
    arguments = ["curate", "sample", "-o", str(tmp_path / "out"), "--engine", "ray"]
    assert main([*arguments, "--ray-address", "127.0.0.1:1"]) == 1
    assert "no Ray cluster answers at 127.0.0.1:1" in after_the_bar(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ray-address", "auto"], "--ray-address goes with --engine ray"),
        (["--engine", "ray", "--ray-address", "ray://head:10001"], "name its head as host:port"),
        (["--num-proc", "0"], "must be >= 1, got 0"),
        (["--num-proc", "2", "--shard-size", "0"], "must be >= 1, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(arguments, message, capsys, tmp_path):
    assert main(["curate", "sample", "-o", str(tmp_path / "out"), *arguments]) == 1
    assert message in capsys.readouterr().err


NODES = {"CPU": 192.0, "GPU": 16.0}


@pytest.mark.parametrize(
    ("config", "options", "resources", "expected"),
    [
        ({"summarizer": "tgi:http://a", "embedder": "openai:http://b#m"}, {}, NODES, (2, 0)),
        ({"summarizer": "tgi:http://a", "embedder": "st:m"}, {}, NODES, (16, 1)),
        ({"summarizer": "tgi:http://a", "embedder": "st:m"}, {}, {"CPU": 8.0}, (8, 0)),
        ({}, {}, NODES, (192, 0)),
        ({}, {"num_proc": 3}, NODES, (3, 0)),
        ({"judge": "hf:m"}, {}, NODES, (16, 1)),
    ],
)
def test_there_are_as_many_actors_as_what_they_wait_for(config, options, resources, expected):
    pool = actor_pool(EngineOptions(**options), CurationConfig(**config), resources, 2, 1000)
    assert pool == expected
