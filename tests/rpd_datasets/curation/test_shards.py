"""Shards: named by content, scored once, and gone when the journal has what came of them."""

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from parts.kill_loop import contents, start, wait_until, write_problems
from parts.openai_embeddings import OpenAIEmbeddings
from rpd_datasets import CurationConfig, FilterConfig
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.curation.engines import (
    Engine,
    EngineOptions,
    cut,
    problems_of,
    score_in_shards,
    score_shard,
)
from rpd_datasets.curation.folder import Journal
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import scoring_fingerprint
from rpd_datasets.problem import Problem
from rpd_metric.models.spec import load_embedder

CONFIG = CurationConfig(num_problems=5, num_solutions=2, filters=FilterConfig(min_solutions=2))
FINGERPRINT = "f" * 64


def problem(n: int, **extra) -> Problem:
    texts = tuple(f"Add {n} to {i}. Check it. The answer is {n}." for i in range(3))
    return Problem(f"Problem {n}", texts, extra, f"rows.jsonl:{n}")


class Here:
    """An engine in this process, which remembers its shards and can stop after some."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.shards: list[Path] = []

    def __call__(self, shards: Sequence[Path], fingerprint: str) -> Iterator[str]:
        for shard in shards:
            if len(self.shards) == self.stop_after:
                raise KeyboardInterrupt
            self.shards.append(shard)
            yield score_shard(shard, CONFIG, fingerprint)


def journal_in(folder: Path, fingerprint: str = FINGERPRINT) -> Journal:
    return Journal(folder / f"{fingerprint[:5]}.sqlite", fingerprint, CONFIG.filters)


def test_a_shard_gives_back_its_problems_with_the_one_column_that_scoring_looks_at(tmp_path):
    odd = Problem("half a surrogate \ud800", ("a\0b", "c"), {"correct": [True, False], "big": 1})
    (shard,) = cut([odd], tmp_path, journal_in(tmp_path), 4)
    (back,) = problems_of(shard)
    assert (back.problem, back.solutions) == (odd.problem, odd.solutions)
    assert back.extra == {"correct": [True, False], "big": None}


def test_only_problems_that_the_journal_lacks_or_that_a_server_failed_are_cut(tmp_path):
    journal = journal_in(tmp_path, scoring_fingerprint(CONFIG, load_models(CONFIG)))
    first, count = Here(), itertools.count()
    problems = [problem(n) for n in range(6)]

    def run(engine: Here) -> None:
        folder = tmp_path / "shards"
        score_in_shards(problems, journal, folder, Engine(engine, 2), count.__next__)
        assert not folder.exists()

    run(first)
    assert len(first.shards) == 3
    assert next(count) == 6
    key, known = journal.key(problems[3]), journal.find(problems[3])
    down = problems[3].rejected("steps", "model_error", "down", 0)
    journal.put(key, replace(known, rejects=[down]).as_record())
    again = Here()
    run(again)
    assert len(again.shards) == 1
    assert journal.find(problems[3]) == known
    assert next(count) == 13


def test_finished_shards_of_a_killed_run_are_taken_up_whatever_size_they_have_now(tmp_path):
    rows = write_problems(tmp_path / "rows.jsonl", 12)
    expected = curate_dataset(rows, tmp_path / "expected", CONFIG)
    with pytest.raises(KeyboardInterrupt):
        curate_dataset(rows, tmp_path / "out", CONFIG, engine=Engine(Here(stop_after=2), 3))
    rest = Here()
    curate_dataset(rows, tmp_path / "out", CONFIG, engine=Engine(rest, 2))
    assert len(rest.shards) == 3, "six of twelve problems, two at a time"
    assert contents(tmp_path / "out") == contents(expected.folder)


def test_a_machine_that_sees_no_folder_or_would_score_differently_says_so_in_one_line(tmp_path):
    said = score_shard(tmp_path / "elsewhere" / "shard", CONFIG, FINGERPRINT)
    assert "must be on a file system that every machine has under the same path" in said
    (shard,) = cut([problem(1)], tmp_path, journal_in(tmp_path), 4)
    said = score_shard(shard, CONFIG, FINGERPRINT)
    assert "another version of this package, or a server with another model" in said


@pytest.fixture(scope="module")
def server():
    """So that worker processes need not load a model each."""
    with OpenAIEmbeddings(max_batch=64) as server:
        yield server


@pytest.fixture
def embeddings(server):
    return f"openai:{server.url}/v1#minilm"


def begin(rows: Path, output: Path, *more: str) -> subprocess.Popen[str]:
    size = ("--num-problems", "5", "--num-solutions", "2")
    return start("curate", rows, "-o", output, *size, "--json", *more)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(process.pid).children()
        if "spawn_main" in " ".join(child.cmdline())
    ]


@pytest.fixture
def half_done(tmp_path, server, embeddings):
    """A run by two processes, some of whose shards are finished."""
    before = len(server.requests)
    rows = write_problems(tmp_path / "rows.jsonl", 100)
    by_two = ("--num-proc", "2", "--shard-size", "2")
    process = begin(rows, tmp_path / "out", "--embedder", embeddings, *by_two)
    wait_until(lambda: len(server.requests) >= before + 12, process)
    wait_until(lambda: len(workers_of(process)) == 2, process)
    yield process, workers_of(process)
    process.kill()
    process.wait()


@pytest.mark.slow
def test_when_the_run_is_killed_its_processes_go_too_and_the_next_run_goes_on(
    half_done, tmp_path, embeddings
):
    process, workers = half_done
    process.kill()
    process.communicate()
    gone, alive = psutil.wait_procs(workers, timeout=120)
    assert (len(gone), alive) == (2, [])
    for name in ("out", "expected"):
        run = begin(tmp_path / "rows.jsonl", tmp_path / name, "--embedder", embeddings)
        run.communicate()
        assert run.returncode == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "status", "says"),
    [
        (lambda run, _: os.killpg(run.pid, signal.SIGINT), 130, "to continue"),
        (lambda _, workers: workers[0].kill(), 1, "a worker process was killed"),
    ],
)
def test_ctrl_c_and_a_killed_worker_end_all_processes_in_one_line(half_done, stop, status, says):
    process, workers = half_done
    stop(process, workers)
    _, err = process.communicate(timeout=300)
    assert process.returncode == status, err
    assert says in err.rstrip().splitlines()[-1]
    assert "Traceback" not in err
    assert not psutil.wait_procs(workers, timeout=120)[1]


@pytest.mark.slow
def test_threads_and_processes_give_equal_bytes(tmp_path):
    import torch

    rows = write_problems(tmp_path / "rows.jsonl", 12)
    config = replace(CONFIG, filters=FilterConfig(min_solutions=2, require_complete=False))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        curate_dataset(str(rows), tmp_path / "one", config)
        torch.set_num_threads(2)
        embedder = load_embedder(config.embedder)
        models = replace(load_models(config), embedder=embedder)
        curate_dataset(str(rows), tmp_path / "torch", config, models=models)
        curate_dataset(str(rows), tmp_path / "threads", replace(config, threads=2))
    finally:
        torch.set_num_threads(before)
    engine = EngineOptions(num_proc=2, shard_size=2).load(config)
    curate_dataset(str(rows), tmp_path / "processes", config, engine=engine)
    expected = contents(tmp_path / "one")
    for name in ("torch", "threads", "processes"):
        assert contents(tmp_path / name) == expected, name
