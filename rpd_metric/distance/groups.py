"""How diverse solutions are: Div-Self-BLEU, groups of one strategy, and trust in their reader.

Groups are cut from distances ([`strategy_groups`]) or read by a chat model (`steps/grouping.py`),
and one that sorts at random must not decide. The distance `strategy` knows nothing of the groups.
Whoever sorts by strategy puts far solutions apart and near ones together, so the AUROC of
`strategy` against the groups, within problems, tells good readers from bad ones, and costs no
request. `benchmarks/readers.py` derives the figures here from labelled sets: the recorded reader
reaches 0.88. Simulated readers that sort at random, split, or go by length agree with the labels as
well as the best cut of `strategy` does at 0.65 to 0.70.

What it does not see: a reader that merges whole strategies and parts the others well.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import usable_part
from rpd_metric.distance.strategy import average_linkage
from rpd_metric.errors import needs_extra

# More than any distance: solutions of two groups are further apart than any two of one.
APART = 2.0
CHANCE = 0.5
LEAST = 0.67
# Of a reader that knows nothing: the standard deviation of one problem's AUROC.
SPREAD = 0.18
# So many standard errors above chance are asked for where problems are few.
SURE = 2


def div_self_bleu(texts: Sequence[str]) -> float | None:
    """Div-Self-BLEU (Sec. 4.3): 100 minus the mean BLEU of each text against all the others.

    sacreBLEU's sentence BLEU: n-grams up to 4, tokenizer `13a`, smoothing `exp`, effective
    order on (texts under four words), case kept. The paper does not state its own, so figures
    compare among themselves rather than with Table 3.

    Returns:
        `float`: In [0, 100]; `None` with fewer than two texts that are not blank.

    >>> div_self_bleu(["factor the cubic", "draw every angle"])
    100.0
    """
    with needs_extra("Self-BLEU", "diversity"):
        from sacrebleu.metrics import BLEU
    written = [text for text in texts if text.strip()]
    if len(written) < 2:
        return None
    bleu = BLEU(tokenize="13a", smooth_method="exp", effective_order=True)
    scores = [
        bleu.sentence_score(text, written[:place] + written[place + 1 :]).score
        for place, text in enumerate(written)
    ]
    return max(0.0, 100 - float(np.mean(scores)))


def strategy_groups(matrix: npt.ArrayLike, threshold: float) -> list[int | None]:
    """Group solutions that are closer than a threshold by average linkage.

    Groups rather than links: with plain connected components a chain of small differences
    makes one strategy of two.

    Args:
        matrix (`array` of shape `(k, k)`): Distances; those in rows and columns of NaN get `None`.
        threshold (`float`): Largest mean distance within one strategy. It depends on distance,
            embedder and summaries; `docs/distances.md` has values found on labelled problems.

    >>> strategy_groups([[0, 0.1, 0.6], [0.1, 0, 0.5], [0.6, 0.5, 0]], threshold=0.4)
    [0, 0, 1]
    """
    usable, distances = usable_part(matrix)
    levels = average_linkage(distances)
    # argmax gives the first member of each one's group, which names the group.
    leaders = (levels <= threshold).argmax(axis=1) if len(usable) else usable
    number = {leader: place for place, leader in enumerate(np.unique(leaders).tolist())}
    groups: list[int | None] = [None] * len(np.asarray(matrix))
    for index, leader in zip(usable.tolist(), leaders.tolist(), strict=True):
        groups[index] = number[leader]
    return groups


def renumbered(groups: Sequence[Hashable]) -> tuple[int | None, ...]:
    """Groups as numbers from 0, by first appearance; `None` stays.

    >>> renumbered(["b", None, "a", "b"])
    (0, None, 1, 0)
    """
    first = list(dict.fromkeys(group for group in groups if group is not None))
    return tuple(None if group is None else first.index(group) for group in groups)


def group_distances(groups: Sequence[int | None], matrix: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Distances by which every pair of two strategies comes before every pair of one.

    [`APART`] is added between solutions of two groups; within a group, and where a solution has no
    group, the distances stay as they are. Without groups nothing changes.

    >>> group_distances([0, 0, 1], [[0, 0.5, 0.4], [0.5, 0, 0.3], [0.4, 0.3, 0]])
    array([[0. , 0.5, 2.4],
           [0.5, 0. , 2.3],
           [2.4, 2.3, 0. ]])
    """
    labels = np.array([-1 if group is None else group for group in groups])
    known = labels >= 0
    apart = (labels[:, None] != labels) & known[:, None] & known
    distances: npt.NDArray[np.float64] = np.asarray(matrix, dtype=np.float64) + APART * apart
    return distances


def groups_auroc(groups: Sequence[int | None], matrix: npt.ArrayLike) -> float | None:
    """AUROC of a problem's distances for "in two groups?"; `None` without pairs of both kinds.

    Solutions without a group (`None`) or without a distance (NaN) are left out.

    >>> groups_auroc([0, 0, 1], [[0, 0.2, 0.6], [0.2, 0, 0.5], [0.6, 0.5, 0]])
    1.0
    """
    labels = np.array([-1 if group is None else group for group in groups])
    distances = np.asarray(matrix, dtype=np.float64)
    first, second = np.triu_indices(len(labels), 1)
    known = (labels[first] >= 0) & (labels[second] >= 0)
    if len(labels):
        known &= ~np.isnan(distances[first, second])
    first, second = first[known], second[known]
    apart = labels[first] != labels[second]
    if apart.all() or not apart.any():
        return None
    gaps = distances[first, second][apart][:, None] - distances[first, second][~apart]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


class ReaderTrust(NamedTuple):
    """The AUROC of `strategy` against a reader's groups: the mean over problems with both kinds of
    pairs, and their number."""

    auroc: float | None
    num_problems: int

    @classmethod
    def of(cls, aurocs: Iterable[float | None]) -> ReaderTrust:
        """Of the [`groups_auroc`] of each problem.

        >>> ReaderTrust.of([0.9, None, 0.8, 0.7, 0.8]).earned, ReaderTrust.of([0.5, 0.6]).earned
        (True, False)
        """
        known = [auroc for auroc in aurocs if auroc is not None]
        return cls(round(math.fsum(known) / len(known), 5) if known else None, len(known))

    @property
    def needed(self) -> float:
        """The AUROC from which the groups decide; higher where few problems can be checked."""
        few = SURE * SPREAD / math.sqrt(max(1, self.num_problems))
        return round(max(LEAST, CHANCE + few), 3)

    @property
    def refuted(self) -> bool:
        """Whether the check speaks against the groups, not only for too few problems."""
        return self.auroc is not None and self.auroc < LEAST

    @property
    def earned(self) -> bool:
        """Whether the groups may rank, choose and judge."""
        return self.auroc is not None and self.auroc >= self.needed

    @property
    def weight(self) -> float:
        """How much the groups count beside the distance: 0 at chance, 1 at full agreement."""
        return (self.auroc - CHANCE) / (1 - CHANCE) if self.auroc and self.earned else 0.0

    def in_words(self) -> str:
        """The figure with what it was measured on, and what is needed."""
        if self.auroc is None:
            return "no problem has pairs within and between its groups, so nothing can be checked"
        return (
            f"AUROC of `strategy` against its groups {self.auroc:.2f} over {self.num_problems:,} "
            f"problems, {self.needed:.2f} needed, 0.50 is chance"
        )


def scores_by_groups(
    numbers: Sequence[float | None],
    aurocs: Sequence[float | None],
    distances: Sequence[float | None],
) -> list[float | None]:
    """How diverse the problems of one reader are, by its groups as far as it is trusted.

    The chance that two drawn solutions have different strategies, weighted by the reader's trust,
    plus the distance, weighted by the rest. A reader that has not earned trust leaves the
    distances. A problem whose strategies are not known, or whose solutions all stand alone, which
    nothing can check, counts as the average of the others.

    Args:
        numbers: Of each problem the [`~rpd_metric.effective_number`] of its groups.
        aurocs: Its [`groups_auroc`].
        distances: Its score by `strategy` (Eq. 3); `None` under two usable solutions.

    >>> scores_by_groups([2.0, 1.0], [0.9, None], [0.4, 0.6])
    [0.48, 0.12]
    """
    weight = ReaderTrust.of(aurocs).weight
    chances = [
        None if number is None or (auroc is None and number > 1) else 1 - 1 / number
        for number, auroc in zip(numbers, aurocs, strict=True)
    ]
    checked = [chance for chance in chances if chance is not None]
    average = math.fsum(checked) / len(checked) if checked else 0.0
    return [
        None
        if distance is None
        else round(weight * (average if chance is None else chance) + (1 - weight) * distance, 5)
        for chance, distance in zip(chances, distances, strict=True)
    ]
