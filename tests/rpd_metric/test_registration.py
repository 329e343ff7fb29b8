"""`evaluate.load("rpd")` finds the packaged metric: any directory, any import order, offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPUTE = (
    'r = evaluate.load("rpd").compute(predictions=[[["Expand the product."], ["Use symmetry."]]]);'
    'assert 0 < r["rpd"] < 2, r'
)


def python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that finds the package but nothing of the test's state."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"} | environment
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("modules", ["evaluate, rpd_metric", "rpd_metric, evaluate"])
def test_load_works_in_any_order_of_imports_beside_a_folder_called_rpd(modules, tmp_path):
    (tmp_path / "rpd").mkdir()
    (tmp_path / "rpd" / "rpd.py").write_text("raise SystemExit('the wrong module was loaded')")
    done = python(f"import {modules};{COMPUTE}", tmp_path)
    assert done.returncode == 0, done.stderr


def test_after_write_to_cache_load_works_without_importing_the_package(tmp_path):
    cache = {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HOME": str(tmp_path / "home")}
    without = python("import evaluate;" + COMPUTE, tmp_path, **cache)
    assert without.returncode != 0
    write = "from rpd_metric.registration import write_to_cache; write_to_cache()"
    assert python(write, tmp_path, **cache).returncode == 0
    second = "evaluate.load('pass_at_k').compute(predictions=[[1, 0]])"
    done = python(f"import evaluate;{COMPUTE};{second}", tmp_path, **cache)
    assert done.returncode == 0, done.stderr
