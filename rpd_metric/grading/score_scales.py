"""What the scores of a log mean: right or wrong, a share, or what a user says is right.

    C, I, N, true, false, yes, no, 0, 1    right or wrong
    numbers from 0 to 1, P (a half)        shares: only a full score is right
    8 of 10, A to E, ...                   unknown, until `right_score` says which are right

The scale follows from all scores of a scorer, never from one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rpd_metric.errors import InputError

VERDICTS, SHARES, THRESHOLD = "right or wrong", "shares", "threshold"
# Inspect's letters and the words that it reads.
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_PLAIN_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_SHOWN = 4


@dataclass(frozen=True)
class ScoreScale:
    """How the scores of one scorer are read.

    Args:
        kind (`str`): `"right or wrong"`, `"shares"`, or `"threshold"` where a user named one.
        threshold (`float`, *optional*): Numbers from it on are right.
        values (`frozenset[str]`): Or these values are.
    """

    kind: str = VERDICTS
    threshold: float = 1.0
    values: frozenset[str] = frozenset()

    def is_right(self, score: Any) -> bool | None:
        """Whether a score is right; `None` for a missing one, and for a share between 0 and 1."""
        if is_missing(score):
            return None
        if self.values:
            return str(score).strip() in self.values
        share = self.share(score)
        if self.kind == SHARES and 0 < share < 1:
            return None
        # A word for right is right on every scale of numbers.
        return share >= (self.threshold if _of_word(score) is None else min(self.threshold, 1))

    @staticmethod
    def share(score: Any) -> float:
        """A score as a number, words for right as 1; NaN for other words."""
        word = _of_word(score)
        return _number(score) if word is None else word


def score_scale(scorer: str, scores: Iterable[Any], right_score: str | None = None) -> ScoreScale:
    """The scale of a scorer, by all of its scores.

    Args:
        right_score (`str`, *optional*): Which scores are right: a number, from which on they are,
            or values such as `"A,B"`. It does not change what words for right and wrong mean.

    Raises:
        [`InputError`]: The scores say neither right or wrong nor a share, and `right_score` does
            not tell which are right.

    >>> score_scale("match", ["C", "I"]).kind, score_scale("f1", [0.13, 1.0]).kind
    ('right or wrong', 'shares')
    >>> [score_scale("judge", [8, 3], "7").is_right(score) for score in (8, 3, None)]
    [True, False, None]
    """
    present = list(dict.fromkeys(str(score) for score in scores if not is_missing(score)))
    numeric = any(_of_word(score) is None for score in present)
    shares = set(map(ScoreScale.share, present))
    unknown_words = any(map(math.isnan, shares))
    threshold = _number(right_score)
    if threshold == threshold and not unknown_words and (numeric or 0.5 in shares):
        return ScoreScale(THRESHOLD, threshold)
    if all(0 <= share <= 1 for share in shares):
        return ScoreScale(VERDICTS if shares <= {0, 1} else SHARES)
    if right_score and threshold != threshold and unknown_words:
        return ScoreScale(THRESHOLD, values=frozenset(map(str.strip, right_score.split(","))))
    examples = ", ".join(present[:_SHOWN]) + (", ..." if len(present) > _SHOWN else "")
    raise InputError(
        f"the scores of {scorer} ({examples}) are neither right or wrong nor shares from 0 to 1; "
        "say with {right_score} which are right: a number for it and all above, or values as A,B",
        option="right_score",
    )


def score_scales(
    scores: Mapping[str, Iterable[Any]], right_score: str | None = None
) -> dict[str, ScoreScale | None]:
    """The scale of each scorer of a log; `None` for an unknown one, an error if it is the first."""
    scales: dict[str, ScoreScale | None] = {}
    for scorer, values in scores.items():
        try:
            scales[scorer] = score_scale(scorer, values, right_score)
        except InputError:
            if not scales:
                raise
            scales[scorer] = None
    return scales


def is_missing(score: Any) -> bool:
    """Whether a sample has no score: none, NaN, or what is no single value."""
    return score is None or isinstance(score, list | dict) or score != score


def _of_word(score: Any) -> float | None:
    """1, 0 or a half for a word or a truth value, `None` for another score."""
    text = str(score).strip()
    return _WORDS.get(text, _PLAIN_WORDS.get(text.lower()))


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        return math.nan
