"""How many strategies a problem's solutions show, where labelled pairs tell it.

Every pair counts by its chance of being of another strategy, as labelled pairs at that distance
were. The chances hold for the distance and the encoder of those pairs only
(`rpd_metric/distance/calibration.py`): with any other nothing is counted. A threshold at even odds,
with groups by average linkage, was further from the labels' own numbers on two of three sets;
`docs/distances.md` has both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpd_datasets.config import METRICS, CurationConfig
from rpd_datasets.curation.scored import Scored
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration, load_calibration
from rpd_metric.distance.distances import DISTANCES
from rpd_metric.steps.summarizers import asks_chat_model


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


def own_curves(
    config: CurationConfig, embedder: str, path: str | None
) -> tuple[Calibration, ...] | None:
    """What a file of the user's own says of RPD and of the distance that chooses.

    Args:
        config ([`CurationConfig`]): Says what chooses, and who makes the steps.
        embedder (`str`): The encoder's name.
        path (`str`, *optional*): The file.

    Returns:
        `tuple`: The curves that it has for them; `None` without a file.
    """
    if path is None:
        return None
    names = dict.fromkeys(("rpd", counting_distance(config)))
    curves = (curve_of(name, config, embedder, path) for name in names)
    return tuple(curve for curve in curves if curve is not None)


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
    if curve is None:
        return None
    matrix = nan_for_none(scored.matrix if scored.distances is None else scored.distances)
    if among is not None:
        matrix = matrix[np.ix_(among, among)]
    number = curve.effective_strategies(matrix)
    return None if number is None else round(number, 4)
