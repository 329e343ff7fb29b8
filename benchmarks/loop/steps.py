"""What curation reads of the small task's solutions, in the place of a language model's summaries.

- `StatedSteps`: the lines before the answer, each of which is a step in words and arithmetic;
- `Labels` with `Exact`: the true strategy, equal or not; the ceiling of what a distance can know;
- `Kept`: an embedder that never encodes a text twice, in any process: the arms share most steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.loop.task import strategy_of
from rpd_metric.models.embedders import Embedder
from rpd_metric.steps.protocol import MAX_STEPS, Summary

# SQLite takes no more variables in one statement on old builds.
_AT_ONCE = 900


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


class Kept:
    """An embedder whose vectors are kept in a file.

    Args:
        embedder ([`~rpd_metric.models.embedders.Embedder`]): Encodes what is new.
        file (`Path`): Several processes may use it.
    """

    def __init__(self, embedder: Embedder, file: Path) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._file = file
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        with closing(self._open()) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS vectors (text TEXT PRIMARY KEY, v BLOB)")

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """See [`~rpd_metric.models.embedders.Embedder`]."""
        self._look_up([text for text in dict.fromkeys(texts) if text not in self._vectors])
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = np.asarray(self._embedder.encode(new), dtype=np.float32)
            self._vectors.update(zip(new, vectors, strict=True))
            with closing(self._open()) as database, database:
                database.executemany(
                    "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                    [(text, self._vectors[text].tobytes()) for text in new],
                )
        return np.stack([self._vectors[text] for text in texts])

    def _look_up(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        with closing(self._open()) as database:
            for start in range(0, len(texts), _AT_ONCE):
                asked = texts[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(asked))
                found = database.execute(
                    f"SELECT text, v FROM vectors WHERE text IN ({marks})", asked
                )
                for text, vector in found:
                    self._vectors[text] = np.frombuffer(vector, dtype=np.float32)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)


def stated(solution: str) -> Summary:
    """The steps of one solution."""
    lines = [line.strip() for line in solution.splitlines()]
    steps = [line for line in lines if line and "\\boxed" not in line]
    if not steps:
        return Summary((), "no_steps", "the solution has no line before its answer")
    return Summary(tuple(steps[:MAX_STEPS]))
