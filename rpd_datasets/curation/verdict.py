"""Whether a choice is worth more than a draw: a word, and the reason for it, before all figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpd_metric.statistics.intervals import paired_differences

GOOD = "good"
HARDLY = "hardly different from a random choice"
FEW = "too few usable solutions"
UNKNOWN = "not measured"
# A choice that gains less than this share of what a draw has is hardly different from it.
LEAST_GAIN = 0.05
# Below this share of usable solutions, wrong ones aside, a run says more about its input.
LEAST_USABLE = 0.5


def verdict(
    pairs: Sequence[tuple[float, float]],
    unit: str,
    *,
    usable: int,
    read: int,
    left_out: str = "",
    warned: bool = False,
) -> dict[str, str]:
    """The verdict on a choice, as its `word` and its `reason`.

    Args:
        pairs: Of each chosen problem what its chosen solutions have, and what as many drawn at
            random from the same problem have on average.
        unit (`str`): What was measured, e.g. `"strategies"`.
        usable, read (`int`): How many solutions could be used, of how many that are not wrong.
        left_out (`str`): The most frequent reasons for the others.
        warned (`bool`): Whether there are warnings, so that good is not all there is to say.

    >>> found = verdict([(2.4, 2.0), (2.5, 2.1), (2.8, 2.1)] * 3, "strategies", usable=9, read=9)
    >>> found["word"], found["reason"].partition(": ")[0]
    ('good', '2.567 strategies among the chosen solutions of a problem, 2.067 at random')
    """
    if usable < LEAST_USABLE * read:
        reason = f"{usable:,} of {read:,} could be used; left out: {left_out}"
        return {"word": FEW, "reason": reason}
    if not pairs:
        return {"word": UNKNOWN, "reason": "no two solutions of a chosen problem were compared"}
    values = np.array(pairs, dtype=np.float64)
    # Shares are what the interval is for.
    scale = max(1.0, float(values.max()))
    (gap,) = paired_differences(values[:, :1] / scale, values[:, 1:] / scale)
    chosen, drawn = values.mean(axis=0)
    found = gap.low > 0 and chosen - drawn >= LEAST_GAIN * drawn
    low, high = gap.low * scale, gap.high * scale
    return {
        "word": HARDLY if not found else f"{GOOD}, with warnings" if warned else GOOD,
        "reason": f"{chosen:.3f} {unit} among the chosen solutions of a problem, "
        f"{drawn:.3f} at random: {chosen - drawn:+.3f} [{low:+.3f}, {high:+.3f}]",
    }
