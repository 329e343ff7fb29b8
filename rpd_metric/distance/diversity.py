"""How diverse a problem's solutions are: Div-Self-BLEU, Table 3, and groups of one strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import mean_pairwise
from rpd_metric.distance.strategy import average_linkage
from rpd_metric.errors import MissingExtraError

# Table 3: of 16 samples, moderately solved and well solved problems.
PASS_COUNTS = ((2, 12), (13, 16))
MAX_ORDER = 4


def div_self_bleu(texts: Sequence[str]) -> float | None:
    """Div-Self-BLEU (Sec. 4.3): 100 minus the mean BLEU of each text against all the others.

    sacreBLEU's sentence BLEU: n-grams up to 4, tokenizer `13a`, smoothing `exp`, effective
    order on (texts under four words), case kept. The paper does not state its own, so figures
    compare among themselves rather than with Table 3. Each text's n-grams are counted once
    rather than once per reference, which changes no digit.

    Returns:
        `float`: In [0, 100]; `None` with fewer than two texts that are not blank.

    >>> div_self_bleu(["factor the cubic", "draw every angle"])
    100.0
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.helpers import extract_all_word_ngrams
    except ImportError as error:
        module = error.name or "sacrebleu"
        raise MissingExtraError("Self-BLEU", extra="diversity", module=module) from error
    tokenize = BLEU(tokenize="13a").tokenizer
    counted = [
        extract_all_word_ngrams(tokenize(text.rstrip()), 1, MAX_ORDER)
        for text in texts
        if text.strip()
    ]
    if len(counted) < 2:
        return None
    first, second = _two_largest([grams for grams, _ in counted])
    scores = []
    for index, (grams, length) in enumerate(counted):
        matched, total = [0] * MAX_ORDER, [0] * MAX_ORDER
        for gram, count in grams.items():
            # Among the others, the largest count is the overall one unless this text holds it
            # alone; with two holders the second largest equals it.
            owner, largest = first[gram]
            reference = second[gram] if owner == index else largest
            matched[len(gram) - 1] += min(count, reference)
            total[len(gram) - 1] += count
        lengths = [other for place, (_, other) in enumerate(counted) if place != index]
        closest = min(lengths, key=lambda other: (abs(other - length), other))
        score = BLEU.compute_bleu(
            matched, total, length, closest, smooth_method="exp", effective_order=True
        )
        scores.append(score.score)
    return max(0.0, 100 - float(np.mean(scores)))


@dataclass(frozen=True)
class PassCountDiversity:
    """The means of problems with a pass count from `low` to `high`, one cell pair of Table 3.

    `rpd` is the mean pairwise distance (the paper prints 100 times this); `without_rpd` problems
    have fewer than two correct solutions with a distance.
    """

    low: int
    high: int
    num_problems: int
    div_self_bleu: float | None
    rpd: float | None
    without_rpd: int


def diversity_by_pass_count(
    texts: Sequence[Sequence[str]],
    correct: Sequence[Sequence[bool]],
    matrices: Sequence[npt.ArrayLike],
    pass_counts: Sequence[tuple[int, int]] = PASS_COUNTS,
) -> list[PassCountDiversity]:
    """Diversity among correct solutions, split by pass count (Table 3).

    Args:
        texts (`Sequence`): Per problem, its sampled solutions.
        correct (`Sequence`): Per problem and solution, whether its answer is right.
        matrices (`Sequence` of arrays of shape `(k, k)`): Per problem, distances between all its
            solutions, right and wrong; NaN for those without steps.
        pass_counts (`Sequence`): Inclusive ranges; the defaults are for 16 samples.
    """
    table = []
    for low, high in pass_counts:
        bleus, distances = [], []
        for solutions, verdicts, matrix in zip(texts, correct, matrices, strict=True):
            right = np.flatnonzero(verdicts).tolist()
            if low <= len(right) <= high:
                bleus.append(div_self_bleu([solutions[index] for index in right]))
                distances.append(mean_pairwise(np.asarray(matrix)[np.ix_(right, right)]))
        means = _mean(bleus), _mean(distances)
        table.append(PassCountDiversity(low, high, len(bleus), *means, distances.count(None)))
    return table


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
    distances = np.asarray(matrix, dtype=np.float64)
    usable = np.flatnonzero(~np.isnan(distances.diagonal()))
    levels = average_linkage(distances[np.ix_(usable, usable)])
    # argmax gives the first member of each one's group, which names the group.
    leaders = (levels <= threshold).argmax(axis=1) if len(usable) else usable
    number = {leader: place for place, leader in enumerate(np.unique(leaders).tolist())}
    groups: list[int | None] = [None] * len(distances)
    for index, leader in zip(usable.tolist(), leaders.tolist(), strict=True):
        groups[index] = number[leader]
    return groups


def _two_largest(
    counts: Sequence[Counter[tuple[str, ...]]],
) -> tuple[dict[tuple[str, ...], tuple[int, int]], Counter[tuple[str, ...]]]:
    """Per n-gram: (text, its count) for the largest count, and the second largest count."""
    largest: dict[tuple[str, ...], tuple[int, int]] = {}
    runner_up: Counter[tuple[str, ...]] = Counter()
    for index, grams in enumerate(counts):
        for gram, count in grams.items():
            _, best = largest.get(gram, (index, 0))
            if count > best:
                largest[gram] = (index, count)
                runner_up[gram] = best
            else:
                runner_up[gram] = max(runner_up[gram], count)
    return largest, runner_up


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
