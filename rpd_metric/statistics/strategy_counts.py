"""Counting strategies: labels of samples in, figures with intervals over problems out.

    labels of each problem's samples, which are right -> effective number, coverage@N, distinct@k

Coverage@N asks what the right samples of a problem show, however many there are. distinct@k counts
wrong samples as draws: it rewards being right as well as being varied.
`docs/statistics.md` has the definitions.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from rpd_metric.errors import InputError
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import Interval, bootstrap_interval

Labels = Sequence[Hashable | None]


@dataclass(frozen=True)
class Count(Interval):
    """A mean over `problems`, those with enough samples, with a bootstrap interval."""

    figure: str
    problems: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] over {self.problems:,} problems"


def effective_number(groups: Labels) -> float | None:
    """How many equally common strategies the solutions are worth: the Hill number of order 2.

    The inverse of the chance that two solutions drawn with replacement have the same strategy.
    Solutions without a group (`None`) are left out; `None` where there are no others.

    >>> effective_number([0, 0, 1, 1]), effective_number([0, 0, 0, 1, None])
    (2.0, 1.6)
    """
    sizes = np.array(list(Counter(group for group in groups if group is not None).values()))
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else None


def coverage_at_n(labels: Labels, n: int) -> float:
    """Unbiased estimate of how many distinct strategies n samples of a problem show.

    A strategy is seen unless all n samples miss it, so its chance is [`pass_at_k`] with its samples
    as the right ones, and the expected number is the sum over strategies (Hurlbert 1971). The
    name is that of arXiv 2606.29985.

    Args:
        labels (sequence): The strategy of each sample. A sample with `None` is drawn but shows no
            strategy: with `None` for wrong samples the figure is distinct@k among the right ones.
        n (`int`): At most the number of labels.

    >>> coverage_at_n(["factor", "factor", "draw", "draw"], 2)
    1.6666666666666667
    >>> coverage_at_n(["factor", "draw", None, None], 2)
    1.0
    """
    sizes = Counter(label for label in labels if label is not None)
    # The 0 checks n also where no sample has a strategy.
    return float(np.sum(pass_at_k(len(labels), [*sizes.values(), 0], n)))


def distinct_at_k(labels: Labels, samples: int, right: int, k: int) -> float:
    """Unbiased estimate of how many distinct right strategies k samples of a problem show.

    Args:
        labels (sequence): The strategies of the right samples, or of some drawn at random.
        samples (`int`): Samples of the problem.
        right (`int`): The right ones among them.
        k (`int`): At most `samples`; with fewer labels than right samples at most the labels.

    >>> distinct_at_k(["factor", "draw"], samples=4, right=2, k=2)
    1.0
    """
    if not len(labels) <= right <= samples or not 1 <= k <= samples:
        raise InputError(f"distinct@{k} of {samples} samples, {right} right, {len(labels)} labels")
    draws = range(1, min(k, right) + 1)  # right samples among k
    chances = [comb(right, r) * comb(samples - right, k - r) / comb(samples, k) for r in draws]
    return sum(p * coverage_at_n(labels, r) for r, p in zip(draws, chances, strict=True) if p)


def strategy_counts(
    labels: Sequence[Labels], right: Sequence[Sequence[bool | None]] | None = None
) -> list[Count]:
    """The effective number of strategies, coverage@N and distinct@k, as means over problems.

    N and k are powers of two, as long as half of the problems have so many samples. A problem with
    fewer does not count for that figure.

    Args:
        labels (sequence): Of each problem the strategy of each sample, `None` where it is unknown.
        right (sequence, *optional*): Which of the same samples are right. Wrong samples then show
            no strategy. Where it is not known of each sample, or a right sample has no label, the
            problem does not count for distinct@k.

    Returns:
        `list` of [`Count`]: Empty if no sample has a strategy.

    >>> for count in strategy_counts([["a", "b", "a", None]] * 2, [[True, True, True, False]] * 2):
    ...     print(f"{count.figure}: {count.value:.2f}")
    effective_strategies: 1.80
    coverage@2: 1.67
    distinct@1: 0.75
    distinct@2: 1.33
    distinct@4: 2.00
    """
    marks = [[True] * len(row) for row in labels] if right is None else right
    if list(map(len, marks)) != list(map(len, labels)):
        raise InputError("labels and right differ in shape; give one of each for every sample")
    shown = [
        [label if mark is not False else None for label, mark in zip(*pair, strict=True)]
        for pair in zip(labels, marks, strict=True)
    ]
    known = [[label for label in row if label is not None] for row in shown]
    known = [row for row in known if row]
    if not known:
        return []
    numbers = [effective_number(row) or 0.0 for row in known]
    counts = [_count("effective_strategies", numbers)]
    counts += _curve("coverage", known, 2)
    if right is not None:
        complete = [
            row
            for row, marked in zip(shown, marks, strict=True)
            if None not in marked and all((row[n] is not None) == m for n, m in enumerate(marked))
        ]
        counts += _curve("distinct", complete, 1)
    return counts


def rare_advantage(
    labels: Sequence[Labels], right: Sequence[Sequence[bool | None]]
) -> Count | None:
    """How much more often a problem's rarer strategies are right than its usual one.

    The usual one is the one of most samples, the first of equals. If the others are right more
    often, a model that used them more would solve more: docs/loop-real.md measured what training
    sets made of this difference.

    Args:
        labels (sequence): Of each problem the strategy of each sample, `None` where it is unknown.
        right (sequence): Which of the same samples are right, `None` where it is unknown.

    Returns:
        [`Count`], *optional*: The mean over problems, from -1 to 1; `None` if no problem has two
        strategies.

    >>> rare_advantage([["a", "a", "b"], ["a", "a", "a"]], [[True, False, True]] * 2).value
    0.5
    """
    gaps = []
    for names, marks in zip(labels, right, strict=True):
        rows = [
            (name, mark)
            for name, mark in zip(names, marks, strict=True)
            if name is not None and mark is not None
        ]
        usual = Counter(name for name, _ in rows).most_common(1)
        shares = [
            [mark for name, mark in rows if (name == usual[0][0]) == common]
            for common in (False, True)
        ]
        if all(shares):
            rare, common = (sum(marks) / len(marks) for marks in shares)
            gaps.append(rare - common)
    return _count("rare_advantage", gaps) if gaps else None


def _curve(name: str, rows: Sequence[Labels], first: int) -> list[Count]:
    counts = []
    for n in sample_sizes(list(map(len, rows)), first):
        values = [coverage_at_n(row, n) for row in rows if len(row) >= n]
        counts.append(_count(f"{name}@{n}", values))
    return counts


def sample_sizes(numbers: Sequence[int], first: int = 2) -> list[int]:
    """Powers of two from `first` that at least half of the problems reach.

    >>> sample_sizes([1, 4, 9]), sample_sizes([1, 1, 4])
    ([2, 4], [])
    """
    usual = sorted(numbers)[len(numbers) // 2] if numbers else 0
    return [1 << power for power in range(usual.bit_length()) if 1 << power >= first]


def _count(figure: str, values: Sequence[float]) -> Count:
    mean = bootstrap_interval(values)
    return Count(mean.value, mean.low, mean.high, figure, len(values))
