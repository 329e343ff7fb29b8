"""The scripts under recipes/, as modules: they are run by path and belong to no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

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
