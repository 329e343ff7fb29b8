"""How many problems and samples tell two models apart, before either is evaluated.

    power(problems=30, samples=64, gain=0.04) -> how often the comparison of two models finds it

More samples make each problem's share exact; they do not make up for few problems if the gain
varies between problems, as it does after training: some problems gain much, others lose. Chances of
a right sample are spread evenly over the problems, and a gain shifts their log odds by an amount
that is normal over problems. What is simulated is the test of `intervals.py`: any k of pass@k.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import LEVEL

Floats = npt.NDArray[np.float64]
# The standard deviation of the shift over problems: of a gain of 4 points, 17 points.
SPREAD = 1.0
REPEATS = 200
MOST_PROBLEMS = 2_000
_FLIPS = 500
_GRID = 400


def power(
    problems: int, samples: int, gain: float, spread: float = SPREAD, repeats: int = REPEATS
) -> float:
    """How often two models are told apart, from 0 to 1.

    Args:
        problems (`int`): Of the benchmark.
        samples (`int`): Of each model to each problem.
        gain (`float`): The mean gain of pass@1 over problems, as a share: 0.04 is four points.
        spread (`float`): The standard deviation of the gain over problems, in log odds; 0 shifts
            all problems alike.
        repeats (`int`): Simulated pairs of models; 200 give a share to 3.5 points.
    """
    if problems < 2 or samples < 1 or not 0 < gain < 0.5 or spread < 0:
        raise InputError(
            f"power needs two problems, a sample and a gain between 0 and 0.5; got {problems}, "
            f"{samples} and {gain:g}, with a spread of {spread:g}"
        )
    rng = np.random.default_rng(0)
    base, better = (
        rng.binomial(samples, chances)
        for chances in draw_models(gain, spread, rng, (problems, repeats))
    )
    ks = [1 << place for place in range(samples.bit_length())]
    table = np.array([pass_at_k(samples, np.arange(samples + 1), k) for k in ks])
    gaps = np.moveaxis(table[:, better] - table[:, base], 0, -1).astype(np.float32)
    lengths = np.sqrt((gaps**2).sum(axis=0))
    scaled = np.divide(gaps, lengths, out=np.zeros_like(gaps), where=lengths > 0)
    signs = 2 * rng.integers(0, 2, (_FLIPS, problems)).astype(np.float32) - 1
    largest = np.abs(np.tensordot(signs, scaled, axes=1)).max(axis=2)
    observed = np.abs(scaled.sum(axis=0)).max(axis=1)
    p = (1 + (largest >= observed - 1e-6).sum(axis=0)) / (1 + _FLIPS)
    return float((p < 1 - LEVEL).mean())


def problems_for(chance: float, samples: int, gain: float, spread: float = SPREAD) -> int | None:
    """About how many problems have this power, in tens; `None` above `MOST_PROBLEMS`."""
    low, high = 0, 10
    while power(high, samples, gain, spread) < chance:
        low, high = high, 2 * high
        if high > MOST_PROBLEMS:
            return None
    while high - low > 10:
        middle = (low + high) // 20 * 10
        enough = power(middle, samples, gain, spread) >= chance
        low, high = (low, middle) if enough else (middle, high)
    return high


def draw_models(
    gain: float, spread: float, rng: np.random.Generator, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Chances of a right sample of two models, problem by problem."""
    from scipy.special import expit, logit

    chances = rng.random(shape)
    shifts = _shift(gain, spread) + spread * rng.normal(size=shape)
    return chances, np.asarray(expit(logit(chances) + shifts))


def gain_deviation(gain: float, spread: float = SPREAD) -> float:
    """The standard deviation of the gain over problems, as a share."""
    base, better = draw_models(gain, spread, np.random.default_rng(0), (1_000, 1_000))
    return float((better - base).std())


@lru_cache
def _shift(gain: float, spread: float) -> float:
    """The mean shift of log odds that has a mean gain."""
    from scipy.special import expit, logit, ndtri

    middles = (np.arange(_GRID) + 0.5) / _GRID
    odds = logit(middles)[:, None] + spread * ndtri(middles)
    low, high = 0.0, 20.0
    while high - low > 1e-6:
        shift = (low + high) / 2
        enough = expit(odds + shift).mean() - 0.5 >= gain
        low, high = (low, shift) if enough else (shift, high)
    return high
