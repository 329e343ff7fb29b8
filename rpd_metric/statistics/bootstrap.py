"""The project's one bootstrap: draw problems with replacement, take percentiles.

A resample draws whole problems, because samples (or pairs) of one problem are not independent
of each other. It is a vector of weights, how often each problem was drawn, so that a figure
over thousands of resamples is a few matrix products, and the same weights for two models make
their difference a paired one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Weights are drawn in blocks of about this many numbers (32 MB of int64).
_BLOCK = 4_000_000


def resample_weights(
    num_problems: int, num_resamples: int, seed: int
) -> Iterator[npt.NDArray[np.int64]]:
    """How often each resample drew each problem, in blocks that bound the memory.

    Args:
        num_problems (`int`): Problems to draw from, and how many are drawn.
        num_resamples (`int`): How many resamples.
        seed (`int`): The same seed gives the same weights, whatever the size of a block.

    Returns:
        Iterator over `array` of shape `(resamples of the block, num_problems)`.
    """
    rng = np.random.default_rng(seed)
    uniform = np.full(num_problems, 1 / num_problems)
    block = max(1, _BLOCK // num_problems)
    for start in range(0, num_resamples, block):
        yield rng.multinomial(num_problems, uniform, size=min(block, num_resamples - start))


def percentile_ends(resampled: Floats, level: float) -> tuple[float, float]:
    """The ends between which the middle `level` of the resampled figures lies.

    Args:
        resampled (array of shape `(resamples,)`): The figure in each resample, none missing.
        level (`float`): Share inside, e.g. 0.95.
    """
    outside = (100 - 100 * level) / 2
    low, high = np.percentile(resampled, [outside, 100 - outside])
    return float(low), float(high)
