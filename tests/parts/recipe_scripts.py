"""The scripts under recipes/, as modules and as programs."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

RECIPES = Path(__file__).parents[2] / "recipes"


def script(name: str) -> ModuleType:
    """`recipes/<name>.py` as a module."""
    return importlib.import_module(f"recipes.{name}")


TINY_SFT = ["--config", str(RECIPES / "configs/tiny/sft.yaml"), "--disable_tqdm", "true"]


def fine_tune(here: Path, family: str, output: str, *more: str) -> Path:
    """Train a folder's tiny model on its `sums.jsonl`; returns the folder of the run."""
    line = ["--model_name_or_path", str(here / family), "--data", str(here / "sums.jsonl")]
    script("sft").main([*TINY_SFT, *line, "--output_dir", str(here / output), *more])
    return here / output


def launch(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program that must succeed, with this source tree."""
    environment = {**os.environ, "PYTHONPATH": str(RECIPES.parent), **env}
    line = [sys.executable, *map(str, command)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def history(output: Path, value: str) -> list[dict[str, Any]]:
    """The rows of a run's log, of its last checkpoint, that hold a value."""
    states = output.glob("checkpoint-*/trainer_state.json")
    last = max(states, key=lambda state: int(state.parent.name.partition("-")[2]))
    rows = json.loads(last.read_text(encoding="utf-8"))["log_history"]
    return [row for row in rows if value in row]
