"""Parts that other packages may add: a registry for each kind, and the border that checks them.

[`border`] runs the code of another package and names it in every error. [`checked_distances`] and
[`checked_vectors`] hold its results to their contracts. A part that fails costs the problem that it
failed on, not the run.

An installed package adds its own through an entry point of `rpd.embedders`, `rpd.summarizers`,
`rpd.distances`, `rpd.filters` or `rpd.layouts`, without a line changed here:

    [project.entry-points."rpd.distances"]
    length = "their_package:LENGTH"
"""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError, PluginError, RPDError, first_line

Entry = TypeVar("Entry")
OURS = ("rpd_metric", "rpd_datasets")
# Rounding in another package's arithmetic. What is further off is another mistake.
ROUNDING = 1e-6


@contextmanager
def border(what: str, part: object) -> Iterator[None]:
    """Turn every exception of another package's code into a [`PluginError`] that names it.

    Exceptions of our own code are bugs and pass.

    Args:
        what (`str`): The part in words, e.g. `"the distance 'length'"`.
        part: Its function, the object whose method runs, or the name of its module.
    """
    try:
        yield
    except RPDError:
        raise
    except Exception as error:
        home = part if isinstance(part, str) else getattr(part, "__module__", None)
        if (home or type(part).__module__).partition(".")[0] in OURS:
            raise
        raise PluginError(f"{what} failed: {type(error).__name__}: {first_line(error)}") from error


def checked_distances(values: Any, k: int, what: str) -> npt.NDArray[np.float64]:
    """A `(k, k)` matrix of distances: finite, symmetric, not negative, zeros on its diagonal.

    Differences up to 1e-6 are rounding and are evened out. Raises [`PluginError`].
    """
    matrix = _numbers(values, what).astype(np.float64)
    if matrix.shape != (k, k):
        raise PluginError(f"{what} returned the shape {matrix.shape}, not {(k, k)}")
    if not np.isfinite(matrix).all():
        raise PluginError(f"{what} returned values that are not finite")
    if np.abs(matrix - matrix.T).max(initial=0) > ROUNDING:
        raise PluginError(f"{what} is not symmetric")
    if matrix.min(initial=0) < -ROUNDING:
        raise PluginError(f"{what} returned the negative value {matrix.min():.3g}")
    if np.abs(matrix.diagonal()).max(initial=0) > ROUNDING:
        raise PluginError(f"{what} is not 0 between a solution and itself")
    matrix = np.maximum((matrix + matrix.T) / 2, 0)
    np.fill_diagonal(matrix, 0)
    return matrix


def checked_vectors(values: Any, n: int, what: str) -> npt.NDArray[np.float32]:
    """An `(n, d)` array of finite numbers. Raises [`PluginError`]."""
    vectors = _numbers(values, what).astype(np.float32, copy=False)
    if vectors.ndim != 2 or len(vectors) != n:
        raise PluginError(f"{what} returned the shape {vectors.shape} for {n} texts")
    if not np.isfinite(vectors).all():
        raise PluginError(f"{what} returned values that are not finite")
    return vectors


def _numbers(values: Any, what: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "fiub":
        kind = type(values).__name__
        raise PluginError(f"{what} returned a {kind} that is not an array of numbers")
    return array


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
        points = entry_points(group=self.group)
        return {point.name: point for point in points if point.name not in self._ours}

    def __getitem__(self, name: str) -> Entry:
        if name in self._ours:
            return self._ours[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._others[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._ours, *self._others])

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
