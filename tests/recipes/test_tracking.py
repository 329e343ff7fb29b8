"""A run is followed in Trackio, on this machine: its curves, and completions with their RPD."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from parts.recipe_scripts import RECIPES
from parts.tiny_models import tiny_model


@pytest.mark.slow
def test_rewards_and_a_table_of_completions_with_their_rpd_are_tracked(tmp_path: Path):
    problems = [{"problem": f"{n} + {n}", "answer": str(2 * n)} for n in range(4)]
    (tmp_path / "problems.json").write_text(json.dumps(problems), encoding="utf-8")
    line = [sys.executable, str(RECIPES / "grpo.py")]
    line += ["--config", str(RECIPES / "configs/tiny/grpo.yaml"), "--max_steps", "2"]
    line += ["--model_name_or_path", str(tiny_model(tmp_path / "model", "qwen3"))]
    line += ["--problems", str(tmp_path / "problems.json"), "--output_dir", str(tmp_path / "out")]
    line += ["--report_to", "trackio", "--project", "rpd", "--run_name", "first"]
    line += ["--watch_diversity", "true", "--log_completions", "true", "--logging_steps", "1"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(RECIPES.parent),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with closing(sqlite3.connect(tmp_path / "trackio/rpd.db")) as database:
        logged = [json.loads(text) for (text,) in database.execute("SELECT metrics FROM metrics")]
    names = {name for row in logged for name in row}
    assert {"train/loss", "train/rewards/accuracy/mean", "train/rewards/diversity/mean"} <= names
    tables = [row["completions"] for row in logged if "completions" in row]
    rows = [row for table in tables for row in table["_value"]]
    assert {row["step"] for row in rows} == {1, 2}
    assert {"prompt", "completion", "accuracy", "diversity", "advantage"} <= set(rows[0])
    # It is watched, and no part of the sum that is rewarded.
    settings = json.loads((tmp_path / "out/recipe.json").read_text(encoding="utf-8"))["settings"]
    assert settings["watch_diversity"] is True
    assert settings["diversity_weight"] == 0
