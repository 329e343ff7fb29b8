"""The four labelled sets of problems, read and encoded once, for the benchmarks of distances.

`controlled`, `dev`, `train` and `long` are described in `strategies.md`. Vectors are kept in a file
that git ignores, by encoder and text: a run that was cut off goes on, and a second one encodes
nothing.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rpd_datasets.judging.labels import Labels
from rpd_metric.distance.evidence import Evidence
from rpd_metric.metrics.matrices import READINGS, gather
from rpd_metric.models.concurrency import run
from rpd_metric.models.embedders import Embedder
from rpd_metric.steps.extractive import ExtractiveSummarizer

Array = Any

FILES = {
    "controlled": "strategy_bench/controlled.jsonl",
    "dev": "strategy_bench/dev.jsonl",
    "train": "strategy_bench/train.jsonl",
    "long": "long_cot/labelled.jsonl",
}
# What a calibration curve calls each source of steps.
CURVE_STEPS = {"LLM": "chat", "extractive": "extractive", "": ""}
# Texts between two commits of the file of vectors.
_BATCH = 256


class KeptVectors:
    """An encoder that encodes each text once, ever.

    Args:
        embedder ([`Embedder`]): Encodes what the file does not hold.
        path (`Path`): An SQLite file, which several processes may use; made where it is missing.
    """

    def __init__(self, embedder: Embedder, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.name = embedder.name
        self._embedder = embedder
        self._file = sqlite3.connect(path, timeout=60, check_same_thread=False)
        self._file.execute(
            "create table if not exists vectors (encoder text, content text, vector blob, "
            "primary key (encoder, content))"
        )
        rows = self._file.execute(
            "select content, vector from vectors where encoder = ?", (self.name,)
        )
        self._known = {text: np.frombuffer(blob, dtype=np.float32) for text, blob in rows}

    def encode(self, texts: Sequence[str]) -> Array:
        """Encode texts, the shortest first, so that a batch holds little padding."""
        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            vectors = self._embedder.encode(batch)
            self._known.update(zip(batch, vectors, strict=True))
            self._file.executemany(
                "insert or ignore into vectors values (?, ?, ?)",
                [(self.name, t, v.tobytes()) for t, v in zip(batch, vectors, strict=True)],
            )
            self._file.commit()
        return np.stack([self._known[text] for text in texts])


@dataclass(frozen=True)
class Case:
    """One labelled problem.

    Args:
        row (`dict`): As it stands in the file.
        labels ([`Labels`]): Of its solutions.
        steps (`dict`): By source (`"LLM"`, the file's own, and `"extractive"`), per solution.
        evidence (`dict`): By source; `""` is what needs no steps.
    """

    row: dict[str, Any]
    labels: Labels
    evidence: dict[str, Evidence]


def parser_of(summary: str | None) -> argparse.ArgumentParser:
    """What the scripts of `make distances` are told."""
    parser = argparse.ArgumentParser(description=(summary or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--vectors", type=Path, default=Path("build/vectors.sqlite"), help="keeps them between runs"
    )
    parser.add_argument("--limit", type=int, help="problems of each set")
    parser.add_argument("--num-bootstrap", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def name_of(source: str, distance: str) -> str:
    """What a table calls a distance on a source of steps."""
    return f"`{distance}`" + (f", {source} steps" if source else "")


def read_rows(path: Path, limit: int | None = None) -> list[dict[str, Any]]:
    """The rows of a JSONL file, the first `limit` of them."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, limit)]


def read_sets(folder: Path, encoder: Embedder, limit: int | None = None) -> dict[str, list[Case]]:
    """All sets, encoded.

    Args:
        folder (`Path`): With the files of `FILES`.
        encoder ([`Embedder`]): Best [`KeptVectors`].
        limit (`int`, *optional*): Problems of each set.
    """
    rows = {name: read_rows(folder / file, limit) for name, file in FILES.items()}
    encoder.encode(
        [text for found in rows.values() for row in found for text in texts_of(row)] or [""]
    )
    return {name: [case_of(row, encoder) for row in found] for name, found in rows.items()}


def extractive_steps(row: dict[str, Any]) -> list[list[str]]:
    """The steps that `extractive` makes of a row's solutions."""
    return _extracted(row["problem"], tuple(row["solutions"]))


@cache
def _extracted(problem: str, solutions: tuple[str, ...]) -> list[list[str]]:
    found = run(ExtractiveSummarizer().summarize(problem, solutions))
    return [list(summary.steps) for summary in found]


def texts_of(row: dict[str, Any]) -> list[str]:
    """Every text of a row that is encoded."""
    lists: Iterable[Sequence[str]] = (
        *row.get("steps", ()),
        *extractive_steps(row),
        *READINGS["pieces"](row["problem"], row["solutions"], ()),
        row["solutions"],
    )
    return [row["problem"], *(text for texts in lists for text in texts)]


def case_of(row: dict[str, Any], encoder: Embedder) -> Case:
    """A labelled row with what distances are given of it."""
    labels = Labels.of(row)
    assert labels is not None, "every row needs strategy labels"
    problem, solutions = row["problem"], row["solutions"]
    kinds = ("statement", "pieces", "methods", "text")
    read = gather(kinds, problem, solutions, None, encoder)
    found = {"": read}
    sources = {"extractive": extractive_steps(row)}
    if "steps" in row:
        sources["LLM"] = row["steps"]
    for source, steps in sources.items():
        found[source] = read.joined(gather(("steps",), problem, solutions, steps, encoder))
    return Case(row, labels, found)
