"""Strategy labels: the pairs that they call same or different, and how well a judge agrees.

A labelled row has `strategy_a` and, from a second and independent pass, `strategy_b`; one pass
alone may be called `strategies`, as in the packaged sample. Each holds one label per solution,
equal labels meaning the same methodology. A pair counts as same or different only where the
passes agree. Distances are measured against these pairs in `benchmark.py`; judges are `judges.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run_bounded

COLUMNS = ("strategy_a", "strategy_b", "strategies")

# The problem and both solutions' steps in; whether they differ, or None where it did not say.
PairRater = Callable[[str, Sequence[str], Sequence[str]], Awaitable[bool | None]]


@dataclass(frozen=True)
class Labels:
    """The strategy labels of one problem's solutions.

    Args:
        passes (`tuple` of `tuple`): One label per solution and pass.
    """

    passes: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Labels | None:
        """The labels of a row, or `None` when it has none.

        Raises:
            [`InputError`]: Their number is not that of the solutions.
        """
        found = [row[name] for name in COLUMNS if row.get(name) is not None]
        for labels in found:
            if len(labels) != len(row["solutions"]):
                raise InputError(
                    f"{len(labels)} strategy labels for {len(row['solutions'])} solutions; "
                    "each solution needs one"
                )
        return cls(tuple(tuple(labels) for labels in found)) if found else None

    def different(self, i: int, j: int) -> bool | None:
        """Whether solutions `i` and `j` differ; `None` where the passes disagree."""
        votes = {labels[i] != labels[j] for labels in self.passes}
        return votes.pop() if len(votes) == 1 else None

    def pairs(self) -> list[tuple[int, int, bool]]:
        """Every pair the passes agree on, with whether it differs."""
        found = []
        for i, j in combinations(range(len(self.passes[0])), 2):
            verdict = self.different(i, j)
            if verdict is not None:
                found.append((i, j, verdict))
        return found

    def complete(self, chosen: Sequence[int], size: int) -> bool:
        """Whether `chosen` holds as many strategies as `size` solutions can, in every pass."""
        return all(
            len({labels[index] for index in chosen}) == min(size, len(set(labels)))
            for labels in self.passes
        )

    def choice_matters(self, size: int) -> bool:
        """Whether some `size` solutions hold fewer strategies than others in every pass."""
        for labels in self.passes:
            common = Counter(labels).most_common()
            wanted = min(size, len(common))
            # The worst choice takes the most common strategies first.
            left, worst = size, 0
            for _, count in common:
                if left > 0:
                    worst += 1
                    left -= count
            if worst >= wanted:
                return False
        return True


@dataclass(frozen=True)
class LabelledPair:
    """Two solutions of a row and whether their strategies differ.

    Args:
        row (`int`): Index of the row.
        first (`int`): Index of a solution.
        second (`int`): Index of another one.
        different (`bool`): What the labels say.
    """

    row: int
    first: int
    second: int
    different: bool


def labelled_pairs(
    rows: Sequence[Mapping[str, Any]], *, per_label: int | None = None, seed: int = 0
) -> list[LabelledPair]:
    """The pairs to try a judge on.

    Args:
        rows (`Sequence`): Labelled rows with their `solutions`.
        per_label (`int`, *optional*): Draw so many differing and so many same pairs; the paper
            took 50 of each (App. D.2). Left out, every pair is taken.
        seed (`int`): For the draw.

    Raises:
        [`InputError`]: A row has no labels, or there are fewer pairs than asked for.
    """
    pairs = []
    for number, row in enumerate(rows):
        labels = Labels.of(row)
        if labels is None:
            raise InputError(
                f"row {number} has no strategy labels; a judge is tried on labelled rows"
            )
        pairs += [LabelledPair(number, i, j, different) for i, j, different in labels.pairs()]
    if per_label is None:
        return pairs
    rng = np.random.default_rng(seed)
    chosen: list[int] = []
    for wanted in (True, False):
        places = [place for place, pair in enumerate(pairs) if pair.different == wanted]
        if len(places) < per_label:
            kind = "differing" if wanted else "same"
            raise InputError(f"there are {len(places)} {kind} pairs, fewer than {per_label}")
        chosen += rng.choice(places, size=per_label, replace=False).tolist()
    return [pairs[place] for place in sorted(chosen)]


async def judge_pairs(
    judge: PairRater,
    pairs: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    *,
    max_in_flight: int = 64,
) -> list[bool | None]:
    """Ask a judge about each pair: the problem and the steps of both solutions.

    Returns:
        `list[bool | None]`: In order; `None` where the judge gave no verdict.
    """

    async def ask(pair: tuple[str, Sequence[str], Sequence[str]]) -> bool | None:
        return await judge(*pair)

    verdicts = []
    async with aclosing(run_bounded(pairs, ask, max_in_flight=max_in_flight)) as answers:
        async for verdict in answers:
            verdicts.append(verdict)
    return verdicts


@dataclass(frozen=True)
class Agreement:
    """A judge's verdicts beside the labels; "different" is the positive class (App. D.2).

    Args:
        true_different (`int`): Differ, and the judge says so.
        missed (`int`): Differ, and the judge says same.
        false_different (`int`): Same, and the judge says different.
        true_same (`int`): Same, and the judge says so.
        undecided (`int`): No verdict; in none of the figures below.
    """

    true_different: int
    missed: int
    false_different: int
    true_same: int
    undecided: int = 0

    @property
    def judged(self) -> int:
        """Pairs with a verdict."""
        return self.true_different + self.missed + self.false_different + self.true_same

    @property
    def accuracy(self) -> float | None:
        """Share of the judged pairs on which judge and labels agree."""
        return _share(self.true_different + self.true_same, self.judged)

    @property
    def recall(self) -> float | None:
        """Share of the differing pairs that the judge calls different."""
        return _share(self.true_different, self.true_different + self.missed)

    @property
    def precision(self) -> float | None:
        """Share of the pairs called different that are."""
        return _share(self.true_different, self.true_different + self.false_different)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: agreement above what equal shares of verdicts give by chance."""
        if not self.judged:
            return None
        labelled = (self.true_different + self.missed) / self.judged
        called = (self.true_different + self.false_different) / self.judged
        chance = labelled * called + (1 - labelled) * (1 - called)
        observed = (self.true_different + self.true_same) / self.judged
        return None if chance == 1 else (observed - chance) / (1 - chance)

    def as_json(self) -> dict[str, Any]:
        """Counts and figures as plain JSON types."""
        return {
            **asdict(self),
            "accuracy": self.accuracy,
            "recall": self.recall,
            "precision": self.precision,
            "kappa": self.kappa,
        }


def judge_agreement(labels: Sequence[bool], verdicts: Sequence[bool | None]) -> Agreement:
    """Compare a judge's verdicts with labels; `True` means different.

    Raises:
        [`InputError`]: The lists differ in length.

    Example:

    ```py
    >>> from rpd_datasets.judging.labels import judge_agreement
    >>> judge_agreement([True, True, False, False], [True, None, True, False]).accuracy
    0.6666666666666666

    ```
    """
    if len(labels) != len(verdicts):
        raise InputError(f"{len(verdicts)} verdicts for {len(labels)} labels")
    counts = Counter(
        (bool(label), None if verdict is None else bool(verdict))
        for label, verdict in zip(labels, verdicts, strict=True)
    )
    return Agreement(
        true_different=counts[True, True],
        missed=counts[True, False],
        false_different=counts[False, True],
        true_same=counts[False, False],
        undecided=counts[True, None] + counts[False, None],
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
