"""How differently models solve the same problems: of a problem, the right solutions of all of them.

They are compared together, in one matrix and as one set of strategies, since a distance such as
`pieces` depends on a problem's other solutions and a strategy's name on who sorts. Figures of two
models are then those of an equal number of right solutions, the fewer that either has, averaged
over all draws of so many: no draw is made, the averages have closed forms.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import score_all
from rpd_datasets.evaluation.results import Results
from rpd_datasets.problem import UNNAMED, Problem, strategy_labels
from rpd_metric.arrays import nan_for_none
from rpd_metric.distance.calibration import Calibration
from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.diversity import strategy_groups
from rpd_metric.statistics.estimators import pass_at_k

Floats = npt.NDArray[np.float64]
_DEALS = 2_000


@dataclass(frozen=True)
class Solved:
    """One problem, and the right solutions of all models to it."""

    problem: str
    owners: Sequence[str]  # whose each is
    distances: Floats  # NaN for one that cannot be placed
    strategies: Sequence[str | None] | None = None  # None for one that has none, and for unknown
    texts: Sequence[str] = ()

    def of(self, name: str) -> list[int]:
        """The solutions of a model that have a place."""
        placed = ~np.isnan(self.distances.diagonal())
        known = self.strategies or self.owners
        own = (place for place, who in enumerate(self.owners) if who == name)
        return [place for place in own if placed[place] and known[place] is not None]

    def between(self, ours: Sequence[int], theirs: Sequence[int]) -> Floats:
        """0 or 1 by strategies where these are known, else distances."""
        if self.strategies is None:
            return self.distances[np.ix_(ours, theirs)]
        names = np.array(self.strategies)
        return np.asarray(names[ours][:, None] != names[theirs], dtype=np.float64)


class Figures(NamedTuple):
    """Two models on one problem, by strategies where these are known, else by distance.

    `variety` is of each model how many strategies so many of its right solutions have as both
    models have; or the mean distance of two. `only` is the share of these strategies that as many
    of the other model lack. `within` and `between` are the chance that two right solutions have
    different strategies, or their mean distance: of one model, mean of both, and of one of each.
    """

    variety: Sequence[float]
    within: float
    between: float
    only: Sequence[float] | None = None


def figures(solved: Solved, first: str, second: str) -> Figures | None:
    """The figures of two models on a problem; `None` where either has no two right solutions."""
    both = solved.of(first), solved.of(second)
    fewest = min(map(len, both))
    if fewest < 2:
        return None
    apart = [mean_pairwise(solved.between(one, one)) or 0.0 for one in both]
    found = sum(apart) / 2, float(solved.between(*both).mean())
    if (known := solved.strategies) is None:
        return Figures(apart, *found)
    times = [Counter(known[place] for place in one) for one in both]
    counts = np.array([[one[name] for name in times[0] | times[1]] for one in times])
    # A strategy is among so many draws as often as a right sample is: pass@k.
    seen = np.asarray(pass_at_k(counts.sum(axis=1, keepdims=True), counts, fewest))
    number = seen.sum(axis=1)
    only = (seen * (1 - seen[::-1])).sum(axis=1) / number
    return Figures(number.tolist(), *found, only.tolist())


def chance_apart(problems: Sequence[Solved], first: str, second: str) -> float:
    """The p value of two models going the same ways: exact where their solutions could be swapped.

    The right solutions of each problem are dealt anew, to either as many as it has: how often are
    the two then as far apart (the mean of `between - within`)?
    """
    rng, apart = np.random.default_rng(0), np.zeros(_DEALS + 1)
    for solved in problems:
        ours, theirs = solved.of(first), solved.of(second)
        a, b, places = len(ours), len(theirs), [*ours, *theirs]
        if min(a, b) < 2:
            continue
        distances = solved.between(places, places)
        dealt = np.tile(np.arange(a + b) < a, (_DEALS + 1, 1))
        dealt[1:] = rng.permuted(dealt[1:], axis=1)  # the first is as it was
        rows = dealt @ distances
        own = (rows * dealt).sum(axis=1)
        between = rows.sum(axis=1) - own
        other = distances.sum() - own - 2 * between
        apart += between / (a * b) - (own / (a * (a - 1)) + other / (b * (b - 1))) / 2
    return float((apart >= apart[0] - 1e-9).mean())


def joint_problems(models: Sequence[Results], *, most: int, seed: int) -> list[Problem]:
    """The right solutions of all models to each problem as one; of more than `most`, a draw."""
    joint = []
    for name in models[0].marks:
        parts: list[tuple[str, str | None, str]] = []  # whose, which strategy, the text
        named = True
        for one in models:
            right = one.right[name]
            draw, count = random.Random(f"{seed}:{one.name}:{name}"), len(right.solutions)
            right = right.take(sorted(draw.sample(range(count), min(count, most))))
            labels = strategy_labels(right.extra, len(right.solutions)) or []
            # Numbers of two files mean two things.
            named &= not all(map(str.isdigit, labels)) or not right.solutions
            parts += zip_longest([one.name] * len(right.solutions), labels, right.solutions)
        if parts:
            owners, strategies, solutions = map(list, zip(*parts, strict=True))
            extra = {"owners": owners, "strategies": strategies if named else None}
            statement = models[0].right[name].problem
            joint.append(Problem(statement, tuple(solutions), extra, where=name, group=name))
    return joint


async def solve_together(
    joint: Sequence[Problem],
    config: CurationConfig,
    models: Models,
    curve: Calibration | None,
    on_problem: Callable[[], None] = lambda: None,
) -> list[Solved]:
    """Compare the solutions of [`joint_problems`] by the distance of a configuration.

    Where not all problems name strategies, groups are cut where the `curve` of the distance says
    that another strategy is as likely as not. `on_problem` is called after each problem.
    """
    named, found = all(one.extra["strategies"] for one in joint), list[Solved]()
    async with aclosing(score_all(joint, config, models)) as scored:
        async for problem, one in scored:
            matrix = nan_for_none(one.chosen_by)
            strategies: Sequence[str | None] | None = None
            if named:
                known = problem.extra["strategies"]
                strategies = [None if label == UNNAMED else label for label in known]
            elif curve is not None:
                groups = strategy_groups(matrix, -curve.intercept / curve.slope)
                strategies = [None if group is None else str(group) for group in groups]
            owners = problem.extra["owners"]
            found.append(Solved(problem.group, owners, matrix, strategies, problem.solutions))
            on_problem()
    return found
