"""How an input is read, as one plain value: what `rpd` options and Python calls have in common.

Reading itself is `source.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rpd_datasets.inputs.known_layouts import Layout
from rpd_datasets.inputs.layouts import Columns
from rpd_datasets.options import documented, option
from rpd_metric.errors import InputError

IN_MEMORY = "a dataset in memory"


@documented
@dataclass(frozen=True)
class InputSpec:
    """How an input is read; see [`~rpd_datasets.inputs.source.open_source`]."""

    layout: Layout = option(
        "auto",
        "grouped: a problem and its list of solutions per row; flat: one solution per row; "
        "openthoughts: conversations",
    )
    columns: Columns = option(factory=Columns, help="what its columns are called", group=None)
    split: str = option("train", "the split to read, where there are several", group="place")
    config_name: str | None = option(
        None, "the configuration of a Hub dataset", group="place", metavar="NAME"
    )
    revision: str | None = option(None, "the branch, tag or commit of a Hub dataset", group="place")
    only: Mapping[str, str] = option(
        factory=dict,
        help="read only rows whose columns have these values, compared as text",
        group=None,
    )
    exactly: int | None = option(
        None,
        "leave out problems with another number of solutions (16 for OpenThoughts3)",
        group="place",
        metavar="N",
    )
    limit: int | None = option(
        None,
        "stop after N problems. Flat rows are all read even so, since a problem's rows may stand "
        "anywhere",
        group="place",
        metavar="N",
    )
    max_rows: int | None = option(
        None,
        "read only so many rows: the last problem of a flat dataset may then lack solutions",
        group=None,
    )
    merge: bool = option(
        True,
        "put grouped rows of the same problem together; otherwise only the first is read",
        group=None,
    )
    streaming: bool = option(
        True,
        "read a Hub dataset over the network row by row instead of downloading it first",
        group=None,
    )

    def __post_init__(self) -> None:
        for name in ("exactly", "limit", "max_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the manifest; the layout is there as it was found."""
        options = asdict(self)
        for name in ("layout", "max_rows", "merge", "streaming"):
            del options[name]
        return options
