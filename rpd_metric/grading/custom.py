"""Grading by a function of the user's own, in the place of `grading.Grader`.

    def check(answer: str, response: str) -> bool:  # in checks.py
        ...

For tasks whose answers are more than a value. The function runs in this process: it has to end by
itself, and what it raises is its own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pkgutil import resolve_name
from runpy import run_path

from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.mathematics import Grader

FORMS = "file.py:function or package.module:function, the function one of (answer, response)"


class OwnGrader(AbstractContextManager["OwnGrader"]):
    """Grades by a function, `"file.py:function"` or `"package.module:function"`, that gets a row's
    reference answer as text and a response, and returns a `bool`. Raises [`InputError`].
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        place, _, name = spec.rpartition(":")
        try:
            check = run_path(place).get(name) if place.endswith(".py") else resolve_name(spec)
        except (ImportError, AttributeError, OSError, ValueError) as error:
            message = f"the grader {spec!r} cannot be loaded: {error}; use {FORMS}"
            raise InputError(message) from error
        if not callable(check):
            raise InputError(f"the grader {spec!r} is not a function; use {FORMS}")
        self._check: Callable[[str, str], object] = check

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    close = __exit__

    def grade(self, rows: Iterable[tuple[str | int | float, str]]) -> Iterator[Verdict]:
        """Grade rows as they come, see [`~rpd_metric.grading.mathematics.Grader.grade`]."""
        return (self.verdict(*row) for row in rows)

    def verdict(self, gold: str | int | float, response: str) -> Verdict:
        """Grade one row."""
        right = self._check(str(gold), response)
        if not isinstance(right, bool):
            raise InputError(f"{self.spec} returned {right!r}; a grader returns True or False")
        return Verdict.CORRECT if right else Verdict.WRONG


GraderLike = Grader | OwnGrader


def load_grader(spec: str | None = None, *, workers: int | None = None) -> GraderLike:
    """The grader that a spec names; mathematics, in so many processes, without one."""
    return Grader(workers=workers) if spec is None else OwnGrader(spec)
