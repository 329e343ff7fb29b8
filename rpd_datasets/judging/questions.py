"""What a judge is asked about: problems with the steps of their solutions, and pairs of these.

Plain values between the rows that were read and the judges (`judges.py`), with the strategy
labels (`labels.py`) that verdicts may be compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rpd_datasets.judging.labels import Labels
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError

# By solution, where it has any.
Steps = dict[int, list[str]]


@dataclass(frozen=True)
class JudgedProblem:
    """A problem, the steps of its usable solutions, and its labels where they are."""

    problem: Problem
    steps: Steps
    labels: Labels | None

    @property
    def several(self) -> bool | None:
        """Whether the labels hold several strategies; `None` without any that agree."""
        passes = self.labels.passes if self.labels else ()
        votes = {len({labels[index] for index in self.steps}) > 1 for labels in passes}
        return votes.pop() if len(votes) == 1 else None


@dataclass(frozen=True)
class JudgedPair:
    """Two solutions of a problem, and what the labels say of them."""

    case: JudgedProblem
    first: int
    second: int
    different: bool | None


def given_steps(problem: Problem) -> Steps:
    """The column `steps` of a problem; solutions without any are left out.

    Raises:
        [`InputError`]: The column is not a list of texts for each solution.
    """
    given = problem.extra["steps"]
    if not isinstance(given, list) or len(given) != len(problem.solutions):
        raise InputError(f"{problem.where}: the column steps must hold a list for each solution")
    usable = {}
    for index, steps in enumerate(given):
        if not all(isinstance(step, str) for step in steps or ()):
            raise InputError(f"{problem.where}: the steps of solution {index} are not all texts")
        if kept := [step for step in steps or () if step.strip()]:
            usable[index] = kept
    return usable


def labels_of(problem: Problem) -> Labels:
    """The strategy labels of a problem.

    Raises:
        [`InputError`]: It has none.
    """
    labels = Labels.of({**problem.extra, "solutions": problem.solutions})
    if labels is None:
        raise InputError(
            f"{problem.where} has no labels: --labels reads strategy_a and strategy_b, or "
            "strategies"
        )
    return labels


def pairs_of(case: JudgedProblem) -> list[JudgedPair]:
    """The pairs of a problem that a judge should see.

    With labels, those that every pass agrees on; without, those among the `selected` solutions
    of a curated row, or among all of them. Solutions without steps are in none.
    """
    if case.labels is not None:
        pairs = [JudgedPair(case, *pair) for pair in case.labels.pairs()]
    else:
        chosen = case.problem.extra.get("selected")
        among = sorted(case.steps if chosen is None else chosen)
        pairs = [JudgedPair(case, i, j, None) for i, j in combinations(among, 2)]
    return [pair for pair in pairs if {pair.first, pair.second} <= case.steps.keys()]


def draw_pairs(pairs: Sequence[JudgedPair], number: int, seed: int) -> list[JudgedPair]:
    """Some of the pairs, in their order; where they are labelled, as many of each kind.

    Raises:
        [`InputError`]: There are not so many.
    """
    labelled = any(pair.different is not None for pair in pairs)
    rng = np.random.default_rng(seed)
    drawn: list[int] = []
    for kind in (True, False) if labelled else (None,):
        places = [place for place, pair in enumerate(pairs) if pair.different is kind]
        wanted = number // 2 if labelled else number
        if wanted > len(places):
            name = {True: "differing pairs", False: "same pairs", None: "pairs"}[kind]
            raise InputError(f"{wanted} {name} were asked for, and there are {len(places)}")
        drawn += rng.choice(places, size=wanted, replace=False).tolist()
    return [pairs[place] for place in sorted(drawn)]
