"""What a start could win, before any arm: exact pass@k of mixtures of its strategies."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def solved(chances: npt.ArrayLike, k: int) -> Floats:
    """pass@k of problems whose samples are right with these chances.

    >>> solved([0.0, 0.5], 2).tolist()
    [0.0, 0.75]
    """
    shares: Floats = 1 - (1 - np.clip(np.asarray(chances, dtype=np.float64), 0, 1)) ** k
    return shares


def right(result: Mapping[str, Any], temperature: int = 0) -> Floats:
    """The chance of a right sample of each problem, by the index of a temperature."""
    problems = result["chances"].values()
    return np.array(
        [sum(pairs[temperature][1] for pairs in strategies.values()) for strategies in problems]
    )


def forced(result: Mapping[str, Any]) -> dict[str, Floats]:
    """How often each strategy ends right once it is begun; NaN where it does not fit."""
    problems = list(result["chances"].values())
    names = sorted({name for strategies in problems for name in strategies})
    table = {}
    for name in names:
        values = [strategies.get(name, [[0.0, np.nan]])[0] for strategies in problems]
        # Rounding of the two chances could make a share of a little over 1.
        table[name] = np.array([min(1.0, end / begun) if begun else end for begun, end in values])
    return table


def begun(result: Mapping[str, Any]) -> dict[str, float]:
    """The mean chance of each strategy's opening on the problems that it fits."""
    by_name: dict[str, list[float]] = {}
    for strategies in result["chances"].values():
        for name, pairs in strategies.items():
            by_name.setdefault(name, []).append(pairs[0][0])
    return {name: float(np.mean(values)) for name, values in by_name.items()}


def mixtures(result: Mapping[str, Any], k: int) -> dict[str, float]:
    """pass@k of the natural shares, an even mixture and the best single strategy."""
    table = forced(result)
    even = np.nanmean(list(table.values()), axis=0)
    single = {
        name: float(solved(np.nan_to_num(values), k).mean()) for name, values in table.items()
    }
    return {
        "natural": float(solved(right(result), k).mean()),
        "even": float(solved(even, k).mean()),
        "single": max(single.values()),
    }


def correlation(result: Mapping[str, Any]) -> float:
    """The mean correlation of two strategies' forced chances over the problems that both fit."""
    coefficients = []
    for a, b in combinations(forced(result).values(), 2):
        both = ~np.isnan(a) & ~np.isnan(b)
        if both.sum() > 2 and a[both].std() > 0 and b[both].std() > 0:
            coefficients.append(float(np.corrcoef(a[both], b[both])[0, 1]))
    return float(np.mean(coefficients)) if coefficients else float("nan")


def rare_advantage(result: Mapping[str, Any]) -> float:
    """How much more often a problem's rarer strategies are right, once begun, than its usual one.

    The mean over problems of what `rpd_metric.rare_advantage` estimates from samples.
    """
    shares = np.array(
        [
            [strategies.get(name, [[0.0, 0.0]])[0] for name in forced(result)]
            for strategies in result["chances"].values()
        ]
    )
    shares = shares[(shares[..., 0] > 0).sum(axis=1) > 1]
    if not len(shares):
        return float("nan")
    begun, right = shares[..., 0], shares[..., 1]
    usual = begun.argmax(axis=1)[:, None] == np.arange(begun.shape[1])
    gaps = right.sum(axis=1, where=~usual) / begun.sum(axis=1, where=~usual)
    return float(np.mean(gaps - right[usual] / begun[usual]))
