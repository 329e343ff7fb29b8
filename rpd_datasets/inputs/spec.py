"""How an input is read, as one plain value: what `rpd` options and Python calls have in common.

Reading itself is `source.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rpd_datasets.inputs.layouts import Columns, Layout
from rpd_datasets.inputs.memory import DatasetRows
from rpd_datasets.inputs.source import Source, open_source
from rpd_datasets.rejects import Rejected

IN_MEMORY = "a dataset in memory"


@dataclass(frozen=True)
class Reading:
    """How an input is read; see [`~rpd_datasets.inputs.source.open_source`].

    Args:
        columns ([`~rpd_datasets.inputs.source.Columns`]): What its columns are called.
        layout (`str`): `"grouped"`, `"flat"`, `"openthoughts"` or `"auto"`.
        split (`str`): The split, where there are several.
        config_name (`str`, *optional*): The configuration of a Hub dataset.
        revision (`str`, *optional*): The branch, tag or commit of a Hub dataset.
        exactly (`int`, *optional*): Leave out problems with another number of solutions.
        limit (`int`, *optional*): Stop after so many problems.
        only (`Mapping[str, str]`): Read only rows whose columns have these values.
    """

    columns: Columns = field(default_factory=Columns)
    layout: Layout = "auto"
    split: str = "train"
    config_name: str | None = None
    revision: str | None = None
    exactly: int | None = None
    limit: int | None = None
    only: Mapping[str, str] = field(default_factory=dict)

    def open(
        self,
        source: Any,
        scratch: Path,
        on_reject: Callable[[Rejected], None],
        *,
        name: str = IN_MEMORY,
        without: Sequence[str] = (),
    ) -> Source:
        """Open an input.

        Args:
            source (`str`, `Path` or `datasets.Dataset`): What is read.
            scratch (`Path`): A folder for what reading needs on disk.
            on_reject (`Callable`): Receives every row and solution that cannot be used.
            name (`str`): What a dataset in memory is called.
            without (`Sequence[str]`): Columns of it that are left aside.
        """
        if not isinstance(source, str | Path):
            source = DatasetRows(source, name=name, without=without)
        return open_source(
            source,
            scratch=scratch,
            on_reject=on_reject,
            columns=self.columns,
            layout=self.layout,
            split=self.split,
            name=self.config_name,
            revision=self.revision,
            exactly=self.exactly,
            limit=self.limit,
            only=self.only,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types, for the manifest; the layout is there as it was found."""
        options = asdict(self)
        del options["layout"]
        return options
