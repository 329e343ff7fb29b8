"""Makes `evaluate.load("rpd")` find the packaged metric in any directory, offline.

`evaluate` looks for a bare name in `./rpd/rpd.py`, then on the Hub (minutes on a dead
network), then in its modules cache. `register` puts the packaged file before all three by
wrapping the one function of `evaluate` that resolves names; every other name goes through
unchanged. `evaluate` itself is not imported: it is slow to import, so its wrapping waits until
somebody else imports it.
"""

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

METRIC = Path(__file__).parent / "metrics" / "rpd" / "rpd.py"


def register() -> None:
    """Resolve `evaluate.load("rpd")` to the packaged metric, now or once `evaluate` is imported.

    Calling it again changes nothing.
    """
    if "evaluate.loading" in sys.modules:
        _wrap(sys.modules["evaluate.loading"])
    elif not any(isinstance(finder, _WhenEvaluateIsImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenEvaluateIsImported())


def _wrap(loading: ModuleType) -> None:
    resolve: Callable[..., Any] = loading.evaluation_module_factory
    if getattr(resolve, "knows_rpd", False):
        return

    def evaluation_module_factory(
        path: str, module_type: str | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        if path == "rpd" and module_type in (None, "metric"):
            path = str(METRIC)
        return resolve(path, module_type, *args, **kwargs)

    evaluation_module_factory.knows_rpd = True  # type: ignore[attr-defined]
    # These modules hold a name of their own for the function, if they are imported already.
    for name in ("evaluate.loading", "evaluate.inspect", "evaluate.evaluation_suite"):
        module: Any = sys.modules.get(name)
        if getattr(module, "evaluation_module_factory", None) is resolve:
            module.evaluation_module_factory = evaluation_module_factory


class _WhenEvaluateIsImported:
    """Runs `_wrap` right after `evaluate.loading` has been executed, then gets out of the way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find `evaluate.loading` the ordinary way and hook its execution."""
        if fullname != "evaluate.loading":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _wrap(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
