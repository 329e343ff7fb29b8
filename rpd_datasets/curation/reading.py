"""What a distance means, in words, wherever one is shown.

The words come from labelled pairs of solutions (`rpd_metric/distance/calibration.py`); where
nobody has labelled pairs for a distance and an encoder, there is only the command that finds out.
"""

from __future__ import annotations

from rpd_metric.distance.calibration import Calibration, load_calibration
from rpd_metric.distance.distances import DISTANCES

UNKNOWN = (
    "what such distances mean is not known for this encoder: rpd compare-metrics LABELLED "
    "--calibrate FILE finds out"
)
SCALE = (0.1, 0.3, 0.5, 0.7)


def find_curve(
    distance: str, embedder: str, *, chat_steps: bool, truncate_dim: int | None = None
) -> Calibration | None:
    """The packaged curve for distances as they were made, or `None` where there is none.

    Args:
        distance (`str`): Its name.
        embedder (`str`): Whose vectors it compared.
        chat_steps (`bool`): Whether a chat model made the steps.
        truncate_dim (`int`, *optional*): Cut vectors are another encoder's.
    """
    if distance not in DISTANCES or truncate_dim is not None:
        return None
    steps = "chat" if chat_steps else "extractive"
    return load_calibration(distance, embedder, steps if DISTANCES[distance].reads_steps else "")


def reading(distance: float, curve: Calibration | None) -> str:
    """A sentence without its full stop: what the distance means and by what.

    Example:

    ```py
    >>> reading(0.41, find_curve("pieces", "minilm", chat_steps=False))
    'by labelled pairs with minilm, 0.41: probably the same method'

    ```
    """
    if curve is None:
        return UNKNOWN
    return f"by labelled pairs with {curve.embedder}, {curve.in_words(distance)}"


def scale(curve: Calibration) -> str:
    """A few distances with their chance of another strategy, to read others by."""
    marks = ", ".join(f"{distance:.1f}: {curve.chance(distance):.0%}" for distance in SCALE)
    error = "" if curve.error is None else f", off by {curve.error:.0%} on sets it had not seen"
    return (
        f"the chance of another method at a distance of {marks} (encoder {curve.embedder}, "
        f"{curve.pairs:,} labelled pairs{error})"
    )
