"""Whether steps that could be read are a summary at all: what small models write instead.

A model that has lost its thread repeats the prompt's example in words of its own, or one step
several times over. Both parse, and both would make solutions look alike or different that are
not. Steps are compared by their words and by the runs of three words in them, so that a changed
word or a changed ending hides nothing. A solution may well use the method of the example: one
step like it is no copy, half of them are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rpd_metric.errors import ReplyError

# Of a step's runs of three words, the share that also stands in the prompt.
COPIED = 0.6
# Of the runs of three words of two steps, the share that they have in common.
REPEATED = 0.8
RUN = 3

_WORD = re.compile(r"\w+")


def check_steps(steps: Sequence[str], prompt: str) -> None:
    """Refuse steps that repeat the prompt's example or each other.

    Args:
        steps (`Sequence[str]`): The steps of one summary.
        prompt (`str`): The prompt's own text, without the problem and the solution.

    Raises:
        [`ReplyError`]: With the reason `"copied_example"` or `"repeated_steps"`.

    Example:

    >>> prompt = "For example: Reduce the exponent modulo the period by division with remainder."
    >>> check_steps(["Factor the quadratic.", "Read off both roots."], prompt)
    >>> try:
    ...     check_steps(["Reduce the exponent modulo the period.", "Compute."], prompt)
    ... except ReplyError as error:
    ...     error.reason
    'copied_example'
    """
    example = _runs_of_prompt(prompt)
    runs = [_runs(step) for step in steps]
    copied = [
        step
        for step, found in zip(steps, runs, strict=True)
        if found and len(found & example) >= COPIED * len(found)
    ]
    if copied and 2 * len(copied) >= len(steps):
        raise ReplyError(
            "copied_example",
            f"{len(copied)} of {len(steps)} steps repeat the example of the prompt, e.g. "
            f"{_shortened(copied[0])!r}",
        )
    for number, (step, found) in enumerate(zip(steps, runs, strict=True)):
        for earlier, other in zip(steps[:number], runs, strict=False):
            same = _words(step) == _words(earlier)
            if same or (found and len(found & other) >= REPEATED * len(found | other)):
                raise ReplyError(
                    "repeated_steps", f"two steps say the same, e.g. {_shortened(step)!r}"
                )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _words(text)
    return frozenset(tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


@lru_cache(maxsize=8)
def _runs_of_prompt(prompt: str) -> frozenset[tuple[str, ...]]:
    return _runs(prompt)


def _shortened(step: str) -> str:
    return step if len(step) <= 80 else f"{step[:79]}…"
