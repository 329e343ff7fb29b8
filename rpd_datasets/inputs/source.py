"""Problems with their solutions, out of any of the row layouts such data comes in.

`open_source` reads files, folders, the packaged sample and datasets on the Hub, in three layouts:
rows already grouped (a problem and a list of solutions), flat rows (a problem and one solution)
and the `conversations` rows of OpenThoughts3 (Sec. 3.2 of the paper starts from these). A bad row
or solution is named and left out; the run goes on. Texts are kept as they are: NUL characters
and `<think>` blocks stay in. Nothing is filtered for quality here: see `pipeline.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.files import LocalRows, file_kind
from rpd_datasets.inputs.grouping import (
    VERSION,
    FlatRow,
    build_groups,
    count_groups,
    problem_digest,
    read_groups,
    read_rejects,
    read_totals,
)
from rpd_datasets.inputs.hub import HubRows
from rpd_datasets.inputs.joining import find_repeated, merged
from rpd_datasets.inputs.known_layouts import (
    LAYOUTS,
    Layout,
    ReadProblem,
    ReadSolution,
    check_columns,
    check_only,
)
from rpd_datasets.inputs.layouts import Columns, kept_names
from rpd_datasets.inputs.memory import DatasetRows
from rpd_datasets.inputs.rows import Row, RowSource, Terms
from rpd_datasets.inputs.spec import IN_MEMORY, InputSpec
from rpd_datasets.inputs.well_known import WellKnown, recognise, with_columns
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError

__all__ = ["Columns", "Layout", "Problem", "Source", "open_source"]

# Rows looked at to tell the layout; JSON Lines may leave a column out of some rows.
PEEK_ROWS = 32
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class Source:
    """Problems that can be read again and again in the same order; made by `open_source`.

    What is left out is handed to `on_reject` once, however often the source is read.

    Attributes:
        name (`str`): What the input was called.
        layout (`str`): `"grouped"`, `"flat"` or `"openthoughts"`.
        columns ([`Columns`]): What the columns are called.
        terms ([`~rpd_datasets.inputs.rows.Terms`]): Licence and language, where they are known.
        known ([`WellKnown`], *optional*): The well-known dataset whose columns it has.
        rows_read (`int`): Input rows the latest pass rests on, bad ones included.
        rows_skipped (`int`): Rows of these that `only` left aside.
        num_problems (`int`, *optional*): How many problems there are at most, once rows with one
            solution each are grouped; unknown before, and for other layouts.
    """

    def __init__(
        self,
        rows: RowSource,
        spec: InputSpec,
        layout: str,
        *,
        scratch: Path,
        on_reject: Callable[[Rejected], None],
        on_read: Callable[[int], None],
        known: WellKnown | None = None,
        contamination: Contamination | None = None,
    ) -> None:
        self.name = rows.name
        self.layout = layout
        self.known = known
        self.columns = spec.columns
        self.terms: Terms = getattr(rows, "terms", Terms())
        self.rows_read = 0
        self.rows_skipped = 0
        self.num_problems: int | None = None
        self._rows = rows
        self._spec = spec
        self._only = {name: str(value) for name, value in spec.only.items()}
        self._scratch = scratch
        self._on_reject = on_reject
        self._on_read = on_read
        self._contamination = contamination
        self._reported = 0

    def fingerprint(self) -> str:
        """The sha256 over the content of local files, or the commit of a Hub dataset."""
        return self._rows.fingerprint()

    def __iter__(self) -> Iterator[Problem]:
        reasons: Counter[str] = Counter()
        found = 0
        one = LAYOUTS[self.layout]
        if one.problem:
            items = self._grouped(one.problem)
        else:
            assert one.solution is not None
            items = self._gathered(one.solution)
        for item in map(self._clean, items):
            if isinstance(item, Problem):
                found += 1
                yield item
                if found == self._spec.limit:
                    return
            else:
                reasons[item.reason] += 1
                # The order is the same in every pass, so counting tells what is new.
                if reasons.total() > self._reported:
                    self._reported += 1
                    self._on_reject(item)
        if not found:
            why = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
            raise InputError(
                f"{self.name} has no usable problem in its {self.rows_read} rows. "
                f"Left out: {why or 'nothing'}"
                + (f"; skipped by the option only: {self.rows_skipped}." if self._only else ".")
            )

    def _clean(self, item: Problem | Rejected) -> Problem | Rejected:
        """A problem that stands in a benchmark is left out, with the match."""
        if self._contamination is None or isinstance(item, Rejected):
            return item
        match = self._contamination.find(item.problem)
        return item if match is None else item.rejected("filter", "contaminated", match.detail)

    def _grouped(self, read: ReadProblem) -> Iterator[Problem | Rejected]:
        items = self._merged(read) if self._spec.merge else self._first_only(read)
        for item in items:
            wrong = self._wrong_count(item) if isinstance(item, Problem) else None
            yield wrong or item

    def _merged(self, read: ReadProblem) -> Iterator[Problem | Rejected]:
        path = self._scratch / f"repeated-{self._scratch_key()}.sqlite"
        if not path.exists():
            rows = (i for i in self._items(read, report=False) if isinstance(i, Problem))
            # Where problems are left out for other reasons, the limit lies further on.
            all_count = self._spec.exactly is None and self._contamination is None
            limit = self._spec.limit if all_count else None
            find_repeated(path, rows, limit)
        return merged(path, self._items(read))

    def _first_only(self, read: ReadProblem) -> Iterator[Problem | Rejected]:
        seen: dict[bytes, str] = {}
        for item in self._items(read):
            if isinstance(item, Problem):
                digest = problem_digest(item.problem)
                if (known := seen.setdefault(digest, item.where)) != item.where:
                    detail = f"The same problem stands at {known}."
                    yield item.rejected("group", "duplicate_problem", detail)
                    continue
            yield item

    def _items(self, read: ReadProblem, *, report: bool = True) -> Iterator[Problem | Rejected]:
        for row in self._read(report=report):
            if isinstance(row, Rejected):
                yield row
            else:
                yield from read(row, self.columns)

    def _gathered(self, read: ReadSolution) -> Iterator[Problem | Rejected]:
        path = self._scratch / f"groups-{self._scratch_key()}.sqlite"
        totals = read_totals(path)
        if totals is None:
            build_groups(path, self._flat_rows(read), totals=self._totals)
            totals = self._totals()
        self.rows_read, self.rows_skipped = totals["rows_read"], totals["rows_skipped"]
        known = count_groups(path)
        self.num_problems = min(known, self._spec.limit or known)
        yield from read_rejects(path)
        for group in read_groups(path):
            extra = kept_names(group.extra)
            problem = Problem(group.problem, group.solutions, extra, group.where)
            yield self._wrong_count(problem) or problem

    def _scratch_key(self) -> str:
        parts = [
            VERSION,
            self.fingerprint(),
            self.name,
            self._rows.part,
            self.layout,
            astuple(self.columns),
            self._spec.max_rows,
            sorted(self._only.items()),
            self.known.names if self.known else "",
            # What comes after the last problem that is read is not looked at.
            self._contamination is None,
            self._spec.exactly is None,
            self._spec.limit if LAYOUTS[self.layout].problem else None,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def _flat_rows(self, read: ReadSolution) -> Iterator[FlatRow | Rejected]:
        for row in self._read():
            yield row if isinstance(row, Rejected) else read(row, self.columns)

    def _totals(self) -> dict[str, int]:
        return {"rows_read": self.rows_read, "rows_skipped": self.rows_skipped}

    def _read(self, *, report: bool = True) -> Iterator[Row | Rejected]:
        self.rows_read = self.rows_skipped = 0
        for row in islice(self._rows, self._spec.max_rows):
            self.rows_read += 1
            if report:
                self._on_read(self.rows_read)
            if isinstance(row, Row) and not self._wanted(row):
                self.rows_skipped += 1
            elif isinstance(row, Row) and self.known and self.known.turned:
                yield Row(row.place, self.known.turned(row.values))
            else:
                yield row

    def _wanted(self, row: Row) -> bool:
        return all(str(row.values.get(name)) == value for name, value in self._only.items())

    def _wrong_count(self, problem: Problem) -> Rejected | None:
        count = len(problem.solutions)
        if self._spec.exactly is None or count == self._spec.exactly:
            return None
        return problem.rejected(
            "group", "wrong_count", f"{count} usable solutions instead of {self._spec.exactly}."
        )


def open_source(
    source: Any,
    spec: InputSpec | None = None,
    *,
    scratch: Path,
    on_reject: Callable[[Rejected], None],
    on_read: Callable[[int], None] = lambda _: None,
    name: str = IN_MEMORY,
    without: Sequence[str] = (),
    contamination: Contamination | None = None,
) -> Source:
    """Open an input and look at its first rows; the problems are read when it is iterated.

    Args:
        source (`str`, `Path`, `datasets.Dataset` or `RowSource`): `"sample"` (packaged), a
            `.jsonl`, `.json` (also `.gz`), `.parquet` or `.arrow` file, a folder of such files or
            written by `save_to_disk`, or a Hub id. What exists on disk is never looked for on the
            Hub; a folder called `sample` is `./sample`.
        spec ([`InputSpec`], *optional*): How it is read.
        scratch (`Path`): A folder for the file through which flat rows are grouped. It is made
            when needed, and reused when input and options are the same.
        on_reject (`Callable`): Receives every [`Rejected`] once, in the order of the input.
        on_read (`Callable`): Called with the number of rows read so far, for progress bars.
        name (`str`): What a dataset in memory is called.
        without (`Sequence[str]`): Columns of it that are left aside.
        contamination ([`Contamination`], *optional*): Problems that stand in it are left out.

    Returns:
        [`Source`]: Iterate it for [`Problem`]s. It raises `InputError` if there is none.

    Raises:
        InputError: If the input cannot be found or read, is empty, or lacks a column.
    """
    rows = _rows_of(source, spec or InputSpec(), name, without)
    head = _look_at(rows, spec or InputSpec())
    return Source(
        rows,
        head.spec,
        head.layout,
        scratch=scratch,
        on_reject=on_reject,
        on_read=on_read,
        known=head.known,
        contamination=contamination,
    )


def look_at_head(
    source: Any, spec: InputSpec | None = None, *, name: str = IN_MEMORY
) -> tuple[tuple[str, ...], Problem | None]:
    """What the first rows of an input show, before anything is spent on it.

    Args:
        source (`str`, `Path`, `datasets.Dataset` or `RowSource`): See [`open_source`].
        spec ([`InputSpec`], *optional*): How it is read.
        name (`str`): What a dataset in memory is called.

    Returns:
        `tuple`: Every column of the first rows, and the first problem in them: with the solutions
            that stand there, where rows have one each; `None` where later rows may hold the first.

    Raises:
        InputError: As by [`open_source`]; also if the first rows are all, and hold no problem.
    """
    head = _look_at(_rows_of(source, spec or InputSpec(), name), spec or InputSpec())
    whole = len(head.rows) < PEEK_ROWS
    # Later rows may give a problem more solutions.
    spec = replace(head.spec, limit=1, merge=False, exactly=head.spec.exactly if whole else None)
    with tempfile.TemporaryDirectory() as scratch:
        problems = Source(
            head,
            spec,
            head.layout,
            scratch=Path(scratch),
            on_reject=lambda _: None,
            on_read=lambda _: None,
            known=head.known,
        )
        try:
            return head.columns, next(iter(problems), None)
        except InputError:
            if whole:
                raise
            return head.columns, None


@dataclass
class _Head:
    """The first rows of an input, which are rows themselves, and what they show."""

    name: str
    part: str
    rows: list[Row | Rejected]
    spec: InputSpec
    layout: str
    known: WellKnown | None
    columns: tuple[str, ...]

    def __iter__(self) -> Iterator[Row | Rejected]:
        return iter(self.rows)

    def fingerprint(self) -> str:
        """Nothing of it is kept."""
        return ""


def _rows_of(source: Any, spec: InputSpec, name: str, without: Sequence[str] = ()) -> RowSource:
    if isinstance(source, str | Path):
        return open_rows(str(source), spec)
    if hasattr(source, "fingerprint"):
        rows: RowSource = source
        return rows
    return DatasetRows(source, name=name, without=without)


def _look_at(rows: RowSource, spec: InputSpec) -> _Head:
    """Tell layout and columns from the first rows. Raises [`InputError`]."""
    peeked = list(islice(rows, PEEK_ROWS))
    if not peeked:
        raise InputError(f"{rows.name} is empty: it holds no rows.")
    samples = [row.values for row in peeked if isinstance(row, Row)]
    layout: str = spec.layout
    known = None
    if samples:
        check_only(samples, rows.name, spec.only)
        known = recognise(samples, spec.columns)
        spec = replace(spec, columns=with_columns(known, spec.columns))
        if known and known.turned:
            samples = [known.turned(values) for values in samples]
        layout = check_columns(samples, rows.name, spec.columns, layout)
    elif layout == "auto":
        first = next(row for row in peeked if isinstance(row, Rejected))
        raise InputError(
            f"None of the first {len(peeked)} rows of {rows.name} can be read. "
            f"{first.where}: {first.detail}"
        )
    columns = tuple(dict.fromkeys(column for sample in samples for column in sample))
    return _Head(rows.name, rows.part, peeked, spec, layout, known, columns)


def open_rows(source: str, spec: InputSpec) -> RowSource:
    """The rows of the packaged sample, a file, a folder or a dataset on the Hub.

    Raises:
        InputError: If there is no such thing.
    """
    if source == "sample":
        return LocalRows(Path(__file__).parents[1] / "sample", name="sample", split=spec.split)
    path = Path(source).expanduser()
    if path.exists():
        return LocalRows(path, name=source, split=spec.split)
    if file_kind(path) is None and HUB_ID.fullmatch(source):
        return HubRows(
            source,
            config=spec.config_name,
            split=spec.split,
            revision=spec.revision,
            streaming=spec.streaming,
        )
    raise InputError(
        f"There is no file or folder {source!r}, and it is not the id of a dataset on the Hub "
        "(owner/name) either. Name a file, a folder, a Hub id or the word sample."
    )
