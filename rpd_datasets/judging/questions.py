"""Problems as a judge is asked about them: with the steps of their solutions, and labels if any."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from rpd_datasets.judging.labels import Labels
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError

# By solution, where it has any.
Steps = dict[int, list[str]]


@dataclass
class JudgedProblem:
    """A problem, the steps of its usable solutions, and its labels where they are.

    Steps are `None` until somebody makes them, where the row brings none.
    """

    problem: Problem
    steps: Steps | None
    labels: Labels | None

    @classmethod
    def of(cls, problem: Problem, *, labelled: bool, steps: bool) -> JudgedProblem:
        """A problem that was read, with the labels and steps in its columns where they are wanted.

        Raises:
            [`InputError`]: The column `steps` is not a list of texts for each solution, or labels
                are wanted and there are none.
        """
        labels = None
        if labelled:
            labels = Labels.of({**problem.extra, "solutions": problem.solutions})
            if labels is None:
                raise InputError(
                    f"{problem.where} has no labels: --labels reads strategy_a and strategy_b, or "
                    "strategies"
                )
        given = problem.extra.get("steps") if steps else [[]] * len(problem.solutions)
        return cls(problem, None if given is None else _usable(given, problem), labels)

    @property
    def several(self) -> bool | None:
        """Whether the labels hold several strategies; `None` without any that agree."""
        passes = self.labels.passes if self.labels else ()
        votes = {len({labels[index] for index in self.steps or ()}) > 1 for labels in passes}
        return votes.pop() if len(votes) == 1 else None

    def pairs(self) -> list[tuple[int, int, bool | None]]:
        """The pairs that a judge should see, with what the labels say of them.

        With labels, those that every pass agrees on; without, those among the `selected` solutions
        of a curated row, or among all of them. Solutions without steps are in none.
        """
        steps = self.steps or {}
        pairs: list[tuple[int, int, bool | None]]
        if self.labels is not None:
            pairs = list(self.labels.pairs())
        else:
            chosen = self.problem.extra.get("selected")
            among = sorted(steps if chosen is None else chosen)
            pairs = [(i, j, None) for i, j in combinations(among, 2)]
        return [pair for pair in pairs if set(pair[:2]) <= steps.keys()]


def _usable(given: object, problem: Problem) -> Steps:
    if not isinstance(given, list) or len(given) != len(problem.solutions):
        raise InputError(f"{problem.where}: the column steps must hold a list for each solution")
    usable = {}
    for index, steps in enumerate(given):
        if not all(isinstance(step, str) for step in steps or ()):
            raise InputError(f"{problem.where}: the steps of solution {index} are not all texts")
        if kept := [step for step in steps or () if step.strip()]:
            usable[index] = kept
    return usable
