"""Count what a grader of answers gets wrong on the judged pairs; needs datasets only.

from load import load, measure
print(measure(load(), lambda reference, response: reference in response))
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets import load_dataset


def load(split: str = "test", place: str | None = None) -> Any:
    """The pairs of a split, from this folder or from the Hub's dataset `place`."""
    return load_dataset(place or str(Path(__file__).parent), split=split)


def measure(
    rows: Iterable[Mapping[str, Any]], accepts: Callable[[str, str], bool]
) -> dict[str, int]:
    """How many wrong responses a grader accepts, and how many right ones it rejects."""
    counts = {"right": 0, "wrong": 0, "false_accepts": 0, "false_rejects": 0}
    for row in rows:
        verdict = accepts(row["reference"], row["response"])
        counts["right" if row["right"] else "wrong"] += 1
        if verdict != row["right"]:
            counts["false_accepts" if verdict else "false_rejects"] += 1
    return counts
