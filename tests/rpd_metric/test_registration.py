"""`evaluate.load("rpd")` finds the packaged metric: any directory, any import order, offline."""

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


@pytest.mark.parametrize("modules", ["evaluate, rpd_metric", "rpd_metric, evaluate"])
def test_load_works_in_any_order_of_imports_beside_a_folder_called_rpd(modules, tmp_path):
    (tmp_path / "rpd").mkdir()
    (tmp_path / "rpd" / "rpd.py").write_text("raise SystemExit('the wrong module was loaded')")
    done = subprocess.run(
        [sys.executable, "-c", f"import {modules};{COMPUTE}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
