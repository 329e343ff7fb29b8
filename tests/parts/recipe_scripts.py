"""The scripts under recipes/, as modules and as programs: they are run by path, in no package."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

RECIPES = Path(__file__).parents[2] / "recipes"


def script(name: str) -> ModuleType:
    """Load `recipes/<name>.py`."""
    key = f"recipe_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, RECIPES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name.
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


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
