"""The benchmark of curation: a tiny run, and the corpus it stands on."""

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


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["openthoughts", "grouped"])
def test_all_problems_go_through(layout, tmp_path):
    command = [sys.executable, str(BENCHMARKS / "corpus.py"), "--sizes", "20", "--layout", layout]
    command += ["--num-problems", "5", "--characters", "600", "--json", "--scratch", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    figures = json.loads(done.stdout)["sizes"]["20"]
    assert figures["curate"]["problems"] == figures["score"]["problems"] == 20
    assert 20 * 14 < figures["curate"]["usable"] <= 20 * 16


def test_the_corpus_is_a_function_of_its_numbers(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # scripts of one folder import each other
    import synthetic

    small, large = synthetic.Corpus(3, characters=400), synthetic.Corpus(9, characters=400)
    small.write(tmp_path / "flat.parquet")
    rows = pq.read_table(tmp_path / "flat.parquet").to_pylist()
    texts = {row["conversations"][1]["value"] for row in rows}

    assert texts == {large.solution(number, index) for number in range(3) for index in range(16)}
    assert len(texts) == 3 * 16
