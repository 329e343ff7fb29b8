"""How differently models solve the same problems: of a problem, the right solutions of all of them.

They are compared together, in one matrix and as one set of strategies, since a distance such as
`pieces` depends on a problem's other solutions and a strategy's name on who sorts. Figures of two
models are then those of an equal number of right solutions, the fewer that either has, averaged
over all draws of so many: no draw is made, the averages have closed forms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import score_all
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
    """One problem, and the right solutions of all models to it.

    Args:
        owners (`Sequence[str]`): Whose each solution is.
        distances (`array` of shape `(k, k)`): NaN for one that cannot be placed.
        strategies (`Sequence`, *optional*): Each one's strategy, `None` where it has none; unset
            where strategies are not known.
    """

    problem: str
    owners: Sequence[str]
    distances: Floats
    strategies: Sequence[str | None] | None = None

    def of(self, name: str) -> list[int]:
        """The solutions of a model that have a place."""
        placed = ~np.isnan(self.distances.diagonal())
        known = self.strategies or self.owners
        own = (place for place, who in enumerate(self.owners) if who == name)
        return [place for place in own if placed[place] and known[place] is not None]


@dataclass(frozen=True)
class Figures:
    """Two models on one problem, by strategies where these are known, else by distance.

    Args:
        fewest (`int`): Right solutions of either that count.
        variety (`tuple`): Of each model, how many strategies so many of its right solutions have;
            or the mean distance of two.
        only (`tuple`): The share of these strategies that as many of the other model lack.
        between, within (`float`): The chance that two right solutions have different strategies, or
            their mean distance: one of each model, and two of one model, the mean of both.
    """

    problem: str
    fewest: int
    variety: tuple[float, float]
    between: float
    within: float
    only: tuple[float, float] | None = None


def figures(solved: Solved, first: str, second: str) -> Figures | None:
    """The figures of two models on a problem; `None` where either has no two right solutions."""
    ours, theirs = solved.of(first), solved.of(second)
    fewest = min(len(ours), len(theirs))
    if fewest < 2:
        return None
    if (known := solved.strategies) is None:
        apart = [mean_pairwise(solved.distances[np.ix_(one, one)]) or 0.0 for one in (ours, theirs)]
        between = float(solved.distances[np.ix_(ours, theirs)].mean())
        pair = (apart[0], apart[1])
        return Figures(solved.problem, fewest, pair, between, within=sum(apart) / 2)
    names = list(dict.fromkeys(known[place] for place in (*ours, *theirs)))
    found = (Counter(known[place] for place in one) for one in (ours, theirs))
    counts = np.array([[one[name] for name in names] for one in found])
    drawn = counts.sum(axis=1)
    # A strategy is among so many draws as often as a right sample is: pass@k.
    seen = np.array([pass_at_k(n, c, fewest) for n, c in zip(drawn, counts, strict=True)])
    number = seen.sum(axis=1)
    only = (seen * (1 - seen[::-1])).sum(axis=1) / number
    same = (counts * (counts - 1)).sum(axis=1) / (drawn * (drawn - 1))
    return Figures(
        solved.problem,
        fewest,
        (float(number[0]), float(number[1])),
        between=1 - float(counts.prod(axis=0).sum() / drawn.prod()),
        within=1 - float(same.mean()),
        only=(float(only[0]), float(only[1])),
    )


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
        distances = solved.distances[np.ix_(places, places)]
        if solved.strategies is not None:
            names = np.array([str(solved.strategies[place]) for place in places])
            distances = (names[:, None] != names).astype(np.float64)
        dealt = np.tile(np.arange(a + b) < a, (_DEALS + 1, 1))
        dealt[1:] = rng.permuted(dealt[1:], axis=1)  # the first is as it was
        rows = dealt @ distances
        own = (rows * dealt).sum(axis=1)
        between = rows.sum(axis=1) - own
        other = distances.sum() - own - 2 * between
        apart += between / (a * b) - (own / (a * (a - 1)) + other / (b * (b - 1))) / 2
    return float((apart >= apart[0] - 1e-9).mean())


async def solve_together(
    right: Mapping[str, Mapping[str, Problem]],
    config: CurationConfig,
    models: Models,
    curve: Calibration | None,
    on_problem: Callable[[], None] = lambda: None,
) -> list[Solved]:
    """Compare the right solutions of all models, problem by problem.

    Args:
        right (`Mapping`): By model and problem, the right solutions, at least one each.
        config ([`CurationConfig`]): By which distance, or by a chat model's strategies.
        models ([`Models`]): Loaded for it.
        curve ([`Calibration`], *optional*): Of the distance. Where nobody names strategies, groups
            are cut where it says that another strategy is as likely as not.
        on_problem (`Callable`): Called after each problem, for a progress bar.
    """
    names = dict.fromkeys(problem for one in right.values() for problem in one)
    joint = (_joint(name, right) for name in names)
    labels = {name: _labels(name, right) for name in names}
    named, found = all(labels.values()), []
    async with aclosing(score_all(joint, config, models)) as scored:
        async for problem, one in scored:
            matrix = nan_for_none(one.chosen_by)
            strategies: Sequence[str | None] | None = labels[problem.group] if named else None
            if strategies is None and curve is not None:
                groups = strategy_groups(matrix, -curve.intercept / curve.slope)
                strategies = [None if group is None else str(group) for group in groups]
            found.append(Solved(problem.group, problem.extra["owners"], matrix, strategies))
            on_problem()
    return found


def _joint(name: str, right: Mapping[str, Mapping[str, Problem]]) -> Problem:
    """The right solutions of all models to a problem as one problem."""
    found = {who: problems[name] for who, problems in right.items() if name in problems}
    owners = [who for who, one in found.items() for _ in one.solutions]
    solutions = tuple(text for one in found.values() for text in one.solutions)
    statement = next(iter(found.values())).problem
    return Problem(statement, solutions, {"owners": owners}, where=name, group=name)


def _labels(name: str, right: Mapping[str, Mapping[str, Problem]]) -> list[str | None] | None:
    """The strategies that all models' rows name; numbers of two files mean two things."""
    labels: list[str | None] = []
    for one in (problems[name] for problems in right.values() if name in problems):
        found = strategy_labels(one.extra, len(one.solutions))
        if found is None or all(map(str.isdigit, found)):
            return None
        labels += [None if label == UNNAMED else label for label in found]
    return labels
