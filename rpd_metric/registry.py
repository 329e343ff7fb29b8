"""Named parts of one kind, ours and those that other packages bring: one pattern for all.

An installed package adds its own through an entry point of `rpd.embedders`, `rpd.summarizers`,
`rpd.distances`, `rpd.filters` or `rpd.layouts`, without a line changed here:

    [project.entry-points."rpd.distances"]
    length = "their_package:LENGTH"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from rpd_metric.errors import InputError, first_line

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The entries of one kind by name, in order: ours first, then those of other packages.

    Installed packages are looked through when a name is not one of ours, or all are listed.

    Args:
        what (`str`): What an entry is called in messages, e.g. `"distance"`.
        kind (`type`): The class of every entry.
        entries (`Mapping`): Ours.
        group (`str`, *optional*): The entry-point group of other packages' entries.
    """

    def __init__(
        self, what: str, kind: type[Entry], entries: Mapping[str, Entry], group: str | None = None
    ) -> None:
        self.what = what
        self.group = group
        self._kind = kind
        self._ours = dict(entries)
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        if self.group is None:
            return {}
        found = entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self._ours}

    def __getitem__(self, name: str) -> Entry:
        if name in self._ours:
            return self._ours[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._others[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._ours
        yield from self._others

    def __len__(self) -> int:
        return len(self._ours) + len(self._others)

    def find(self, name: str) -> Entry:
        """The entry of that name.

        Raises:
            [`InputError`]: There is none, or the package that brings it cannot be imported.
        """
        if name in self:
            return self[name]
        near = difflib.get_close_matches(name, list(self), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        names = ", ".join(self) or "none"
        raise InputError(f"unknown {self.what} {name!r}{hint} There are: {names}")

    def _load(self, point: EntryPoint) -> Entry:
        package = point.dist.name if point.dist else point.module
        try:
            entry = point.load()
        except (ImportError, AttributeError) as error:
            raise InputError(
                f"the {self.what} {point.name!r} of the package {package} cannot be imported: "
                f"{first_line(error)}"
            ) from error
        if not isinstance(entry, self._kind):
            raise InputError(
                f"the {self.what} {point.name!r} of the package {package} must be a "
                f"{self._kind.__name__}, not {type(entry).__name__}"
            )
        return entry
