"""The benchmark of curation, on a corpus made here: a tiny run from its command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_all_problems_go_through(tmp_path):
    command = [sys.executable, "benchmarks/corpus.py", "--sizes", "20", "--characters", "600"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    usable = re.search(r"^\| 20 +\| (\d+) of 320 +\| ", done.stdout, re.MULTILINE)
    assert usable is not None, done.stdout
    assert 20 * 14 < int(usable[1]) <= 320
