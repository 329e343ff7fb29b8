"""Programs in a solution: found where no fence says so, and cut into blocks that can be read.

A run of lines is taken for a program where statements precede indented lines, or return or
import something; mathematics and prose do not look like that. Languages that are not set out by
indentation are found by their fences only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

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
    """Whether a line may belong to the program that the lines before it are."""
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
