"""How diverse a problem's solutions are: Div-Self-BLEU, and groups of one strategy.

Groups are either cut from distances ([`strategy_groups`]) or read by a chat model
(`steps/grouping.py`); what follows from them is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from rpd_metric.distance.core import usable_part
from rpd_metric.distance.strategy import average_linkage
from rpd_metric.errors import needs_extra

# More than any distance: solutions of two groups are further apart than any two of one.
APART = 2.0


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
