"""Where a result may be written: a new place, an empty folder, or what this project wrote before.

Every command and recipe asks [`check_output`] before it works, so that nothing of a user's is
replaced. What a command wrote is recognised by its mark: a manifest, a record, a line of a page.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TextIO

from rpd_metric.errors import OutputError

# The names, or patterns of them, that a command wrote at a place; `None` where its mark is missing.
Written = Callable[[Path], Sequence[str] | None]
SHOWN = 3  # files that a message names


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file to write, which replaces an earlier one when it is complete.

    Raises:
        [`OutputError`]: It cannot be written.
    """
    beside = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        os.replace(beside, path)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename or path}: {error.strerror}") from error


def check_output(
    output: Path,
    written: Written = lambda _: None,
    *,
    overwrite: bool = True,
    reads: Iterable[Path] = (),
) -> None:
    """Refuse an output that holds anything but what the same command wrote.

    Args:
        output (`Path`): The folder or the file that will be written.
        written (`Callable`): Says what an earlier run of the command wrote there.
        overwrite (`bool`): Whether that may be replaced.
        reads (`Iterable`): What the run uses; a folder with any of it is not replaced.

    Raises:
        [`OutputError`]: The output cannot be written, or something would be lost.
    """
    if output.exists() and not output.is_dir() and written(output) is None:
        raise OutputError(
            f"{output} is a file that this command does not replace; choose another output"
        )
    folder = output.resolve()
    if inside := [path for path in reads if path.resolve().is_relative_to(folder)]:
        raise OutputError(f"{output} holds {inside[0]}, which this run uses; choose another output")
    if output.is_dir():
        if not overwrite and any(output.iterdir()):
            raise OutputError(
                f"{output} exists and is not empty; choose another output folder, or pass "
                "{overwrite=True} to replace it",
                option="overwrite",
            )
        own = written(output) or ()
        others = (name for name in _names(output) if not any(fnmatchcase(name, p) for p in own))
        if strange := list(islice(others, SHOWN + 1)):
            more = " and others" if len(strange) > SHOWN else ""
            raise OutputError(
                f"{output} holds files that this command does not replace: "
                f"{', '.join(strange[:SHOWN])}{more}. Nothing was changed; choose another output, "
                "or move them away"
            )
    parent = next(place for place in folder.parents if place.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise OutputError(f"cannot write in {parent}; make it writable, or choose another output")


def _names(folder: Path) -> Iterator[str]:
    """The names of all files in a folder, in order; a link is not followed."""

    def refuse(error: OSError) -> None:
        raise OutputError(f"cannot read {error.filename}: {error.strerror}") from error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        links = (name for name in folders if os.path.islink(os.path.join(place, name)))
        for name in sorted((*names, *links)):
            yield Path(place, name).relative_to(folder).as_posix()
