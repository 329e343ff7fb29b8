"""Rows written for a test."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def as_lines(rows: Iterable[Any]) -> str:
    """Rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON Lines, with the folders above them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_lines(rows), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
