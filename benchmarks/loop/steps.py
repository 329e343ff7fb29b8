"""What curation reads of the small task's solutions, in the place of a language model's summaries.

- `StatedSteps`: the lines before the answer, each of which is a step in words and arithmetic;
- `Labels` with `Exact`: the true strategy, equal or not; the ceiling of what a distance can know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.loop.task import strategy_of
from rpd_metric.steps.protocol import MAX_STEPS, Summary


class StatedSteps:
    """The steps that a solution states itself: its lines before the boxed answer."""

    name = "stated"
    fingerprint = "stated/1"

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """The lines of each solution."""
        del problem
        return [stated(solution) for solution in solutions]


class Labels:
    """The true strategy as the only step."""

    name = "labels"
    fingerprint = "labels/1"

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """The strategy of each solution."""
        del problem
        return [Summary((strategy_of(solution),)) for solution in solutions]


class Exact:
    """An embedder for labels: different texts are at distance 1."""

    name = "exact"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One axis per text."""
        places = [self._places.setdefault(text, len(self._places)) for text in texts]
        return np.eye(64, dtype=np.float32)[places]


def stated(solution: str) -> Summary:
    """The steps of one solution."""
    lines = [line.strip() for line in solution.splitlines()]
    steps = [line for line in lines if line and "\\boxed" not in line]
    if not steps:
        return Summary((), "no_steps", "the solution has no line before its answer")
    return Summary(tuple(steps[:MAX_STEPS]))
