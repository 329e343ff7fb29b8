"""Steps without a language model: the methods a solution names, and lines of its working.

A solution becomes at most five short steps: its three most telling methods in the order in which
they first appear (each opens a phase of the solution), the wider list of the methods it combines,
and the lines of its own working that open the second, third and last quarter. Method phrases are
free of numbers and names, so that two solutions of one strategy say the same words; the working
keeps apart what the vocabulary has no word for. Taking the methods phase by phase, or sentences
alone, tells strategies apart less well (`benchmarks/extractive.py` has the figures).

Deterministic, standard library only, linear in the length of the solution. What it leaves out: it
does not follow the argument, and a method that is mentioned and rejected counts as used. An LLM
summary is the better choice where a server is at hand.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rpd_metric.steps.protocol import MAX_STEPS, MIN_STEPS, Summary
from rpd_metric.steps.vocabulary import Mention, find_methods

VERSION = "2"

# Longer solutions are sampled in evenly spaced pieces: 200,000 characters hold four times a
# 14,000-token chain of thought.
_MAX_CHARS = 200_000
_PIECES = 20
# A write-up after the thoughts that is shorter than this only announces the answer.
_MIN_WRITE_UP = 3

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_THINK_TAG = re.compile(r"</?think>")
_LINE_MARK = re.compile(
    r"^(?:#{1,6}\s*|>\s+|[-*•]\s+|\(?\d{1,3}[.)]\s+)*"
    r"(?:(?:step|phase|part)\s{0,3}\d{1,3}\s{0,3}[:.)—–-]\s*|step\s{0,3}\d{1,3}$)?",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\\$])")
_ANSWER_LINE = re.compile(
    r"\W*(?:so,?\s|thus,?\s|therefore,?\s|hence,?\s)?(?:the\s)?(?:final\s|correct\s)?answer\b"
    r"|\W*\\boxed\b|\W*\\framebox\b",
    re.IGNORECASE,
)
_DELIMITERS = re.compile(
    r"\\\[|\\\]|\$\$|\\(?:begin|end)\{(?:align|aligned|equation|gather|eqnarray)\*?\}"
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class ExtractiveOptions:
    """How much of what goes into the steps; the benchmark varies it.

    Args:
        methods (`int`): Steps that name one method each.
        combined (`int`): Methods listed together in the step after them.
        quarters (`tuple[float, ...]`): Where in the solution lines of working are taken, as
            shares of its length.
        line_chars (`int`): Longest line of working, in characters.
        repetition (`float`): Exponent of a method's number of mentions in its rank: 1 is
            tf-idf, 0 asks only whether it is mentioned.
    """

    methods: int = 3
    combined: int = 5
    quarters: tuple[float, ...] = (0.25, 0.5, 0.75)
    line_chars: int = 80
    repetition: float = 1.0


class ExtractiveSummarizer:
    """The `extractive` step summarizer; see the module's docstring and [`Summarizer`].

    Args:
        options ([`ExtractiveOptions`], *optional*): Other than the default only for experiments.

    Example:

    ```python
    >>> from rpd_metric.steps.extractive import ExtractiveSummarizer
    >>> solution = '''Place the triangle in coordinates with A at the origin.
    ... The slope of AB is 2, so the altitude has slope -1/2.
    ... Solving the system of equations gives the foot of the altitude.'''
    >>> for step in ExtractiveSummarizer().steps(None, solution).steps:
    ...     print(step)
    Place coordinates.
    Use slopes.
    Drop a perpendicular.
    Drop a perpendicular, use slopes, place coordinates, solve a system of equations.
    The slope of AB is 2, so the altitude has slope -1/2. … Solving the system of equations gives the foot of the altitude.

    ```
    """  # noqa: E501

    name = "extractive"

    def __init__(self, options: ExtractiveOptions | None = None) -> None:
        self.options = options or ExtractiveOptions()
        self.fingerprint = f"extractive/{VERSION}"
        if options is not None and options != ExtractiveOptions():
            self.fingerprint += f"/{options}"

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """Extract the steps of each solution, in order."""
        return [self.steps(problem, solution) for solution in solutions]

    def steps(self, problem: str | None, solution: str) -> Summary:
        """Extract the steps of one solution.

        Args:
            problem (`str`, *optional*): Its text; lines that only repeat it are passed over.
            solution (`str`): The solution, with or without a `<think>` block.

        Returns:
            [`Summary`]: At most five steps, fewer for a solution with too little in it; the
                reason `"empty_solution"` where it holds no letter and no digit.
        """
        lines = working_lines(problem, solution)
        if not lines:
            return Summary(
                (), "empty_solution", "the solution holds no text: no letter and no digit"
            )
        found = find_methods("\n".join(lines))
        options = self.options
        ranked = sorted(
            found,
            key=lambda m: (-m.method.weight * m.count**options.repetition, m.position),
        )
        leading = sorted(ranked[: options.methods], key=lambda m: m.position)
        steps = [_sentence([mention]) for mention in leading]
        combined = ranked[: options.combined]
        if len(combined) > 1:
            steps.append(_sentence(combined))
        missing = MIN_STEPS - len(steps)
        if missing > 1:
            # Too few methods to tell it by: fewer, longer lines of working, each a step; of a short
            # solution every line.
            longest = 3 * options.line_chars
            if len(lines) <= missing:
                steps += dict.fromkeys(_cut(line, longest) for line in lines)
            else:
                shares = [(part + 1) / (missing + 1) for part in range(missing)]
                steps += _working(lines, shares, longest)
        elif options.quarters:
            steps.append(" … ".join(_working(lines, options.quarters, options.line_chars)))
        return Summary(tuple(steps[:MAX_STEPS]))


def _sentence(mentions: Sequence[Mention]) -> str:
    first, *others = [mention.method.phrase for mention in mentions]
    return ", ".join([first, *(phrase[0].lower() + phrase[1:] for phrase in others)]) + "."


def _working(lines: Sequence[str], shares: Sequence[float], longest: int) -> list[str]:
    """The text that follows each of the given shares of the solution, cut at a word."""
    middles = []
    total = 0
    for line in lines:
        middles.append(total + (len(line) + 1) / 2)
        total += len(line) + 1
    last = len(lines) - 1
    starts = {min(bisect_left(middles, share * total), last) for share in shares}
    taken: list[str] = []
    for start, end in pairwise([*sorted(starts), len(lines)]):
        text = ""
        for line in lines[start:end]:
            text = f"{text} {line}".strip()
            if len(text) > longest:
                break
        taken.append(_cut(text, longest))
    return list(dict.fromkeys(taken))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0]


def working_lines(problem: str | None, solution: str) -> list[str]:
    """The lines of a solution that carry its argument.

    Thoughts give way to the write-up after them where there is one of three lines or more.
    Drawings, code, list marks and lines that only state the answer or repeat the problem are left
    out, the last two only as long as anything else remains.

    Args:
        problem (`str`, *optional*): The problem's text.
        solution (`str`): The solution.

    Returns:
        `list[str]`: Sentences and display lines, in order, each with a letter or a digit.
    """
    # The thoughts are set apart before sampling: the write-up must not be thinned with them.
    thoughts, tag, after = solution.rpartition("</think>")
    if tag:
        write_up = _split(_sample(after))
        kept = _without_answers(write_up)
        if len(kept) >= _MIN_WRITE_UP:
            return _without_problem(problem, kept)
        lines = _split(_sample(thoughts)) or write_up
    else:
        lines = _split(_sample(solution))
    return _without_problem(problem, _without_answers(lines) or lines)


def _without_answers(lines: list[str]) -> list[str]:
    return [line for line in lines if not _ANSWER_LINE.match(line)]


def _without_problem(problem: str | None, lines: list[str]) -> list[str]:
    known = set(_words(problem or ""))
    new = [line for line in lines if not _repeats(line, known)]
    return new or lines


def _repeats(line: str, known: set[str]) -> bool:
    words = _words(line)
    return len(words) >= 6 and sum(word in known for word in words) >= 0.9 * len(words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _split(text: str) -> list[str]:
    text = _without_blocks(text, "[asy]", "[/asy]")
    text = _without_blocks(text, "```", "```")
    text = _THINK_TAG.sub(" ", _DELIMITERS.sub("\n", text)).replace("**", "")
    lines: list[str] = []
    for raw in text.split("\n"):
        line = _LINE_MARK.sub("", raw.strip(), count=1)
        for part in _SENTENCE_END.split(line):
            part = " ".join(part.split())
            if _WORD.search(part):
                lines.append(part)
    return lines


def _without_blocks(text: str, opening: str, closing: str) -> str:
    """Cut blocks out with `str.find`: a lazy pattern is quadratic where blocks are never closed."""
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        kept.append(text[at:start])
        at = end + len(closing)
    return "\n".join([*kept, text[at:]])


def _sample(text: str) -> str:
    if len(text) > _MAX_CHARS:
        size = _MAX_CHARS // _PIECES
        stride = (len(text) - size) / (_PIECES - 1)
        starts = [round(piece * stride) for piece in range(_PIECES)]
        text = "\n".join(text[start : start + size] for start in starts)
    return _UNPRINTABLE.sub(" ", text)
