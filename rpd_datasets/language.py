"""What a text is written in: its language, or that it is a program.

Distances between texts in two languages count language as well, and what labelled pairs say of a
distance holds for English mathematics. Formulas and code are no language and are not looked at.
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
    words = " ".join(_WORD.findall(_FORMULA.sub(" ", prose)))[:MOST_LETTERS]
    if len(words) < LEAST_LETTERS:
        return ""
    import py3langid  # its model takes a second to load

    return str(py3langid.classify(words)[0])


def conditions_hold(written: Mapping[str, int]) -> bool:
    """Whether what labelled pairs say of a distance holds for texts, by how many are in what.

    The pairs are of English mathematics by several models; by how many models texts are cannot be
    seen in them.

    >>> conditions_hold({"en": 95, "": 9, "fr": 5}), conditions_hold({"en": 5, "program": 5})
    (True, False)
    """
    return written.get("en", 0) >= MOSTLY * sum(n for name, n in written.items() if name)
