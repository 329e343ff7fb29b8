"""Problems of benchmarks, found by runs of 13 words or by equal text.

Words are compared in lower case, without accents, punctuation and LaTeX's dollar signs. Numbers
count: a problem with other numbers is another one.

Runs that only say how to answer ("... can be written as m/n, where m and n are relatively prime
positive integers. Find m + n") do not match: a run needs four different words that are not single
letters, numbers or in [`ANSWER_FORM`], and must not occur in several problems of its benchmark.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RUN_WORDS = 13
TELLING_WORDS = 4
# The words in which competitions say how an answer is to be given.
ANSWER_FORM = frozenset(
    re.findall(
        r"\w+",
        "and any are as be by can determine divisible expressed find form frac dfrac tfrac in "
        "integer integers is it left mn multiple not number numbers of or positive prime real "
        "relatively right sqrt square such sum that the value what where with written ",
    )
)
_DRAWING = re.compile(r"\[asy\].*?\[/asy\]", flags=re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Match:
    """Where a problem was found: the benchmark or file, the number from 1, the words they share."""

    benchmark: str
    number: int
    words: str

    @property
    def detail(self) -> str:
        """A line for a person."""
        return f"Problem {self.number} of {self.benchmark} has the same words: {self.words!r}."


def words_of(text: str) -> list[str]:
    r"""The words of a text as they are compared, without the code of drawings.

    >>> words_of(r"Let  $x_1 = \frac{3}{4}$. Où est-il?")
    ['let', 'x', '1', 'frac', '3', '4', 'ou', 'est', 'il']
    """
    decomposed = unicodedata.normalize("NFD", _DRAWING.sub(" ", text).lower())
    plain = "".join(mark for mark in decomposed if unicodedata.category(mark) != "Mn")
    return _WORD.findall(plain)


def _all_runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(RUN_WORDS)), strict=False))


def _tells(run: Sequence[str]) -> bool:
    telling = {word for word in run if len(word) > 1 and not word.isdigit()} - ANSWER_FORM
    return len(telling) >= TELLING_WORDS


class Contamination:
    """The problems of benchmarks, ready to be looked up.

    Args:
        benchmarks (`Mapping[str, Sequence[str]]`): Per name the texts of its problems.
        not_compared (`str`): A line about benchmarks that should be among them.

    Example:

    >>> index = Contamination({"mine": ["How many ways are there to tile a floor?"]})
    >>> index.find("How many ways are there to TILE a floor").number
    1
    >>> index.find("How many ways are there to tile a wall?") is None
    True
    """

    def __init__(self, benchmarks: Mapping[str, Sequence[str]], not_compared: str = "") -> None:
        self.not_compared = not_compared
        self.sizes = {name: len(texts) for name, texts in benchmarks.items()}
        self._texts: dict[str, tuple[str, int]] = {}
        self._runs: dict[int, tuple[str, int]] = {}
        digest = hashlib.sha256(f"{RUN_WORDS}".encode())
        for name, texts in benchmarks.items():
            runs: dict[int, tuple[str, int]] = {}  # a run's hash: the first text that holds it
            shared: set[int] = set()
            for number, text in enumerate(texts, start=1):
                words = words_of(text)
                whole = " ".join(words)
                digest.update(f"{name}\0{whole}\n".encode())
                if not words:
                    continue
                self._texts.setdefault(whole, (name, number))
                for key in (hash(run) for run in _all_runs(words) if _tells(run)):
                    if runs.setdefault(key, (whole, number))[0] != whole:
                        shared.add(key)
            for key in runs.keys() - shared:
                self._runs.setdefault(key, (name, runs[key][1]))
        self.fingerprint = digest.hexdigest()

    def find(self, problem: str) -> Match | None:
        """The first benchmark's problem that a problem's text matches, if any does."""
        words = words_of(problem)
        if place := self._texts.get(" ".join(words)):
            return Match(*place, " ".join(words[:RUN_WORDS]))
        for run in _all_runs(words):
            if place := self._runs.get(hash(run)):
                return Match(*place, " ".join(run))
        return None

    def as_rows(self) -> list[dict[str, object]]:
        """What was compared with, for manifests and cards."""
        return [{"name": name, "problems": size} for name, size in self.sizes.items()]
