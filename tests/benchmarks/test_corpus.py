"""The benchmark of curation, on a corpus made here: a tiny run from its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["openthoughts", "grouped"])
def test_all_problems_go_through(layout, tmp_path):
    command = [sys.executable, "benchmarks/corpus.py", "--sizes", "20", "--layout", layout]
    command += ["--num-problems", "5", "--characters", "600", "--json", "--scratch", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    figures = json.loads(done.stdout)["sizes"]["20"]
    assert figures["curate"]["problems"] == 20
    assert 20 * 14 < figures["curate"]["usable"] <= 20 * 16
