"""Which methods a solution mentions: a vocabulary of mathematics, looked up in linear time.

The vocabulary is data, `vocabulary.json`. Each entry is a verb phrase that says what is done, a
weight that says how telling it is, and what gives it away: words (`*` stands for any ending), a
notation (a regular expression in which every repetition is bounded), or both. LaTeX commands are
read as words (`\\binom` as "binomial coefficient"). It covers school and competition mathematics
in English and knows nothing of context, so "we cannot use the law of sines" counts as a mention
of it.

The weights are rarities, ln((N + 1) / (n + 1)), of the methods among N = 8,235 unlabelled
solutions to competition problems (of which n mention the method): what nearly every solution does
says little about how it differs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_TOKEN = re.compile(r"\\[a-zA-Z]+|[a-z]+(?:['’]s\b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Method:
    """One entry of the vocabulary: what is done, verb first, and how telling that is."""

    phrase: str
    weight: float


@dataclass(frozen=True)
class Mention:
    """A method that a text mentions.

    Args:
        method ([`Method`]): Which.
        count (`int`): How often in words; 1 when only notation tells of it.
        position (`int`): Index of the first character of the first mention.
    """

    method: Method
    count: int
    position: int


_Trigger = tuple[tuple[tuple[str, bool], ...], int]


@dataclass(frozen=True)
class _Vocabulary:
    """The data, arranged for looking up.

    `triggers` is keyed by the first three letters of a trigger's first word: a token meets the
    few triggers that can match.
    """

    methods: tuple[Method, ...]
    triggers: dict[str, list[_Trigger]]
    notation: tuple[tuple[re.Pattern[str], int], ...]
    latex_words: dict[str, str]


@cache
def _vocabulary() -> _Vocabulary:
    text = files("rpd_metric.steps").joinpath("vocabulary.json").read_text(encoding="utf-8")
    data = json.loads(text)
    triggers: dict[str, list[_Trigger]] = defaultdict(list)
    notation = []
    for row, entry in enumerate(data["methods"]):
        for trigger in entry["words"]:
            words = tuple((word.rstrip("*"), word.endswith("*")) for word in trigger.split())
            triggers[words[0][0][:3]].append((words, row))
        if "notation" in entry:
            notation.append((re.compile(entry["notation"]), row))
    return _Vocabulary(
        tuple(Method(entry["phrase"], entry["weight"]) for entry in data["methods"]),
        dict(triggers),
        tuple(notation),
        data["latex_words"],
    )


def known_methods() -> tuple[Method, ...]:
    """All methods of the vocabulary."""
    return _vocabulary().methods


def find_methods(text: str) -> list[Mention]:
    """The methods that a text mentions, LaTeX and all, by first mention, in linear time.

    >>> found = find_methods("By Vieta's formulas the sum is 4. Completing the square also works.")
    >>> [mention.method.phrase for mention in found]
    ["Relate roots and coefficients by Vieta's formulas", 'Complete the square']
    """
    vocabulary = _vocabulary()
    words = _words(text, vocabulary.latex_words)
    counts: dict[int, int] = defaultdict(int)
    first: dict[int, int] = {}
    for at, (word, position) in enumerate(words):
        for trigger, row in vocabulary.triggers.get(word[:3], ()):
            if _matches(trigger, words, at):
                counts[row] += 1
                first.setdefault(row, position)
    for pattern, row in vocabulary.notation:
        symbol = pattern.search(text)
        if symbol is not None:
            counts.setdefault(row, 1)
            first[row] = min(first.get(row, symbol.start()), symbol.start())
    return sorted(
        (Mention(vocabulary.methods[row], counts[row], first[row]) for row in counts),
        key=lambda mention: (mention.position, mention.method.phrase),
    )


def _words(text: str, latex_words: dict[str, str]) -> list[tuple[str, int]]:
    """The words of a text in lower case, without 's, with their positions."""
    words: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "\\":
            said = latex_words.get(token, "")
        else:
            plain = token.lower()
            if plain[-2:] in ("'s", "’s"):
                plain = plain[:-2]
            said = latex_words.get(plain, plain)
        words.extend((word, match.start()) for word in said.split())
    return words


def _matches(
    trigger: tuple[tuple[str, bool], ...], words: list[tuple[str, int]], start: int
) -> bool:
    if start + len(trigger) > len(words):
        return False
    for offset, (stem, any_ending) in enumerate(trigger):
        word = words[start + offset][0]
        if not (word.startswith(stem) if any_ending else word == stem):
            return False
    return True
