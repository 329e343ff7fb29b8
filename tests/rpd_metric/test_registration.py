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


@pytest.mark.parametrize(
    "imports",
    [
        "import evaluate, rpd_metric;",
        "import rpd_metric, evaluate;",
        "import rpd_metric.distance.core, evaluate;",
    ],
)
def test_load_works_in_any_directory_and_import_order(imports, tmp_path):
    done = python(imports + COMPUTE, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_folder_called_rpd_does_not_shadow_the_metric(tmp_path):
    (tmp_path / "rpd").mkdir()
    (tmp_path / "rpd" / "rpd.py").write_text("raise SystemExit('the wrong module was loaded')")
    done = python("import evaluate, rpd_metric;" + COMPUTE, tmp_path)
    assert done.returncode == 0, done.stderr


def test_after_write_to_cache_load_works_without_importing_the_package(tmp_path):
    cache = {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HOME": str(tmp_path / "home")}
    without = python("import evaluate;" + COMPUTE, tmp_path, **cache)
    assert without.returncode != 0
    done = python(
        "from rpd_metric.registration import write_to_cache; print(write_to_cache())",
        tmp_path,
        **cache,
    )
    assert done.returncode == 0, done.stderr
    second = (
        "p = evaluate.load('pass_at_k').compute(predictions=[[1, 0]]); assert p['pass@1'] == 0.5"
    )
    done = python(f"import evaluate;{COMPUTE};{second}", tmp_path, **cache)
    assert done.returncode == 0, done.stderr
