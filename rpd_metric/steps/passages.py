"""A solution as passages: whole sentences and display lines, never cut inside a formula.

A display line belongs to the sentence that announces it, and a sentence with the display lines in
its middle; drawings go. Blocks of code stay whole, and are found without a fence, too: where
statements precede indented lines, or return or import something; mathematics and prose do not look
like that. Languages that are not set out by indentation are found by their fences only.

Of a reasoning trace only what follows the thoughts is read, where that is more than an announcement
of the answer. Everything is linear in the length of the text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["sentence", "display", "heading", "code"]

# A write-up of fewer words only announces the answer.
_LEAST_WRITE_UP = 60
# A delimiter that is not closed within so many characters opens no formula.
_LONGEST_FORMULA = 3_000
# A display line joins the sentence before it up to this length, in characters.
_LONGEST_JOINED = 420

_THOUGHTS_END = re.compile(
    r"</think(?:ing)?>|<\|end_of_thought\|>|</thoughts?>|</reasoning>|◁/think▷", re.IGNORECASE
)
_TAG = re.compile(
    r"</?(?:think(?:ing)?|thoughts?|reasoning|answer|solution)>|<\|[a-z_]{1,40}\|>|◁/?think▷",
    re.IGNORECASE,
)
# Private-use characters stand for formulas while a text is cut.
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ue000-\ue004]")
_OPENING = re.compile(
    r"\\\[|\\\(|\$\$|(?<!\\)\$|\\begin\{([a-zA-Z]{1,20}\*?)\}|```|\[asy\]", re.IGNORECASE
)
_CLOSING = {"\\[": "\\]", "\\(": "\\)", "$$": "$$", "$": "$", "```": "```", "[asy]": "[/asy]"}
_INLINE = ("$", "\\(")
_HELD = re.compile("[\ue001-\ue003](\\d+)\ue000\ue004?")
_MARK = re.compile(
    r"(?:#{1,6}\s*|>\s+|[-*•]\s+|\(?\d{1,2}[.)]\s+|\([a-z]\)\s+)*+"
    r"(?:(?:step|phase|part)\s{0,3}\d{1,3}\b\s{0,3}[:.)—–-]?\s*)?",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"\s*+(?:#{1,6}\s|\**\s*(?:step|phase|part)\s{0,3}\d{1,3}\s{0,3}[:.)—–-]"
    r"|(?:[-*]\s+|\(?\d{1,2}[.)]\s+)?\*\*[^*]{3,150}\*\*:?\s*$)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?\ue004])[\"')\]]?\s+(?=[A-Z(\\$\"'*\ue001-\ue003]|\d+[.)]\s)"
    r"|(?<=[。！？；])[”’」』）]?\s*(?=\S)"  # no blank follows there
)
_STOPPED_FORMULA = re.compile(r"[.!?]\s*(?:\$|\\\))$")
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|cf|vs|eqs?|fig|thm|lem|no|resp|w\.l\.o\.g|dr|mr|mrs|st|approx|[A-Z])\.$",
    re.IGNORECASE,
)
_FULL_STOP = re.compile(r"[.!?。！？；][\"')\]$\s\\”’」』）]*$")
_ANNOUNCES = re.compile(
    r"[:,=：，]\W*$|\b(?:is|are|get|gives|have|by|that|to|as|and|or|then|so|where|becomes|equals|find"
    r"|obtain|yields|into)\W*$",
    re.IGNORECASE,
)
_RELATIONS = "=&<>≤≥≈"
_WORD = re.compile(r"[^\W_]+")
# Scripts without blanks between words: Thai to Tibetan, Burmese, Khmer, kana, Han.
_UNSPACED = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
)
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_UNSPACED_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")
_SPACED_WORD = re.compile(r"\S+")
# The share of such letters from which a text is read by them.
_MOSTLY_UNSPACED = 0.2
FENCE = "```"

# Longer blocks are cut where their author left a line free or wrote a comment.
_LONG_BLOCK = 12
_SHORTEST_BLOCK = 4

_COMPOUND = re.compile(
    r"[ \t]*(?:(?:async )?(?:def|class|for|while|if|elif|with|except|match|case)\b.*"
    r"|else|try|finally):[ \t]*(?:#.*)?$"
)
_RETURNS = re.compile(r"[ \t]+(?:return\b|yield\b|raise\b|break$|continue$|pass$)")
_IMPORTS = re.compile(r"(?:import [\w.]+|from [\w.]+ import\b)")
_STATEMENT = re.compile(
    r"[ \t]*+(?:(?:[\w.\[\], '\"]++|(?<= ))(?:[-+*/%|&^@]|//|\*\*|<<|>>)?= ?\S|[\w.]+\(.*\)$|@\w|#"
    r"|[\])}]+,?$"
    r"|(?:return|yield|raise|break|continue|pass|assert|print|del|global|nonlocal)\b)"
)
_SUSPECT = re.compile(
    r"^[ \t]*(?:(?:async )?(?:def|class|for|while|if|with)\b.*:[ \t]*(?:#.*)?$|return\b|import "
    r"|from [\w.]+ import\b)",
    re.MULTILINE,
)
_CUT = re.compile(r"[ \t]*(?:#|//|/\*|(?:async )?def |class |@\w)")
_DOCSTRING = re.compile(
    r"^[ \t]*(?:\"\"\"(?:(?!\"\"\").)*\"\"\"|'''(?:(?!''').)*''')[ \t]*\n", re.DOTALL | re.MULTILINE
)
_FENCES_OR_DRAWING = re.compile(r"^[ \t]*```|\[/?asy\]", re.IGNORECASE)
_QUOTES = re.compile(r"\"\"\"|'''")


@dataclass(frozen=True)
class Passage:
    """A sentence, a display line, or a block of code, as the solution has it.

    Blanks and line ends become single blanks, but in code.
    """

    text: str
    kind: Kind


def answer_part(solution: str) -> str:
    """What follows a solution's last thoughts, if it has 60 words or more; otherwise all of it."""
    *_, after = _THOUGHTS_END.split(solution)
    return after if len(word_spans(_TAG.sub(" ", after))) >= _LEAST_WRITE_UP else solution


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end; where it has few blanks, two letters are a word.

    >>> word_spans("It holds."), word_spans("因此 x 成立")
    ([(0, 2), (3, 9)], [(0, 2), (3, 4), (5, 7)])
    """
    unspaced = len(_UNSPACED_LETTER.findall(text)) > _MOSTLY_UNSPACED * len(text)
    words = _UNSPACED_WORD if unspaced else _SPACED_WORD
    return [word.span() for word in words.finditer(text)]


def passages(solution: str) -> list[Passage]:
    """The passages of [`answer_part`], in order, each with a letter or a digit in it."""
    readable = _UNREADABLE.sub(" ", answer_part(solution).replace("\r\n", "\n"))
    masked, held = _masked(fenced(_TAG.sub("\n\n", readable)))
    joined: list[Passage] = []
    for line in masked.split("\n"):
        for passage in _of_line(line, held):
            if joined and _belongs(passage, joined[-1]):
                kinds = (passage.kind, joined[-1].kind)
                kind: Kind = "sentence" if "sentence" in kinds else "display"
                joined[-1] = Passage(f"{joined[-1].text} {passage.text}", kind)
            else:
                joined.append(passage)
    return joined


def _masked(text: str) -> tuple[str, list[str]]:
    """The text with a short mark for each formula and block of code, and what the marks stand for.

    Display formulas are on lines, blocks of code in paragraphs of their own.
    """
    parts: list[str] = []
    held: list[str] = []
    at = 0
    for start, end, kind in _spans(text):
        parts.append(text[at:start])
        at = end
        if kind == "drawing":
            parts.append("\n\n")
            continue
        mark = {"display": "\n\ue001{}\ue000\n", "code": "\n\n\ue002{}\ue000\n\n"}.get(
            kind, "\ue003{}\ue000"
        )
        # The sentence may end inside its last formula.
        stop = "\ue004" if kind == "inline" and _STOPPED_FORMULA.search(text, end - 6, end) else ""
        parts.append(mark.format(len(held)) + stop)
        held.append(text[start:end])
    return "".join([*parts, text[at:]]), held


def _spans(text: str) -> list[tuple[int, int, str]]:
    spans = []
    unclosed: set[str] = set()
    at = 0
    while opening := _OPENING.search(text, at):
        mark = opening[0].lower()
        if mark in unclosed:
            at = opening.end()
            continue
        closing = f"\\end{{{opening[1]}}}" if opening[1] else _CLOSING[mark]
        start = opening.end()
        limit = len(text) if mark in ("```", "[asy]") else start + _LONGEST_FORMULA
        if mark in _INLINE and (paragraph := text.find("\n\n", start, limit)) >= 0:
            limit = paragraph
        end = text.find(closing, start, limit)
        while mark == "$" and end > 0 and text[end - 1] == "\\":
            end = text.find(closing, end + 1, limit)
        if end < 0:
            if mark in ("```", "[asy]"):
                unclosed.add(mark)  # looked for to the end of the text: once is enough
            at = start
            continue
        at = end + len(closing)
        kind = {"```": "code", "[asy]": "drawing"}.get(mark, "display")
        spans.append((opening.start(), at, "inline" if mark in _INLINE else kind))
    return spans


def _of_line(line: str, held: list[str]) -> list[Passage]:
    is_heading = _HEADING.match(line) is not None
    line = line.strip().replace("**", "")
    line = _MARK.sub("", line, count=1).strip() or line
    if not line:
        return []
    if line[0] == "\ue002":
        return [Passage(block, "code") for block in blocks(_unmasked(line, held))]
    kind: Kind = "display"
    texts = [line]
    if line[0] != "\ue001":
        texts = _sentences(line)
        kind = "heading" if is_heading and len(texts) == 1 else "sentence"
    full = (" ".join(_unmasked(text, held).split()) for text in texts)
    return [Passage(text, kind) for text in full if _WORD.search(text)]


def _sentences(line: str) -> list[str]:
    cut = []
    at = 0
    for end in _SENTENCE_END.finditer(line):
        if not _ABBREVIATION.search(line[max(at, end.start() - 12) : end.start()]):
            cut.append(line[at : end.end()].strip())
            at = end.end()
    return [*cut, line[at:].strip()]


def _unmasked(text: str, held: list[str]) -> str:
    return _HELD.sub(lambda mark: held[int(mark[1])], text)


def _belongs(passage: Passage, before: Passage) -> bool:
    kinds = ("sentence", "display")
    if passage.kind not in kinds or before.kind not in kinds:
        return False
    if len(before.text) + len(passage.text) > _LONGEST_JOINED:
        return False
    first = passage.text[:1]
    if first in _RELATIONS:
        return True
    # A full stop inside a display formula ends no sentence of the text around it.
    ended = _FULL_STOP.search(before.text) and not before.text.rstrip().endswith(("\\]", "$$"))
    formula = passage.kind == "display" or not first.isupper() or "=" in passage.text
    if formula and before.kind == "sentence" and _ANNOUNCES.search(before.text.rstrip("$\\[]() ")):
        return True
    return not ended and (passage.kind == "display" or first.islower() or first in ",;.")


def fenced(text: str) -> str:
    """The text with fences around programs that have none."""
    if not _SUSPECT.search(text):
        return text
    lines = text.split("\n")
    result: list[str] = []
    run: list[str] = []
    inside = False
    for line in lines:
        if _FENCES_OR_DRAWING.search(line):
            inside ^= len(_FENCES_OR_DRAWING.findall(line)) % 2 == 1
        elif not inside and _goes_on(line, run):
            run.append(line)
            continue
        result += [*_closed(run), line]
        run = []
    return "\n".join([*result, *_closed(run)])


def _goes_on(line: str, run: list[str]) -> bool:
    if not line.strip():
        return bool(run)
    if _COMPOUND.match(line) or _STATEMENT.match(line) or _IMPORTS.match(line):
        return True
    return line[0] in " \t" and (bool(run) or _RETURNS.match(line) is not None)


def _closed(run: list[str]) -> list[str]:
    """The run with fences, where it is a program; the blank lines at its end stay outside."""
    end = max((at for at, line in enumerate(run, start=1) if line.strip()), default=0)
    return [FENCE, *run[:end], FENCE, *run[end:]] if _is_program(run[:end]) else run


def _is_program(lines: list[str]) -> bool:
    written = [line for line in lines if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in written]
    return (
        any(_RETURNS.match(line) for line in written)
        or (len(written) > 1 and any(_IMPORTS.match(line) for line in written))
        or any(
            _COMPOUND.match(line) and following > indent
            for line, (indent, following) in zip(written, pairwise(indents), strict=False)
        )
    )


def blocks(code: str) -> list[str]:
    """A fenced block of code; one of over 12 lines cut at free lines, comments and definitions."""
    opening, *lines = code.split("\n")
    closing = FENCE if lines and lines[-1].strip() == FENCE else ""
    lines = lines[: len(lines) - bool(closing)]
    if _length(lines) <= _LONG_BLOCK:
        return [code]
    parts: list[list[str]] = [[]]
    quoted = False
    for at, line in enumerate(lines):
        free = at > 0 and not lines[at - 1].strip()
        may_cut = not quoted and line.strip() and (free or _CUT.match(line))
        if may_cut and _length(parts[-1]) >= _SHORTEST_BLOCK:
            parts.append([])
        parts[-1].append(line)
        quoted ^= len(_QUOTES.findall(line)) % 2 == 1
    if len(parts) > 1 and _length(parts[-1]) < _SHORTEST_BLOCK:
        parts[-2:] = [parts[-2] + parts[-1]]
    whole = ["\n".join(part).strip("\n").rstrip() for part in parts]
    return [f"{opening}\n{part}\n{FENCE}" for part in whole if part]


def _length(lines: list[str]) -> int:
    """Lines with something on them, those of docstrings left out."""
    program = _DOCSTRING.sub("", "\n".join(lines) + "\n")
    return sum(bool(line.strip()) for line in program.split("\n"))


def without_docstrings(code: str, is_known: Callable[[str], bool]) -> str:
    """The code without those docstrings of which `is_known` says that they tell nothing new."""
    return _DOCSTRING.sub(lambda text: "" if is_known(text[0]) else text[0], code)
