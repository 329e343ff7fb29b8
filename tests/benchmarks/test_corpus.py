"""The benchmarks of curation and of embedding: a tiny run of each, and what they stand on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """The benchmarks import each other by name, as scripts of one folder do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["openthoughts", "grouped"])
def figures(request, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("corpus")
    arguments = ["--sizes", "20", "--num-problems", "5", "--characters", "600", "--json"]
    printed = run("corpus.py", *arguments, "--scratch", str(scratch), "--layout", request.param)
    assert list(scratch.iterdir()) == []
    return json.loads(printed)


@pytest.mark.slow
def test_all_problems_go_through(figures):
    ours = figures["sizes"]["20"]["curate"]

    assert ours["problems"] == 20
    assert 20 * 14 < ours["usable"] <= 20 * 16
    assert figures["sizes"]["20"]["score"]["problems"] == 20


def test_the_corpus_is_a_function_of_its_numbers(benchmarks, tmp_path):
    import synthetic

    small, large = synthetic.Corpus(3, characters=400), synthetic.Corpus(9, characters=400)
    small.write(tmp_path / "flat.parquet")
    rows = pq.read_table(tmp_path / "flat.parquet").to_pylist()
    texts = {row["conversations"][1]["value"] for row in rows}

    assert texts == {large.solution(number, index) for number in range(3) for index in range(16)}
    assert len(texts) == 3 * 16


def test_the_chat_knows_the_steps_of_the_solution_it_is_shown(benchmarks):
    import synthetic

    from rpd_metric.steps.replies import parse_steps

    corpus = synthetic.Corpus(3, characters=400)
    reply = synthetic.InstantChat(corpus).reply(f"Summarise this: {corpus.solution(2, 7)}")

    assert list(parse_steps(reply)) == corpus.steps(2, 7)
