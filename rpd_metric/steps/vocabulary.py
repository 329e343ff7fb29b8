"""Which methods and expressions a solution mentions, looked up in linear time.

The vocabulary of methods is data, `vocabulary.json`: school and competition mathematics in English.
An entry is a verb phrase, a weight that says how telling it is, and what gives it away: words (`*`
stands for any ending), a notation (a regular expression in which every repetition is bounded), or
both. LaTeX commands are read as words (`\\binom` as "binomial coefficient"); context is ignored.

The weights are rarities, ln((N + 1) / (n + 1)), among N = 8,235 unlabelled solutions to competition
problems, of which n mention the method.

Another strategy passes through other numbers and simple expressions, too: two numbers or one-letter
names with an operator between them, as `2^12`, `k/60`, `x=4`. LaTeX and other ways to write an
operator are read alike; words are not read.
"""

import json
import re
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_TOKEN = re.compile(r"\\[a-zA-Z]+|[a-z]+(?:['’]s\b)?", re.IGNORECASE)
_GROUPED_DIGITS = re.compile(r"(?<=\d)(?:,|\{,\}|\\!|\\,){1,4}(?=\d{3}\b)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PLAIN_WORD = re.compile(r"(?<!\\)\b[A-Za-z]{2,}\b")
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


class Method(NamedTuple):
    """One entry of the vocabulary: what is done, verb first, and how telling that is."""

    phrase: str
    weight: float


# The words of a trigger; of one with True, any ending will do.
_Trigger = tuple[tuple[str, bool], ...]


class _Vocabulary(NamedTuple):
    """The data; triggers by the first three letters of their first word, to meet few of them."""

    methods: tuple[Method, ...]
    triggers: dict[str, list[tuple[_Trigger, Method]]]
    notation: list[tuple[re.Pattern[str], Method]]
    latex_words: dict[str, str]


@cache
def _vocabulary() -> _Vocabulary:
    data = json.loads(files("rpd_metric.steps").joinpath("vocabulary.json").read_text("utf-8"))
    methods = tuple(Method(entry["phrase"], entry["weight"]) for entry in data["methods"])
    vocabulary = _Vocabulary(methods, defaultdict(list), [], data["latex_words"])
    for method, entry in zip(methods, data["methods"], strict=True):
        for trigger in entry["words"]:
            words = tuple((word.rstrip("*"), word.endswith("*")) for word in trigger.split())
            vocabulary.triggers[words[0][0][:3]].append((words, method))
        if "notation" in entry:
            vocabulary.notation.append((re.compile(entry["notation"]), method))
    return vocabulary


def known_methods() -> tuple[Method, ...]:
    """All methods of the vocabulary."""
    return _vocabulary().methods


def find_methods(text: str) -> list[Method]:
    """The methods that a text mentions, LaTeX and all, by first mention, in linear time."""
    vocabulary = _vocabulary()
    words = _words(text, vocabulary.latex_words)
    first: dict[Method, int] = {}
    for at, (word, position) in enumerate(words):
        for trigger, method in vocabulary.triggers.get(word[:3], ()):
            if method not in first and _matches(trigger, words[at : at + len(trigger)]):
                first[method] = position
    for pattern, method in vocabulary.notation:
        if symbol := pattern.search(text):
            first[method] = min(first.get(method, symbol.start()), symbol.start())
    return sorted(first, key=lambda method: (first[method], method.phrase))


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
    plain = _PLAIN_WORD.sub(" \u00a7 ", whole)
    for spelling, written in _SPELLINGS:
        plain = spelling.sub(written, plain)
    return numbers | {match[1] for match in _EXPRESSION.finditer(plain)}


def _words(text: str, latex_words: dict[str, str]) -> list[tuple[str, int]]:
    words: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        token, plain = match[0], ""
        if token[0] != "\\":
            token = plain = token.lower().removesuffix("'s").removesuffix("’s")
        spoken = latex_words.get(token, plain).split()
        words.extend((word, match.start()) for word in spoken)
    return words


def _matches(trigger: _Trigger, words: list[tuple[str, int]]) -> bool:
    return len(words) == len(trigger) and all(
        word.startswith(stem) if any_ending else word == stem
        for (stem, any_ending), (word, _) in zip(trigger, words, strict=True)
    )
