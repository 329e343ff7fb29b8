"""Whether a text ends in a loop: what a model writes that has lost its thread."""

from __future__ import annotations

# Where a loop is looked for.
LOOP_CHARACTERS = 4000


def ends_in_loop(text: str) -> bool:
    """Whether a text, however long, repeats itself to its end.

    The same stretch must occur at least four times in a row and fill 200 characters.
    """
    tail = text[-LOOP_CHARACTERS:]
    # A loop has its own last characters once more one period earlier.
    probe = tail[-20:]
    at = tail.rfind(probe, 0, len(tail) - 1)
    while at >= 0:
        period = len(tail) - len(probe) - at
        length = max(200, 4 * period)
        if length > len(tail):
            return False
        end = tail[-length:]
        if end[period:] == end[:-period]:
            return True
        at = tail.rfind(probe, 0, at + len(probe) - 1)
    return False
