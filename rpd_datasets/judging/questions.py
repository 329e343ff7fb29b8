"""What a judge is asked about: problems with the steps of their solutions, and pairs of these.

Plain values between the rows that were read and the judges (`judges.py`), with the strategy
labels (`labels.py`) that verdicts may be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

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


def pairs_of(case: JudgedProblem) -> list[tuple[int, int, bool | None]]:
    """The pairs of a problem that a judge should see, with what the labels say of them.

    With labels, those that every pass agrees on; without, those among the `selected` solutions
    of a curated row, or among all of them. Solutions without steps are in none.
    """
    pairs: list[tuple[int, int, bool | None]]
    if case.labels is not None:
        pairs = list(case.labels.pairs())
    else:
        chosen = case.problem.extra.get("selected")
        among = sorted(case.steps if chosen is None else chosen)
        pairs = [(i, j, None) for i, j in combinations(among, 2)]
    return [pair for pair in pairs if set(pair[:2]) <= case.steps.keys()]
