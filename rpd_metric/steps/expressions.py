"""The numbers and simple expressions of a text: another strategy passes through other ones.

A simple expression is two numbers or one-letter names with an operator between them: `2^12`,
`k/60`, `x=4`. LaTeX and other ways to write an operator are read alike; words are not read.
"""

from __future__ import annotations

import re

_GROUPED_DIGITS = re.compile(r"(?<=\d)(?:,|\{,\}|\\!|\\,){1,4}(?=\d{3}\b)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"(?<!\\)\b[A-Za-z]{2,}\b")
_ATOM = r"(?:\d{1,40}(?:\.\d{1,40})?|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))"
_EXPRESSION = re.compile(rf"(?=((?<![\d.]){_ATOM}[\^*/+\-=]{_ATOM}(?!\d)))")
# In this order; what stands for a word keeps the letters beside it apart.
_SPELLINGS = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\\(?:cdot|times)|[×·∙⋅]", "*"),
        (r"[−–]", "-"),
        (r"\\[dt]?frac\s{0,9}\{([^{}]{0,99})\}\s{0,9}\{([^{}]{0,99})\}", r"(\1)/(\2)"),
        (r"\\(?:left|right|,|!|;|quad|text|mathrm|displaystyle)", ""),
        (r"\*\*", "^"),
        ("²", "^2"),
        ("³", "^3"),
        (r"[\s${}\\&]", ""),
    )
)


def expressions(text: str) -> set[str]:
    """The numbers and simple expressions of a text.

    >>> sorted(expressions(r"As $2^{12} - 1$ is 4,095, x \\cdot 3 = y."))
    ['1', '12', '12-1', '2', '2^12', '3', '3=y', '4095', 'x*3']
    """
    whole = _GROUPED_DIGITS.sub("", text)
    numbers = {
        f"{float(number):g}" if "." in number else str(int(number[:40]))
        for number in _NUMBER.findall(whole)
    }
    plain = _WORD.sub(" \u00a7 ", whole)
    for spelling, written in _SPELLINGS:
        plain = spelling.sub(written, plain)
    return numbers | {match[1] for match in _EXPRESSION.finditer(plain)}
