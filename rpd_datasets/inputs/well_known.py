"""Column names of well-known datasets, so that they can be read without an option.

One table of rules. A rule holds where all of its columns are there and those that the options name
are not: what a user names is never overruled. Texts that stand in several columns of a row, as in
DeepMath, are not among these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rpd_datasets.inputs.layouts import Columns


@dataclass(frozen=True)
class WellKnown:
    """A dataset, or several with the same columns.

    Args:
        names (`str`): What it is called.
        columns (`Mapping[str, str]`): The fields of [`Columns`] that its columns take.
        lists (`bool`): Whether the column with the solutions holds lists.
    """

    names: str
    columns: Mapping[str, str]
    lists: bool = False


# The first rule that holds is taken.
WELL_KNOWN = (
    # Its `solution` is a reference text; the sampled solutions are the list.
    WellKnown("OpenR1-Math", {"problem": "problem", "solutions": "generations"}, lists=True),
    WellKnown("OpenMathReasoning", {"problem": "problem", "solution": "generated_solution"}),
    WellKnown("LIMO", {"problem": "question", "solution": "solution"}),
    WellKnown("AceReason", {"problem": "input", "solution": "output"}),
)


def resolve_columns(samples: Sequence[Mapping[str, Any]], columns: Columns) -> Columns:
    """The columns of a well-known dataset, where the input has those and no others were named.

    Args:
        samples (`Sequence[Mapping]`): Some rows.
        columns ([`Columns`]): As the options have them.

    Example:

    >>> row = {"problem": "2 + 2?", "solution": "4", "generations": ["It is 4.", "Four."]}
    >>> resolve_columns([row], Columns()).solutions
    'generations'
    """
    there = {name for sample in samples for name in sample}
    if columns != Columns() or {"solutions", "conversations"} & there:
        return columns
    for known in WELL_KNOWN:
        if set(known.columns.values()) <= there and (
            not known.lists or _holds_lists(samples, known.columns["solutions"])
        ):
            return replace(columns, **known.columns)
    return columns


def _holds_lists(samples: Iterable[Mapping[str, Any]], column: str) -> bool:
    return any(isinstance(sample.get(column), list) for sample in samples)
