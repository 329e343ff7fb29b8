r"""Reading a judge's reply: from raw text to a rating or a set of solutions.

The paper's judges end in an envelope: `//boxed{{2}}`, `//boxed_json{{[[1, 4]]}}` (App. C.2, D).
The last one counts, because analyses mention others. What is not exactly one of the allowed
answers is refused with a [`ReplyError`], never guessed from the prose around it. So is a reply
that was cut off (`finish_reason="length"`): an envelope in it stood in the analysis.
"""

from __future__ import annotations

import re

from rpd_metric.errors import ReplyError
from rpd_metric.reasons import Reason
from rpd_metric.steps.replies import after_thinking

# Raised whenever the same reply could be read differently; part of a judge's fingerprint.
PARSER_VERSION = 1

_ENVELOPE = re.compile(r"boxed(?:_json)?\s*(?:\\?\{\s*)+")
_MARKUP = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{")
_RATING = re.compile(r"""["']?(?:(?:rating|class)["']?\s*[:=]?\s*)?["']?([12])["']?""", re.I)
_ID = re.compile(r"(?:solution|answer|id|s)?[\s_#]*(\d{1,6})", re.I)
# No answer is longer; a model in a loop can write thousands of numbers.
_LONGEST_ANSWER = 2000
_SHOWN_REASONS = 300


def last_envelope(text: str, finish_reason: str | None = None) -> str:
    r"""The content of the last envelope in a reply.

    >>> last_envelope("It is not //boxed{1}, for the tools differ.\n//boxed{{2}}")
    '2'
    """
    if finish_reason == "length":
        raise ReplyError(Reason.TRUNCATED, "the reply was cut off before its verdict")
    answer = after_thinking(text)
    # Ended in good order: the model forgot to close its thoughts, and the last box is its answer.
    answer = text if answer is None else answer
    starts = list(_ENVELOPE.finditer(answer))
    if not starts:
        raise ReplyError(Reason.NO_ENVELOPE, "the reply holds no //boxed{...}")
    rest = _MARKUP.sub("", answer[starts[-1].end() : starts[-1].end() + _LONGEST_ANSWER])
    content, closing, _ = rest.partition("}")
    if not closing:
        raise ReplyError(Reason.BAD_VERDICT, "the last //boxed{...} of the reply does not close")
    return content.rstrip("\\ \t\n").strip()


def parse_rating(text: str, finish_reason: str | None = None) -> int:
    r"""Read a rating or class, 1 or 2 (App. C.2 and D.1).

    >>> parse_rating("Both solve the same system.\n//boxed{{1}}")
    1
    """
    content = last_envelope(text, finish_reason)
    match = _RATING.fullmatch(content.strip("[] \t\n"))
    if match is None:
        raise ReplyError(Reason.BAD_VERDICT, f"the verdict is {_shown(content)}, neither 1 nor 2")
    return int(match[1])


def parse_reasoned(text: str, finish_reason: str | None = None) -> tuple[int, str]:
    """Read a class, 1 or 2, and the reasons before it, on one line and shortened."""
    rating = parse_rating(text, finish_reason)
    before = text[: list(_ENVELOPE.finditer(text))[-1].start()]
    said = " ".join(before.rpartition("</think>")[2].rstrip("/\\$ \n").split())
    return rating, said if len(said) <= _SHOWN_REASONS else said[: _SHOWN_REASONS - 1] + "…"


def parse_set(
    text: str, finish_reason: str | None = None, *, count: int, size: int
) -> tuple[int, ...]:
    r"""Read which `size` of `count` solutions are chosen (App. D.2): from 0, in the model's order.

    >>> parse_set("Three methods.\n//boxed_json{{[5, 1, 2]}}", count=5, size=3)
    (4, 0, 1)
    """
    content = last_envelope(text, finish_reason)
    indices: list[int] = []
    # Brackets are dropped whatever their depth: a number of ids that fits tells enough.
    for part in re.sub(r"[\[\]]", " ", content).split(","):
        match = _ID.fullmatch(part.strip(" \t\n\"'`"))
        index = int(match[1]) - 1 if match else -1
        if not 0 <= index < count or index in indices:
            said = "named twice" if index in indices else f"no solution from 1 to {count}"
            raise ReplyError(Reason.BAD_VERDICT, f"{_shown(part)} is {said}")
        indices.append(index)
    if len(indices) != size:
        raise ReplyError(Reason.WRONG_COUNT, f"{len(indices)} solutions instead of {size}")
    return tuple(indices)


def _shown(content: str) -> str:
    return repr(content if len(content) <= 40 else content[:39] + "…")
