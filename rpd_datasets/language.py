"""The language of a text, without its formulas and code, or that it is a program.

Distances between two languages also measure language, and calibration is for English mathematics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rpd_metric.steps.program import fenced

PROGRAM = "program"
# The share of English that labelled pairs ask for: names and words of other languages do occur.
MOSTLY = 0.9
# A text is a program from this share of code on; the rest explains it.
PROGRAM_SHARE = 0.25
# Fewer letters tell no language, and more tell no more about it.
LEAST_LETTERS, MOST_LETTERS = 20, 600
# The share of "the" among the words: 4 to 8 % are usual.
ENGLISH_SHARE = 0.02
OTHER_TEXTS = "not known for such texts: labelled pairs are of English mathematics"
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FORMULA = re.compile(
    r"\$\$[^$]*\$\$|\$[^$\n]*\$|\\\[.*?\\\]|\\\(.*?\\\)|\\[a-zA-Z]+", flags=re.DOTALL
)
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3040-\u9fff]+")


def written_in(text: str) -> str:
    r"""The text's language by its ISO 639-1 code, `"program"`, or `""` where it has too few words.

    >>> written_in("Addiert man die beiden Gleichungen, so bleibt $2x = 8$, also ist $x = 4$.")
    'de'
    >>> written_in("    for n in range(9):\n        total += n\n    return total")
    'program'
    """
    text = text[: 5 * MOST_LETTERS]
    prose = _CODE.sub(" ", fenced(text))
    if len(prose) < (1 - PROGRAM_SHARE) * len(text):
        return PROGRAM
    prose = _FORMULA.sub(" ", prose)[: 2 * MOST_LETTERS]
    words = " ".join(_WORD.findall(prose))[:MOST_LETTERS]
    if len(words) < LEAST_LETTERS:
        return ""
    single = words.lower().split()
    if single.count("the") >= ENGLISH_SHARE * len(single):
        return "en"  # no other language has the word so often, and classifying takes far longer
    import py3langid  # its model takes a second to load

    return str(py3langid.classify(words)[0])


def conditions_hold(written: Mapping[str, int]) -> bool:
    """Whether calibration applies to texts in these numbers per language (English only).

    >>> conditions_hold({"en": 95, "": 9, "fr": 5}), conditions_hold({"en": 5, "program": 5})
    (True, False)
    """
    return written.get("en", 0) >= MOSTLY * sum(n for name, n in written.items() if name)
