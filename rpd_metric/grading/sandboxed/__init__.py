"""Sources that run inside a sandbox: a function on trial and, apart from it, its checker.

They are two processes in two sandboxes, joined by two pipes. The candidate sees arguments and
nothing else; the checker sees plain data (`wire.py`) and never an object of the candidate's.
These files are sent as text and import nothing of this package: the sandbox does not hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any


def candidate_source(
    code: str, name: str | None, prelude: str = "", seconds: float | None = None
) -> str:
    """The program that holds a model's code and answers calls of one of its functions.

    `name` is the function, or the method of its class `Solution`; `None` is the whole program,
    which may take so many seconds. `prelude` runs first.
    """
    return _program("candidate.py", f"main({code!r}, {name!r}, {prelude!r}, {seconds!r})")


def checker_source() -> str:
    """The program that runs a function's tests; what to test comes on its standard input."""
    return _program("checker.py", "main()")


def counter_source(code: str, name: str, prelude: str, tests: Sequence[Any]) -> str:
    """The program that prints how many lines a function runs on the inputs of tests."""
    return _program("counter.py", f"main({code!r}, {name!r}, {prelude!r}, {list(tests)!r})")


def _program(name: str, call: str) -> str:
    folder = resources.files(__package__)
    parts = [(folder / file).read_text(encoding="utf-8") for file in ("wire.py", name)]
    # Each part opens with a docstring and this import, which must come first in a file.
    start = "from __future__ import annotations\n"
    return start + "".join(part.partition(start)[2] for part in parts) + f"\n\n{call}\n"
