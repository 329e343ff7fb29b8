"""Strategy labels: how they are read and made, and how far two opinions agree.

A labelled row has `strategy_a` and, from a second and independent pass, `strategy_b`; one pass
alone may be called `strategies`, as in the packaged sample. Each holds one label per solution,
equal labels meaning the same methodology. A pair counts as same or different only where the
passes agree. A person labels at a terminal (`cli/label.py`), or a chat model does
(`StrategyGrouper` in `judges.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from rpd_datasets.judging.judges import Judgement
from rpd_datasets.judging.verdicts import renumbered
from rpd_metric.errors import InputError

COLUMNS = ("strategy_a", "strategy_b", "strategies")

# The problem, its solutions' steps and its solutions in; a group number each, or why there is none.
Labeller = Callable[
    [str, Sequence[Sequence[str]], Sequence[str]], Awaitable[Judgement[tuple[int, ...]]]
]


@dataclass(frozen=True)
class Labels:
    """The strategy labels of one problem's solutions: one per solution and pass."""

    passes: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, row: Mapping[str, Any], where: str = "a row") -> Labels | None:
        """The labels of a row, or `None` when it has none; each solution needs one.

        Raises:
            [`InputError`]: Their number is not that of the solutions.
        """
        found = [row[name] for name in COLUMNS if row.get(name) is not None]
        count = len(row["solutions"])
        if wrong := [labels for labels in found if len(labels) != count]:
            raise InputError(f"{where}: {len(wrong[0])} strategy labels for {count} solutions")
        return cls(tuple(tuple(labels) for labels in found)) if found else None

    def different(self, i: int, j: int) -> bool | None:
        """Whether solutions `i` and `j` differ; `None` where the passes disagree."""
        return agreed(labels[i] != labels[j] for labels in self.passes)

    def pairs(self) -> list[tuple[int, int, bool]]:
        """Every pair the passes agree on, with whether it differs."""
        every = combinations(range(len(self.passes[0])), 2)
        return [(i, j, differs) for i, j in every if (differs := self.different(i, j)) is not None]

    def complete(self, chosen: Sequence[int], size: int) -> bool:
        """Whether `chosen` holds as many strategies as `size` solutions can, in every pass."""
        return all(
            len({labels[index] for index in chosen}) == min(size, len(set(labels)))
            for labels in self.passes
        )

    def choice_matters(self, size: int) -> bool:
        """Whether some `size` solutions hold fewer strategies than others in every pass."""

        def fewest(labels: Sequence[Any]) -> int:
            left, strategies = size, 0
            for _, count in Counter(labels).most_common():  # the worst choice takes these first
                strategies += left > 0
                left -= count
            return strategies

        return all(fewest(labels) < min(size, len(set(labels))) for labels in self.passes)


def agreed(votes: Iterable[bool]) -> bool | None:
    """What all votes say; `None` where they differ or there are none."""
    different = set(votes)
    return different.pop() if len(different) == 1 else None


@dataclass(frozen=True)
class Agreement:
    """Verdicts beside labels; "different" is the positive class (App. D.2).

    Pairs that differ are `true_different` or `missed`, the others `false_different` or
    `true_same`. Those without a verdict are `undecided`, and in no figure. `kappa` is Cohen's.
    """

    true_different: int
    missed: int
    false_different: int
    true_same: int
    undecided: int
    accuracy: float | None
    recall: float | None
    precision: float | None
    kappa: float | None

    @property
    def judged(self) -> int:
        """Pairs with a verdict."""
        return self.true_different + self.missed + self.false_different + self.true_same


def agreement(labels: Sequence[bool], verdicts: Sequence[bool | None]) -> Agreement:
    """Compare verdicts with labels; `True` means different.

    >>> agreement([True, True, False, False], [True, None, True, False]).accuracy
    0.6666666666666666
    """
    found = Counter(zip(labels, verdicts, strict=True))
    hit, missed = found[True, True], found[True, False]
    false, same = found[False, True], found[False, False]
    judged = hit + missed + false + same
    # What two with these shares of verdicts agree on by chance, times the pairs.
    chance = ((hit + missed) * (hit + false) + (false + same) * (missed + same)) / (judged or 1)
    return Agreement(
        hit,
        missed,
        false,
        same,
        undecided=found[True, None] + found[False, None],
        accuracy=_share(hit + same, judged),
        recall=_share(hit, hit + missed),
        precision=_share(hit, hit + false),
        kappa=_share(hit + same - chance, judged - chance),
    )


def agreement_of_passes(labels: Sequence[Labels]) -> Agreement:
    """How far two passes agree on which pairs of solutions differ, the first taken as the truth."""
    first, second = (
        [i != j for one in labels for i, j in combinations(one.passes[which], 2)]
        for which in (0, 1)
    )
    return agreement(first, second)


async def label_once(
    labeller: Labeller,
    problem: str,
    steps: Sequence[Sequence[str]],
    solutions: Sequence[str],
    order: Sequence[int],
) -> Judgement[tuple[int, ...]]:
    """Group numbers of one problem's solutions, which are shown in the `order` of these indices."""
    judgement = await labeller(problem, [steps[i] for i in order], [solutions[i] for i in order])
    if judgement.value is None:
        return judgement
    given = dict(zip(order, judgement.value, strict=True))
    return Judgement(renumbered([given[index] for index in range(len(steps))]))


def second_order(problem: str, count: int, seed: int) -> list[int]:
    """In which order the second pass shows a problem's solutions: never that of the first.

    >>> second_order("P", 2, seed=0), second_order("P", 2, seed=1)
    ([1, 0], [1, 0])
    """
    order = random.Random(f"{seed}:{problem}").sample(range(count), count)
    return order[::-1] if order == list(range(count)) else order


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
