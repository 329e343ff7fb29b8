"""Measure a distance between solutions on the strategy labels; needs datasets and numpy only.

    from load import load, measure
    print(measure(load("controlled"), distance))

`distance` takes a problem and its solutions and returns a matrix. The definitions are those of
`rpd compare-metrics`, which adds intervals and compares distances pair by pair.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from datasets import load_dataset

SHOWN = 3


def load(config: str = "default", split: str = "test", place: str | None = None) -> Any:
    """The problems of a split, from this folder or from the Hub's dataset `place`."""
    return load_dataset(place or str(Path(__file__).parent), config, split=split)


def measure(
    rows: Iterable[Mapping[str, Any]], distance: Callable[[str, list[str]], Any]
) -> dict[str, float]:
    """How well a distance sees strategy.

    `auroc`: the chance that a pair of different strategies is more distant than a pair of one
    strategy, over all pairs of all problems. `triples`: the share of problems whose three chosen
    solutions hold as many strategies as three can, among those where the choice matters.
    """
    different, same, complete = [], [], []
    for row in rows:
        matrix = np.asarray(distance(row["problem"], row["solutions"]), dtype=float)
        labels = row["strategy_a"]
        for i, j in combinations(range(len(labels)), 2):
            (same if labels[i] == labels[j] else different).append(matrix[i, j])
        counts = [len({labels[i] for i in t}) for t in combinations(range(len(labels)), SHOWN)]
        if min(counts) < max(counts):
            complete.append(len({labels[i] for i in choose(matrix)}) == max(counts))
    above = np.subtract.outer(different, same)
    return {
        "auroc": float(((above > 0) + 0.5 * (above == 0)).mean()),
        "triples": float(np.mean(complete)),
    }


def choose(matrix: Any, size: int = SHOWN) -> list[int]:
    """The solution furthest from all, then whatever is furthest from its nearest chosen one."""
    chosen = [int(matrix.sum(axis=1).argmax())]
    while len(chosen) < size:
        nearest = matrix[:, chosen].min(axis=1)
        nearest[chosen] = -np.inf
        chosen.append(int(nearest.argmax()))
    return chosen
