"""How well a chat model's summaries went: what was accepted, asked again, repaired, refused.

A run in which most summaries are refused, or in which different problems are given the same
steps, has distances that say little about the solutions. Nothing else in its output shows it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rpd_datasets.curation.scored import Scored

# Below this share of accepted summaries a summarizer is called unfit.
FIT = 0.8
# Above this share of problems that have a step in common with another one, a run is warned about.
SHARING = 0.2
EXAMPLES = 2
# Distinct steps that are remembered; beyond that every second one, then every fourth, and so on.
REMEMBERED = 200_000


@dataclass
class SummaryHealth:
    """Counts over all problems of a run whose steps a chat model wrote.

    Args:
        accepted (`int`): Solutions with steps.
        asked_again (`int`): Solutions whose first reply could not be used.
        repaired (`int`): Of those, the ones that then had steps.
        rejected (`Counter`): Solutions without steps, by reason.
        examples (`list[str]`): What was wrong with the first of them.
        problems (`int`): Problems with steps.
    """

    accepted: int = 0
    asked_again: int = 0
    repaired: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    problems: int = 0
    _first_in: dict[int, int] = field(default_factory=dict)  # step's hash: its first problem
    _sharing: set[int] = field(default_factory=set)
    _steps: int = 0
    _mask: int = 0

    def add(self, scored: Scored) -> None:
        """Count one problem."""
        for reject in scored.rejects:
            if reject.stage == "steps":
                self.rejected[reject.reason] += 1
                if len(self.examples) < EXAMPLES:
                    self.examples.append(f"{reject.reason}: {reject.detail}")
        self.asked_again += scored.asked_again
        self.repaired += scored.repaired
        with_steps = [steps for steps in scored.steps if steps]
        self.accepted += len(with_steps)
        if not with_steps:
            return
        self.problems += 1
        for steps in with_steps:
            for step in steps:
                self._remember(step)

    def _remember(self, step: str) -> None:
        code = _hash(step)
        if code & self._mask:
            return
        self._steps += 1
        first = self._first_in.setdefault(code, self.problems)
        if first != self.problems:
            self._sharing |= {first, self.problems}
        if len(self._first_in) > REMEMBERED:
            self._mask = 2 * self._mask + 1
            self._first_in = {
                code: first for code, first in self._first_in.items() if not code & self._mask
            }
            self._steps //= 2

    @property
    def asked(self) -> int:
        """Solutions that a summary was asked for."""
        return self.accepted + self.rejected.total()

    @property
    def fit(self) -> bool:
        """Whether enough summaries were accepted."""
        return self.accepted >= FIT * self.asked

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the manifest."""
        return {
            "asked": self.asked,
            "accepted": self.accepted,
            "asked_again": self.asked_again,
            "repaired": self.repaired,
            "rejected": dict(sorted(self.rejected.items())),
            "examples": self.examples,
            "distinct_steps": round(len(self._first_in) / self._steps, 4) if self._steps else None,
            "problems": self.problems,
            "problems_sharing_steps": len(self._sharing),
        }


def health_line(found: dict[str, Any]) -> str:
    """Say what [`SummaryHealth.as_dict`] found, in one sentence.

    Example:

    >>> found = {"asked": 10, "accepted": 7, "asked_again": 4, "repaired": 1}
    >>> health_line({**found, "rejected": {"truncated": 3}, "distinct_steps": None})
    '7 of 10 accepted (70.0%), 4 asked again, 1 of them repaired; refused: 3 truncated'
    """
    asked = found["asked"]
    share = f" ({found['accepted'] / asked:.1%})" if asked else ""
    refused = ", ".join(
        f"{count:,} {reason.replace('_', ' ')}"
        for reason, count in sorted(found["rejected"].items(), key=lambda one: (-one[1], one[0]))
    )
    distinct = found["distinct_steps"]
    return (
        f"{found['accepted']:,} of {asked:,} accepted{share}, {found['asked_again']:,} asked again,"
        f" {found['repaired']:,} of them repaired"
        + (f"; refused: {refused}" if refused else "")
        + (f"; {distinct:.1%} of the steps are distinct" if distinct is not None else "")
    )


def health_warning(found: dict[str, Any]) -> str | None:
    """What a reader of the output must know, where there is something."""
    if found["accepted"] < FIT * found["asked"]:
        return (
            f"this summarizer is not fit for these solutions: {found['accepted']:,} of "
            f"{found['asked']:,} summaries could be used. {'; '.join(found['examples'])}"
        )
    if found["problems_sharing_steps"] > SHARING * found["problems"]:
        return (
            f"{found['problems_sharing_steps']:,} of {found['problems']:,} problems have a step "
            "word for word in common with another problem: the summaries may not be about them"
        )
    return None


def _hash(step: str) -> int:
    # Not hash(), which differs from process to process.
    digest = hashlib.blake2b(" ".join(step.lower().split()).encode("utf-8", "replace"))
    return int.from_bytes(digest.digest()[:8], "big")
