"""Solutions that a person kept or rejected, by the file of decisions that the report's page saves.

    {"format": 1, "decisions": [{"problem": KEY, "solution": 3, "decision": "reject"}]}

A problem's key is the sha256 over its text and solutions (`Problem.key`), as in `scores.jsonl`:
decisions do not apply to a changed problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rpd_datasets.filters.candidates import Candidates, Drops
from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError
from rpd_metric.reasons import Reason

KEEP, REJECT = "keep", "reject"


def read_decisions(path: str) -> Mapping[tuple[str, int], str]:
    """Read a file of marks: from a problem's key and a solution's index to what was decided."""
    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except OSError as error:
        raise InputError(f"cannot read the decisions {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a file of decisions; save it again from the page of rpd report"
        ) from error


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Mapping[tuple[str, int], str]:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    decisions = {
        (str(row["problem"]), int(row["solution"])): row["decision"] for row in content["decisions"]
    }
    if content["format"] != 1 or not set(decisions.values()) <= {KEEP, REJECT}:
        raise ValueError("another format")
    return decisions


def rejected_by_hand(candidates: Candidates, decisions: str) -> Drops:
    """Leave out every solution that a person rejected in a file of marks."""
    why = (Reason.REJECTED_BY_HAND, f"{Path(decisions).name} rejects it.")
    decided, key = read_decisions(decisions), candidates.problem.key
    return {index: why for index in candidates.left if decided.get((key, index)) == REJECT}


def kept_by_hand(problem: Problem, decisions: str, usable: Sequence[int]) -> list[int]:
    """Those of the usable solutions that a person kept in a file of marks."""
    decided = read_decisions(decisions)
    return [index for index in usable if decided.get((problem.key, index)) == KEEP]


def choose_around(
    problem: Problem,
    decisions: str,
    usable: Sequence[int],
    picks: Sequence[int],
    matrix: npt.NDArray[np.float64],
) -> list[int]:
    """Choose as many solutions as before, first those that a person kept.

    `picks` are positions among the usable solutions chosen without decisions, `matrix` holds the
    usable solutions' distances. Returns positions: the kept ones in their order, then one by one
    the solution furthest from those (Algorithm 2), ties in the order of `picks`.
    """
    by_hand = kept_by_hand(problem, decisions, usable)
    chosen = [at for at, index in enumerate(usable) if index in by_hand][: len(picks)]
    if not chosen:
        return list(picks)
    order = [*picks, *(at for at in range(len(usable)) if at not in picks)]
    while len(chosen) < len(picks):
        rest = [at for at in order if at not in chosen]
        chosen.append(max(rest, key=lambda at: float(matrix[at, chosen].min())))
    return chosen
