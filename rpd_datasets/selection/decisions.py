"""Solutions that a person kept or rejected, by the file of decisions that the report's page saves.

    {"format": 1, "decisions": [{"problem": KEY, "solution": 3, "decision": "reject"}]}

A problem's key is the sha256 over its text and solutions (`Problem.key`), as in `scores.jsonl`:
decisions do not apply to a changed problem.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from rpd_datasets.problem import Problem
from rpd_metric.errors import InputError

KEEP, REJECT = "keep", "reject"


def read_decisions(path: str) -> Mapping[tuple[str, int], str]:
    """Read a file of decisions, by a problem's key and a solution's index."""
    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except OSError as error:
        raise InputError(f"cannot read the decisions {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a file of decisions; save it again from the page of rpd report"
        ) from error


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Mapping[tuple[str, int], str]:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    decisions = {
        (str(entry["problem"]), int(entry["solution"])): entry["decision"]
        for entry in content["decisions"]
    }
    if content["format"] != 1 or not set(decisions.values()) <= {KEEP, REJECT}:
        raise ValueError("another format")
    return decisions


def decided(path: str, problem: Problem, decision: str) -> list[int]:
    """Indices of the problem's solutions that a person kept, or rejected."""
    decisions = read_decisions(path)
    indices = range(len(problem.solutions))
    return [index for index in indices if decisions.get((problem.key, index)) == decision]
