r"""Comparing two answers by computer algebra, and the process that does it for `mathematics.py`.

math-verify may hang or eat memory on some inputs (`10^{10^{10}}` is enough), and its own time
limits need SIGALRM in a main thread. So it runs in a process of its own, which its parent kills
when a comparison takes too long. It writes one line "ready", then answers each line `[gold, answer,
seconds]` (JSON) with one line that holds the verdict. It ends with its input.
"""

from __future__ import annotations

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
    if bool(_CIRCLE.search(gold)) != bool(_CIRCLE.search(answer)):  # math-verify drops the sign
        readings.append((_expressions(_in_radians(gold)), _expressions(_in_radians(answer))))
    same = any(
        verify(list(a), list(b), timeout_seconds=None, allow_set_relation_comp=True)
        for a, b in readings
    )
    return Verdict.CORRECT if same else Verdict.WRONG


@lru_cache(maxsize=4096)
def _expressions(answer: str) -> tuple[Any, ...]:
    """What math-verify reads in an answer. It appends the text itself, which is left out."""
    from math_verify import LatexExtractionConfig, parse

    # One box around the whole: without it, a list is cut and a bare word is not read at all.
    found = parse(rf"\boxed{{{answer}}}", [LatexExtractionConfig()], parsing_timeout=None)
    return tuple(item for item in found if not isinstance(item, str))


def _complex(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items with the letter i as the imaginary unit, where it is the only letter."""
    from sympy import Expr, I, simplify  # type: ignore[import-untyped,unused-ignore]

    def read(item: Any) -> Any:
        if not isinstance(item, Expr) or any(s.name != "i" for s in item.free_symbols):
            return item
        return simplify(item.subs(dict.fromkeys(item.free_symbols, I)).doit())

    return tuple(map(read, items))


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
