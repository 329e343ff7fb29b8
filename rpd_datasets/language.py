"""The language of a text, without its formulas and code, or that it is a program or a run.

Distances between two languages also measure language, and evidence is about one kind of text.
"""

import re
from collections.abc import Mapping

from rpd_metric.steps.passages import fenced

PROGRAM = "program"
RUN = "run"  # of an agent: it calls tools
# A language with this share is that of a set: names and words of other languages do occur.
MOSTLY = 0.9
# A text is a program from this share of code on; the rest explains it.
PROGRAM_SHARE = 0.25
# Fewer letters tell no language, and more tell no more about it. A sign of Chinese, Japanese or
# Korean tells as much as four.
LEAST_LETTERS, MOST_LETTERS = 20, 600
_SIGN = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
# The share of "the" among the words: 4 to 8 % are usual.
ENGLISH_SHARE = 0.02
# How a call stands in a solution's text, see `rpd_datasets/messages.py`.
_CALL = re.compile(r"^[\w.:/-]+\(\{(?:\".*)?\}\)$", re.MULTILINE)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FORMULA = re.compile(
    r"\$\$[^$]*\$\$|\$[^$\n]*\$|\\\[.*?\\\]|\\\(.*?\\\)|\\[a-zA-Z]+", flags=re.DOTALL
)
_WORD = re.compile(r"[^\W\d_]{2,}|[\u3040-\u9fff]+")


def written_in(text: str) -> str:
    r"""The text's language by its ISO 639-1 code, `"program"`, `"run"`, or `""` for too few words.

    >>> written_in("Addiert man die beiden Gleichungen, so bleibt $2x = 8$, also ist $x = 4$.")
    'de'
    >>> written_in("    for n in range(9):\n        total += n\n    return total")
    'program'
    """
    if _CALL.search(text):
        return RUN
    text = text[: 5 * MOST_LETTERS]
    prose = _CODE.sub(" ", fenced(text))
    if len(prose) < (1 - PROGRAM_SHARE) * len(text):
        return PROGRAM
    prose = _FORMULA.sub(" ", prose)[: 2 * MOST_LETTERS]
    words = " ".join(_WORD.findall(prose))[:MOST_LETTERS]
    if len(words) + 3 * len(_SIGN.findall(words)) < LEAST_LETTERS:
        return ""
    single = words.lower().split()
    if single.count("the") >= ENGLISH_SHARE * len(single):
        return "en"  # no other language has the word so often, and classifying takes far longer
    import py3langid  # its model takes a second to load

    code = str(py3langid.classify(words)[0])
    return "zh" if code in ("wuu", "yue") else code


def kind_of(written: Mapping[str, int]) -> str:
    """What texts in these numbers per language are: the language of nearly all, or `"mixed"`.

    Texts that are too short to tell are left out; of those alone, English is assumed.

    >>> kind_of({"en": 95, "": 9, "fr": 5}), kind_of({"en": 5, "program": 5}), kind_of({})
    ('en', 'mixed', 'en')
    """
    known = {name: number for name, number in written.items() if name}
    most = max(known, key=known.__getitem__, default="en")
    return most if known.get(most, 0) >= MOSTLY * sum(known.values()) else "mixed"
