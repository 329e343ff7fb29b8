"""The paper's own pass@k tables and Table 3, from `paper_tables.json`.

A user's run is printed beside the row it repeats; nothing is computed from these figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from rpd_metric.errors import InputError


@dataclass(frozen=True)
class PublishedRow:
    """One row of a table, in percent; `label` is the table's in LaTeX.

    `pass_at_k` is by k, by the first-k-of-each-run estimator; in Table 3 `div_self_bleu` and `rpd`
    (100 times the mean distance) are by pass count. `note` is what a reader has to know.
    """

    label: str
    table: int
    model: str
    benchmark: str
    method: str
    pass_at_k: Mapping[str, float] = field(default_factory=dict)
    div_self_bleu: Mapping[str, float] = field(default_factory=dict)
    rpd: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def published_rows() -> list[PublishedRow]:
    """Every row, in the order of the paper.

    >>> row = published_rows()[0]
    >>> row.method, row.benchmark, row.pass_at_k["16"]
    ('Base', 'math500-level5', 75.0)
    """
    file = resources.files("rpd_datasets.evaluation") / "paper_tables.json"
    tables = json.loads(file.read_text(encoding="utf-8"))["tables"]
    return [
        PublishedRow(table["label"], table["table"], **{"model": table["model"], **row})
        for table in tables
        for row in table["rows"]
    ]


def published(model: str, benchmark: str, *, diversity: bool = False) -> list[PublishedRow]:
    """The rows to print beside a run: those of the table with most rows about it, or of Table 3.

    Raises:
        [`InputError`]: The paper has no such model.
    """
    rows = published_rows()
    models = list(dict.fromkeys(row.model for row in rows))
    if model not in models:
        raise InputError(f"the paper has no model {model!r}; it has {', '.join(models)}")
    tables: dict[str, list[PublishedRow]] = {}
    for row in rows:
        if (row.model, row.benchmark) == (model, benchmark) and bool(row.rpd) == diversity:
            tables.setdefault(row.label, []).append(row)
    return max(tables.values(), key=len, default=[])
