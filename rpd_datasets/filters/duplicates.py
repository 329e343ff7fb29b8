"""Solutions that are there twice: the same text, or nearly the same words in the same order."""

from __future__ import annotations

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_metric.reasons import Reason

SHINGLE_WORDS = 5


def duplicates(candidates: Candidates) -> Drops:
    """Leave out a solution that is equal to an earlier one, blank space aside."""
    first: dict[str, int] = {}
    drops = {}
    for index in candidates.left:
        text = " ".join(candidates.problem.solutions[index].split())
        original = first.setdefault(text, index)
        if original != index:
            drops[index] = (Reason.DUPLICATE, f"The same text as solution {original}.")
    return drops


def near_duplicates(candidates: Candidates, near_duplicate: float) -> Drops:
    """Leave out what is as similar as that, by its shingles, to an earlier solution that stays."""
    kept: dict[int, frozenset[tuple[str, ...]]] = {}
    drops = {}
    for index in candidates.left:
        mine = shingles(candidates.problem.solutions[index])
        for other, theirs in kept.items():
            similarity = len(mine & theirs) / len(mine | theirs)
            if similarity >= near_duplicate:
                drops[index] = (
                    Reason.NEAR_DUPLICATE,
                    f"It shares {similarity:.0%} of its 5-word shingles with solution {other}.",
                )
                break
        else:
            kept[index] = mine
    return drops


def shingles(text: str, size: int = SHINGLE_WORDS) -> frozenset[tuple[str, ...]]:
    """All runs of `size` words of a text, without regard to case; a shorter text is one run.

    >>> sorted(shingles("We add two and two.", size=4))
    [('add', 'two', 'and', 'two.'), ('we', 'add', 'two', 'and')]
    """
    words = text.lower().split()
    if len(words) <= size:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[start:] for start in range(size)), strict=False))
