"""What a filter of solutions is given, and what it returns; `pipeline.py` lists the filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rpd_datasets.filters.completeness import Completeness
from rpd_datasets.problem import Problem
from rpd_datasets.tokens import TokenCounter

Drops = Mapping[int, tuple[str, str]]
"""By index of a solution that goes: a short reason to count by, and a line for a person."""


@dataclass(frozen=True)
class Candidates:
    """A problem, and which of its solutions are still in.

    Args:
        problem ([`Problem`]): With all its solutions.
        left (`tuple[int, ...]`): Indices of those that earlier filters left.
        num_tokens (`tuple[int, ...]`): Of every solution.
        count_tokens ([`TokenCounter`]): What counted them.
        completeness (`Callable`): Decides from a solution and its end whether it was finished.
    """

    problem: Problem
    left: tuple[int, ...]
    num_tokens: tuple[int, ...]
    count_tokens: TokenCounter
    completeness: Completeness
