"""Choosing among the solutions of one problem: Algorithm 2 of the paper and its variants.

[`greedy`] is the one loop. A person's decisions are its first solutions, quality and groups change
what it adds next, and a budget ([`spending_order`]) lets it run to the end.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Literal

import numpy as np
import numpy.typing as npt

from rpd_datasets.problem import Problem
from rpd_metric.distance.core import usable_part
from rpd_metric.errors import InputError

Selection = Literal["maxmin", "maxavg", "exact", "random"]
SELECTIONS: tuple[Selection, ...] = ("maxmin", "maxavg", "exact", "random")
# These choose one by one, so that groups can take turns.
GREEDY: tuple[Selection, ...] = ("maxmin", "maxavg")
MAX_SUBSETS = 5000

Matrix = npt.NDArray[np.float64]


def select_solutions(
    matrix: npt.ArrayLike,
    m: int,
    method: Selection = "maxmin",
    *,
    seed: int = 0,
    quality: Sequence[float | None] | None = None,
    quality_weight: float = 0.0,
    groups: Sequence[int | None] | None = None,
    first: Sequence[int] = (),
) -> list[int]:
    """Pick `m` solutions of one problem (Sec. 3.2, Algorithm 2).

    The methods, all with ties going to the lowest index:

    - `"maxmin"` is Algorithm 2: start with the solution furthest from all candidates, then keep
      adding the one whose closest chosen neighbour is furthest away;
    - `"maxavg"` is the paper's text in Sec. 3.2: keep adding the one with the highest average
      distance to those chosen. It readily picks two solutions of one strategy, as long as both
      are far from a third;
    - `"exact"` looks at every subset for the largest smallest distance (then the largest sum),
      where there are at most 5000;
    - `"random"` is the baseline.

    Args:
        matrix (`array` of shape `(k, k)`): Distances. Solutions with NaN on their diagonal are
            unusable and never picked.
        m (`int`): How many. With fewer usable solutions all of them come back.
        method (`str`, defaults to `"maxmin"`): See above.
        seed (`int`, defaults to 0): For `"random"`.
        quality (`Sequence[float | None]`, *optional*): A score per solution, scaled to 0 to 1 over
            the usable ones as `q` (0 if missing). `"maxmin"` and `"maxavg"` then add the solution
            with the largest `distance + quality_weight * q`; `"exact"` maximizes `smallest distance
            + quality_weight * mean q`.
        quality_weight (`float`, defaults to 0): Negative weights prefer low scores.
        groups (`Sequence[int | None]`, *optional*): The strategy of each solution, for `"maxmin"`
            and `"maxavg"`: one of each is taken in turn; those without one (`None`) come last.
        first (`Sequence[int]`): Solutions that are chosen already, e.g. by hand; the method adds
            the candidates. Unusable ones are ignored.

    Returns:
        `list[int]`: Indices into the matrix, in order of choice (ascending for `"exact"`).

    Example:

    ```py
    >>> from rpd_datasets import select_solutions
    >>> select_solutions([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]], 2)
    [2, 0]

    ```
    """
    usable, distances = usable_part(matrix)
    if (m := min(m, len(usable))) <= 0:
        return []
    if method not in SELECTIONS:
        raise InputError(f"unknown selection {method!r}; use one of {', '.join(SELECTIONS)}")
    worth = None
    if quality is not None and quality_weight:
        if method == "random":
            raise InputError("a random choice weighs no quality; choose by a distance")
        worth = quality_weight * scaled_quality([quality[index] for index in usable])
    if groups is not None:
        if method not in GREEDY:
            raise InputError(f"selection {method!r} knows no groups; use 'maxmin' or 'maxavg'")
        groups = [groups[index] for index in usable]
    start = positions(first, usable)[:m]
    if method == "random":
        candidates = np.delete(np.arange(len(usable)), start)
        sample = np.random.default_rng(seed).choice(candidates, size=m - len(start), replace=False)
        chosen = [*start, *sample]
    elif method == "exact":
        chosen = _exact(distances, m, start, worth)
    else:
        chosen, _ = greedy(distances, m, start, method, worth, groups)
    return [int(usable[position]) for position in chosen]


def positions(indices: Sequence[int], usable: npt.NDArray[np.intp]) -> list[int]:
    """Where solutions are among the usable ones; the others have no position."""
    place = {int(index): position for position, index in enumerate(usable)}
    return [place[index] for index in indices if index in place]


def greedy(
    distances: Matrix,
    m: int,
    start: Sequence[int] = (),
    method: Selection = "maxmin",
    worth: Matrix | None = None,
    groups: Sequence[int | None] | None = None,
) -> tuple[list[int], list[float]]:
    """Algorithm 2, or the paper's text (`"maxavg"`), from the solutions in `start` on.

    A solution's `worth` is added to its distance. Returns the chosen solutions and what each added:
    infinity for those of `start`.
    """
    gather = np.minimum if method == "maxmin" else np.add
    chosen, gains = list(start), [math.inf] * len(start)
    gathered = reduce(gather, distances[chosen]) if chosen else None
    while len(chosen) < m:
        if gathered is None:
            value = _totals(distances, worth)
        elif worth is None:
            # Without worth, the average over those chosen and their sum have the same maximum.
            value = gathered.copy()
        else:
            value = gathered / (1 if method == "maxmin" else len(chosen)) + worth
        value[chosen] = -np.inf
        if groups is not None:
            value[~_due(groups, chosen)] = -np.inf
        best = int(value.argmax())
        chosen.append(best)
        gains.append(float(value[best]))
        gathered = distances[best] if gathered is None else gather(gathered, distances[best])
    return chosen, gains


def spending_order(
    matrix: npt.ArrayLike, first: Sequence[int] = ()
) -> tuple[list[int], list[float]]:
    """In which order a budget takes a problem's solutions, and what each adds.

    The `first` ones lead, else the medoid, the solution nearest to all others; these add infinity.
    Algorithm 2 then adds all others, each with its distance to the nearest before it. Solutions
    with NaN on the diagonal of the distances `matrix` are never taken.

    >>> spending_order([[0.0, 0.1, 0.9], [0.1, 0.0, 0.8], [0.9, 0.8, 0.0]])
    ([1, 2, 0], [inf, 0.8, 0.1])
    """
    usable, distances = usable_part(matrix)
    if not usable.size:
        return [], []
    start = positions(first, usable) or [int(distances.sum(axis=1).argmin())]
    order, gains = greedy(distances, len(usable), start)
    return [int(usable[position]) for position in order], gains


def _due(groups: Sequence[int | None], chosen: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Solutions of the groups with the fewest chosen solutions."""
    sizes = Counter(groups[index] for index in chosen)
    turns = np.array([math.inf if group is None else sizes[group] for group in groups])
    due: npt.NDArray[np.bool_] = turns == np.delete(turns, chosen).min()
    return due


def _totals(distances: Matrix, worth: Matrix | None) -> Matrix:
    total: Matrix = distances.sum(axis=1)
    return total if worth is None else total / max(1, len(distances) - 1) + worth


def quality_of(problem: Problem, column: str | None) -> list[float | None] | None:
    """The quality scores of a problem's solutions in a column; `None` without a column."""
    if column is None:
        return None
    count, scores = len(problem.solutions), problem.extra.get(column)
    if isinstance(scores, (int, float)):
        scores = [scores] * count  # flat rows whose scores never differ
    if not isinstance(scores, (list, tuple)) or len(scores) != count:
        raise InputError(
            f"the column {column!r} of {problem.where or 'the row'} does not hold a score for each "
            f"solution; its columns are: {', '.join(problem.extra) or 'none'}. Name another with "
            "{quality_column}",
            option="quality_column",
        )
    return [
        float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None
        for score in scores
    ]


def scaled_quality(scores: Sequence[float | None]) -> Matrix:
    """Scores scaled to 0 to 1; missing and constant scores become 0.

    >>> scaled_quality([3.0, 1.0, None, 2.0]).tolist()
    [1.0, 0.0, 0.0, 0.5]
    """
    values = np.array(scores, dtype=np.float64)  # None becomes NaN
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.max() == finite.min():
        return np.zeros(len(values))
    scaled = (values - finite.min()) / (finite.max() - finite.min())
    return np.where(np.isfinite(scaled), scaled, 0.0)


def _exact(distances: Matrix, m: int, start: Sequence[int], worth: Matrix | None) -> list[int]:
    k = len(distances)
    others = [index for index in range(k) if index not in start]
    if (count := math.comb(len(others), m - len(start))) > MAX_SUBSETS:
        raise InputError(
            f"selection 'exact' would look at {count} subsets of {m} out of {k} solutions, more "
            f"than {MAX_SUBSETS}; use 'maxmin'"
        )
    if m == 1:
        return [*start] or [int(_totals(distances, worth).argmax())]
    added = itertools.combinations(others, m - len(start))
    subsets = np.array([sorted((*start, *indices)) for indices in added])
    pairs = np.array(list(itertools.combinations(range(m), 2)))
    within = distances[subsets[:, pairs[:, 0]], subsets[:, pairs[:, 1]]]
    # lexsort is stable and sorts by its last key first: smallest distance, then sum, then order.
    smallest = within.min(axis=1)
    if worth is not None:
        smallest = smallest + worth[subsets].mean(axis=1)
    best = np.lexsort((-within.sum(axis=1), -smallest))[0]
    return [int(index) for index in subsets[best]]
