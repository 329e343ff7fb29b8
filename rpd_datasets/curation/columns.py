"""The columns that curation adds to a row, in one table: for folders, `ds.map` and cards alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rpd_datasets.config import GROUPS, CurationConfig
from rpd_datasets.curation.scoring import Scored


class Column(NamedTuple):
    """A column: where its values come from, and their Arrow type."""

    field: str  # of `Scored`; "" for the choice itself
    arrow: str = ""  # the innermost type; "" if it is inferred from the values
    depth: int = 0  # of lists around it
    applies: Callable[[CurationConfig], bool] = lambda _: True


COLUMNS: Mapping[str, Column] = {
    "steps": Column("steps", "string", 2),
    "rpd_matrix": Column("matrix", "float64", 2),
    "rpd_score": Column("score", "float64"),
    "selected": Column("", "int64", 1),
    "drop_reasons": Column("drop_reasons", "string", 1),
    "num_tokens": Column("num_tokens", "int64", 1),
    "diverse": Column("diverse", applies=lambda config: config.problems == "llm"),
    "problem_score": Column(
        "problem_score", applies=lambda config: config.problem_distance not in (None, "rpd")
    ),
    "distance_matrix": Column(
        "distances", applies=lambda config: config.solution_distance not in (None, "rpd")
    ),
    "num_strategies": Column("num_strategies", applies=lambda config: config.problems == GROUPS),
    "groups_auroc": Column(
        "groups_auroc", "float64", applies=lambda config: config.problems == GROUPS
    ),
    "strategies": Column("strategies", applies=lambda config: config.asks_groups),
    "strategy_names": Column("strategy_names", applies=lambda config: config.asks_groups),
}


def column_names(config: CurationConfig) -> list[str]:
    """The columns that these options call for."""
    return [name for name, column in COLUMNS.items() if column.applies(config)]


def row_columns(scored: Scored, selected: Sequence[int], config: CurationConfig) -> dict[str, Any]:
    """The values of a row in them, given its chosen solutions."""
    return {
        name: getattr(scored, COLUMNS[name].field) if COLUMNS[name].field else list(selected)
        for name in column_names(config)
    }
