"""How many strategies a problem's solutions show, where labelled pairs tell it.

Solutions that average linkage joins below a threshold count as one strategy. The threshold is the
distance from which a labelled pair was rather of another strategy than of the same, and holds for
the distance and the encoder of those pairs only (`rpd_metric/distance/calibration.py`): with any
other nothing is counted. How far such counts are from the labels' own is in `docs/distances.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.score import Scored
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration, load_calibration
from rpd_metric.distance.diversity import effective_strategies
from rpd_metric.distance.registry import DISTANCES
from rpd_metric.steps.registry import asks_chat_model


def counting_distance(config: CurationConfig) -> str | None:
    """The distance that strategies are counted by: the one that chooses, else RPD on steps."""
    if config.solutions in METRICS:
        return config.solutions
    return "rpd" if config.reads_steps else None


def curve_of(
    name: str | None, config: CurationConfig, embedder: str, path: str | None = None
) -> Calibration | None:
    """What labelled pairs say of a distance by an encoder; `None` where there were none.

    Args:
        name (`str`, *optional*): The distance.
        config ([`CurationConfig`]): Says who makes the steps.
        embedder (`str`): The encoder's name.
        path (`str`, *optional*): A file of curves of your own.
    """
    if name is None or config.truncate_dim is not None:
        return None
    steps = "chat" if asks_chat_model(config.summarizer) else "extractive"
    return load_calibration(name, embedder, steps if DISTANCES[name].reads_steps else "", path=path)


def count_strategies(
    scored: Scored, curve: Calibration | None, among: Sequence[int] | None = None
) -> float | None:
    """The effective number of strategies of a problem's solutions.

    Args:
        scored ([`Scored`]): What is known about the problem.
        curve ([`Calibration`], *optional*): Of [`counting_distance`].
        among (`Sequence[int]`, *optional*): Of these only.

    Returns:
        `float`: From 1 to their number; `None` where it is not known.
    """
    if curve is None or curve.threshold is None:
        return None
    matrix = nan_for_none(scored.matrix if scored.distances is None else scored.distances)
    if among is not None:
        matrix = matrix[np.ix_(among, among)]
    if not len(matrix) or np.isnan(matrix.diagonal()).all():
        return None
    return round(effective_strategies(matrix, curve.threshold), 4)
