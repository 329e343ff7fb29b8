r"""Comparing two answers by computer algebra, and the process that does it for `mathematics.py`.

math-verify may hang or eat memory on some inputs (`10^{10^{10}}` is enough), and its own time
limits need SIGALRM in a main thread. So it runs in a process of its own, which its parent kills
when a comparison takes too long. It writes one line "ready", then answers each line `[gold, answer,
seconds]` (JSON) with one line that holds the verdict. It ends with its input.
"""

import json
import logging
import os
import re
import resource
import signal
import sys
from functools import lru_cache
from typing import Any

from rpd_metric.grading.answers import Verdict

MEMORY_BYTES = 2 << 30

_IMAGINARY = re.compile(r"(?<![\\A-Za-z])i(?![A-Za-z])|\\sqrt\s*(?:\{\s*)?-")
_CIRCLE = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_OR = re.compile(r"\bor\b|\\lor|\\vee")
_PERCENT = re.compile(r"\\?%")
_DECIMAL = re.compile(r"-?(?=(?:[.0]*\d){3})\d*\.(\d{2,})")
_ENTRIES = re.compile(r"\(([^()]*,[^()]*)\)")
_BASE = re.compile(r"^[0-9A-Za-z]+_\{?(\d+)\}?$")


def compare(gold: str, answer: str) -> Verdict:
    """The verdict of math-verify on two [`~rpd_metric.grading.answers.readable`] answers."""
    from math_verify import verify

    bases = [match and match.group(1) for match in (_BASE.match(gold), _BASE.match(answer))]
    if all(bases) and bases[0] != bases[1]:
        return Verdict.WRONG  # math-verify drops the base: to it, 12_8 equals 12_5
    references = _expressions(gold)
    if not references:
        return Verdict.UNPARSABLE_GOLD
    candidates = _expressions(answer)
    if not candidates:
        return Verdict.NO_ANSWER
    # The order matters: "x = 5" is accepted where the reference says "5", not the reverse. But an
    # interval and an inequality are the same in either.
    readings = [(references, candidates)]
    if _IMAGINARY.search(gold) or _IMAGINARY.search(answer):
        readings.append((_complex(references), _complex(candidates)))
    if ("matrix}" in gold) != ("matrix}" in answer):  # (1, 2) is the column of 1 and 2
        readings.append((_expressions(_as_column(gold)), _expressions(_as_column(answer))))
    if ("%" in gold) != ("%" in answer):  # 40 % is 40, but 0.5 % is not 0.5
        plain = [_expressions(_PERCENT.sub("", text)) for text in (gold, answer)]
        if abs(_value(plain["%" in answer]) or 0) >= 1:
            readings.append((plain[0], plain[1]))
    if "<" in str(candidates) + str(references) or ">" in str(candidates) + str(references):
        readings.append((_region(gold, references), _region(answer, candidates)))
    if bool(_CIRCLE.search(gold)) != bool(_CIRCLE.search(answer)):  # math-verify drops the sign
        readings.append((_expressions(_in_radians(gold)), _expressions(_in_radians(answer))))
    same = any(
        verify(list(a), list(b), timeout_seconds=None, allow_set_relation_comp=True)
        for a, b in readings
    )
    if "%" not in gold + answer and len(readings) == 1:
        same = _within_rounding(gold, references, candidates, same)
    return Verdict.CORRECT if same else Verdict.WRONG


def _within_rounding(
    gold: str, references: tuple[Any, ...], candidates: tuple[Any, ...], same: bool
) -> bool:
    """Equal to six significant digits, or to all decimals of a reference for an irrational."""
    from sympy import Float  # type: ignore[import-untyped,unused-ignore]

    reference, candidate = _value(references), _value(candidates)
    if reference is None or candidate is None:
        return same
    if same:
        return abs(reference - candidate) <= 1e-5 * max(abs(reference), abs(candidate))
    decimals = _DECIMAL.fullmatch(gold)
    if decimals is None or any(item.is_rational or item.atoms(Float) for item in candidates):
        return False
    return round(candidate, len(decimals[1])) == reference


def _value(items: tuple[Any, ...]) -> float | None:
    """The real number that the items are."""
    from sympy import Expr

    if not items or not all(
        isinstance(item, Expr) and item.is_number and item.is_real for item in items
    ):
        return None
    return float(items[0])


@lru_cache(maxsize=4096)
def _expressions(answer: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer. It appends the text itself, which is left out."""
    from math_verify import LatexExtractionConfig, parse

    # One box around the whole: without it, a list is cut and a bare word is not read at all.
    expressions = parse(rf"\boxed{{{answer}}}", [LatexExtractionConfig()], parsing_timeout=None)
    return tuple(item for item in expressions if not isinstance(item, str))


def _complex(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items with the letter i as the imaginary unit, where it is the only letter."""
    from sympy import Expr, I, simplify  # type: ignore[import-untyped,unused-ignore]

    def read(item: Any) -> Any:
        if not isinstance(item, Expr) or any(s.name != "i" for s in item.free_symbols):
            return item
        return simplify(item.subs(dict.fromkeys(item.free_symbols, I)).doit())

    return tuple(map(read, items))


def _region(answer: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Several inequalities as the one set that they describe."""
    from sympy import And, Intersection, Set, Union
    from sympy.core.relational import (  # type: ignore[import-untyped,unused-ignore]
        Relational,
    )

    join = Union if _OR.search(answer) else Intersection

    def region(item: Any) -> Any:
        parts = [And(*part.args) if type(part).__name__ == "And" else part for part in item.args]
        if not parts or not all(isinstance(part, (And, Relational)) for part in parts):
            return item
        return join(*(part.as_set() for part in parts))

    return tuple(region(item) if isinstance(item, Set) else item for item in items)


def _as_column(answer: str) -> str:
    entries = _ENTRIES.fullmatch(answer.replace(r"\left", "").replace(r"\right", ""))
    rows = entries[1].replace(",", r"\\") if entries else ""
    return rf"\begin{{pmatrix}}{rows}\end{{pmatrix}}" if entries else answer


def _in_radians(answer: str) -> str:
    return _CIRCLE.sub(r" \\cdot \\frac{\\pi}{180}", answer)


def main() -> None:
    """Answer lines until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # math-verify warns that its timeouts are off, on every start.
    logging.disable(logging.CRITICAL)
    # Whatever a parser prints must not end up between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    compare("x^2+1", "1+x^2")  # loads sympy and its parsers before the first time limit
    replies.write("ready\n")
    for line in sys.stdin:
        gold, answer, seconds = json.loads(line)
        # Should the parent be killed meanwhile: a signal ends even what never returns to Python.
        signal.alarm(int(seconds) + 5)
        replies.write(compare(gold, answer).value + "\n")
        signal.alarm(0)


if __name__ == "__main__":
    main()
