"""Strategy labels: how they are read and made, and how far two opinions agree.

A labelled row has `strategy_a` and, from a second and independent pass, `strategy_b`; one pass
alone may be called `strategies`, as in the packaged sample. Each holds one label per solution,
equal labels meaning the same methodology. A pair counts as same or different only where the
passes agree. A person or a chat model makes them with `cli/label.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from rpd_metric.errors import InputError

COLUMNS = ("strategy_a", "strategy_b", "strategies")


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
        columns = [row[name] for name in COLUMNS if row.get(name) is not None]
        count = len(row["solutions"])
        if wrong := [labels for labels in columns if len(labels) != count]:
            raise InputError(f"{where}: {len(wrong[0])} strategy labels for {count} solutions")
        return cls(tuple(tuple(labels) for labels in columns)) if columns else None

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


def agreement(labels: Sequence[bool], verdicts: Sequence[bool | None]) -> dict[str, Any]:
    """Compare verdicts with labels; `True` means different, the positive class (App. D.2).

    Pairs that differ are `true_different` or `missed`, the others `false_different` or `true_same`:
    those that are `judged`. Those without a verdict are in no figure. `kappa` is Cohen's.

    >>> agreement([True, True, False, False], [True, None, True, False])["accuracy"]
    0.6666666666666666
    """
    counts = Counter(zip(labels, verdicts, strict=True))
    hit, missed = counts[True, True], counts[True, False]
    false, same = counts[False, True], counts[False, False]
    judged = hit + missed + false + same
    # What two with these shares of verdicts agree on by chance, times the pairs.
    chance = ((hit + missed) * (hit + false) + (false + same) * (missed + same)) / (judged or 1)
    return {
        "true_different": hit,
        "missed": missed,
        "false_different": false,
        "true_same": same,
        "judged": judged,
        "undecided": len(labels) - judged,
        "accuracy": _share(hit + same, judged),
        "recall": _share(hit, hit + missed),
        "precision": _share(hit, hit + false),
        "kappa": _share(hit + same - chance, judged - chance),
    }


def agreement_of_passes(labels: Sequence[Labels]) -> dict[str, Any]:
    """How far two passes agree on which pairs of solutions differ, the first taken as the truth."""
    first, second = (
        [i != j for labelled in labels for i, j in combinations(labelled.passes[number], 2)]
        for number in (0, 1)
    )
    return agreement(first, second)


def second_order(problem: str, count: int, seed: int) -> list[int]:
    """In which order the second pass shows a problem's solutions: never that of the first.

    >>> second_order("P", 2, seed=0), second_order("P", 2, seed=1)
    ([1, 0], [1, 0])
    """
    order = random.Random(f"{seed}:{problem}").sample(range(count), count)
    return order[::-1] if order == list(range(count)) else order


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
