"""Solutions whose argument failed although they answer, found by rules.

A right answer may follow a broken argument that admits a contradiction and states values that fit.
Such solutions look different, so selecting for diversity selects them. The rules search for the
words in which models admit failure (docs/curate.md), properly corrected mistakes included;
`<think>` blocks are ignored.
"""

import re

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_metric.reasons import Reason

_WRONG = r"(?:mistake|error|miscalculation|misunderstanding|misinterpretation|inconsistency)"
SIGNS = {
    "an admitted mistake": rf"(?:made|making|been|be|is|seems|indicat\w+|suggest\w+|due to|given|"
    rf"realiz\w+|see|correct\w*)\s+(?:\w+\s+){{0,2}}{_WRONG}|{_WRONG} in (?:our|my|the) "
    r"(?:\w+ )?(?:reasoning|approach|working|calculation|count|assumption|analysis|setup|"
    r"interpretation|process)|we missed a step|made an incorrect assumption",
    "a result that is taken back": r"\b(?:this|result|that|which)\b (?:\w+ )?(?:is|seems|appears|"
    r"looks)(?: to be)? (?:incorrect|wrong|not correct|inconsistent)\b",
    "a figure that does not match": r"\bthis (?:does not|doesn't) match "
    r"(?!the (?:graph|behaviou?r)|our analysis|either)[^.]{0,60}\d",
    "an approach given up": r"\b(?:need to|must|should|we|let's|let us|go back and) "
    r"(?:re-?evaluate|reconsider|reassess|rethink)\b",
    "values made to fit": r"by trial and error or|further analysis, we find|must adjust|"
    r"(?:closest|nearest) (?:\w+ )?(?:integer|number)[^.]{0,40}satisf|after manually enumerating|"
    r"reasonable (?:assumption|guess)|most plausible|without further confusion",
    "an impossibility before the answer": r"(?:is|which is|this is a) "
    r"(?:impossible|contradiction)\.\s+(?:The|So the) (?:largest|smallest|final|correct|answer)",
}
# Every text with the sign contains one of these; searching for them first is ten times as fast.
WORDS = {
    "an admitted mistake": (
        *("mistake", "error", "miscalculation", "misunderstanding", "misinterpretation"),
        *("inconsistency", "missed a step", "incorrect assumption"),
    ),
    "a result that is taken back": ("incorrect", "wrong", "not correct", "inconsistent"),
    "a figure that does not match": ("not match", "n't match"),
    "an approach given up": ("re-evaluate", "reevaluate", "reconsider", "reassess", "rethink"),
    "values made to fit": (
        *("trial and error or", "further analysis, we find", "must adjust", "closest", "nearest"),
        *("after manually enumerating", "reasonable assumption", "reasonable guess"),
        *("most plausible", "without further confusion"),
    ),
    "an impossibility before the answer": ("impossible.", "contradiction."),
}
_COMPILED = {name: re.compile(text, flags=re.IGNORECASE) for name, text in SIGNS.items()}
SHOWN = 60


def signs_of_floundering(solution: str) -> list[tuple[str, str]]:
    """The signs of failure in a solution: their names and words.

    >>> signs_of_floundering("So b = 4.5. There must be a mistake in our reasoning. Take b = 4.")
    [('an admitted mistake', 'be a mistake')]
    >>> signs_of_floundering("If x = 2, then 32 < 25, which is impossible. So x = 1.")
    []
    """
    spoken = " ".join(argument_of(solution).split())
    folded = spoken.casefold()
    signs = []
    for name, pattern in _COMPILED.items():
        if any(word in folded for word in WORDS[name]) and (match := pattern.search(spoken)):
            signs.append((name, match.group()[:SHOWN]))
    return signs


def argument_of(solution: str) -> str:
    """A solution without its thoughts.

    >>> argument_of("<think>Perhaps 5?</think> Two and two are 4.")
    'Two and two are 4.'
    """
    _, closed, after = solution.rpartition("</think>")
    return (after if closed and after.strip() else solution).strip()


def floundering(candidates: Candidates, _: object) -> Drops:
    """Leave out solutions with signs of floundering."""
    drops: dict[int, tuple[str, str]] = {}
    for index in candidates.left:
        if signs := signs_of_floundering(candidates.problem.solutions[index]):
            name, words = signs[0]
            drops[index] = (Reason.FLOUNDERING, f"It shows {name}: {words!r}.")
    return drops
