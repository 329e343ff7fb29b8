"""Problems with their solutions, out of any of the row layouts such data comes in.

`open_source` reads files, folders, the packaged sample, datasets on the Hub and in memory. Bad rows
and solutions are reported and left out; texts are never changed. `filters/pipeline.py` filters.
"""

import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.gathering import join_rows, read_gathered, read_info, write_scratch
from rpd_datasets.inputs.hub_rows import HubRows
from rpd_datasets.inputs.layouts import LAYOUTS, Columns, columns_there, find_layout
from rpd_datasets.inputs.local_files import LocalRows, file_kind
from rpd_datasets.inputs.raw_rows import DatasetRows, Row, Terms, prompts_by_id, readable_rows
from rpd_datasets.messages import with_common_prompt
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem, Rejected
from rpd_metric.errors import InputError, check_least
from rpd_metric.reasons import Reason

IN_MEMORY = "a dataset in memory"
# 48 packaged problems whose wording misleads about strategy.
CONTROLLED = "controlled"
# Rows looked at to tell the layout; JSON Lines may leave a column out of some rows.
PEEK_ROWS = 32
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")

# Rows that can be read again and again in the same order; one that cannot be read is a `Rejected`
# in its place. `fingerprint` changes whenever the rows could be others, and `part` says what is
# read of an input where one fingerprint covers several parts.
RowSource = LocalRows | HubRows | DatasetRows


@documented
@dataclass(frozen=True)
class InputSpec:
    """How an input is read; see [`open_source`]."""

    layout: str = option(
        "auto", "row layout: auto, grouped, flat or another of docs/formats.md", metavar="NAME"
    )
    columns: Columns = option(factory=Columns, help="what its columns are called", group=None)
    split: str = option("train", "split to read, if there are several", group="place")
    config_name: str | None = option(
        None, "configuration of a Hub dataset", group="place", metavar="NAME"
    )
    revision: str | None = option(None, "branch, tag or commit of a Hub dataset", group="place")
    only: Mapping[str, str] = option(
        factory=dict, help="read only rows with these column values, as text", group=None
    )
    prompts: str | None = option(
        None, "file with the problems of rows that only have ids", group="place", metavar="FILE"
    )
    turn: int | None = option(
        None, "answer of a conversation to read alone (default: all)", group="place", metavar="N"
    )
    right_score: str | None = option(
        None,
        "scores of a log that count as right: a number for it and all above, or values as A,B",
        metavar="SCORE",
    )
    exactly: int | None = option(
        None, "keep only problems with exactly N solutions", group="place", metavar="N"
    )
    limit: int | None = option(None, "read only the first N problems", group="place", metavar="N")

    def __post_init__(self) -> None:
        check_least(1, self, "exactly", "limit", "turn")


@dataclass(kw_only=True, eq=False)
class Source:
    """Problems that can be read again and again in the same order; made by `open_source`.

    `on_reject` receives each reject once, however often the source is read. Problems in
    `contamination` are left out.

    Attributes:
        there (`list[str]`): Every column of the first rows.
        rows_read (`int`): Input rows of the latest pass, bad ones included.
        num_problems (`int`, *optional*): The maximum, known once the first problem is read.
    """

    rows: RowSource
    spec: InputSpec
    scratch: Path
    on_reject: Callable[[Rejected], None]
    contamination: Contamination | None = None
    first_rows: int | None = None

    def __post_init__(self) -> None:
        rows, spec = self.rows, self.spec
        self._prompts: dict[str, Any] = {}
        if spec.prompts is not None:
            self._prompts = prompts_by_id(spec.prompts, open_rows(spec.prompts, InputSpec()))
        head = list(islice(readable_rows(rows, self._prompts), PEEK_ROWS))
        samples = [row.values for row in head if isinstance(row, Row)]
        if not head:
            raise InputError(f"{rows.name} is empty.")
        if isinstance(head[0], Rejected) and not samples:
            raise InputError(
                f"None of the first {len(head)} rows of {rows.name} can be read. "
                f"{head[0].where}: {head[0].detail}"
            )
        self.name = rows.name
        self.there = columns_there(samples)
        columns, layout = spec.columns, spec.layout
        self.layout, self.columns = find_layout(samples, rows.name, columns, layout, spec.only)
        self._layout = LAYOUTS[self.layout]
        if spec.turn and self.layout != "openthoughts":
            raise InputError(f"turn is for rows with a conversation; {rows.name} has none.")
        self.terms: Terms = rows.terms
        self.rows_read = 0
        self.num_problems: int | None = None
        self._reported = 0

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 over the content, or the commit of a Hub dataset."""
        of_rows = self.rows.fingerprint()
        both = json.dumps([of_rows, self._prompts]).encode()
        return hashlib.sha256(both).hexdigest() if self._prompts else of_rows

    def __iter__(self) -> Iterator[Problem]:
        reasons: Counter[str] = Counter()
        problems = 0
        for item in map(self._checked, self._gathered()):
            if isinstance(item, Problem):
                problems += 1
                yield item
                if problems == self.spec.limit:
                    return
            else:
                reasons[item.reason] += 1
                # The order is the same in every pass, so counting tells what is new.
                if reasons.total() > self._reported:
                    self._reported += 1
                    self.on_reject(item)
        if not problems:
            why = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
            only = "".join(f" with {name}={value}" for name, value in self.spec.only.items())
            raise InputError(
                f"{self.name} has no usable problem in its {self.rows_read} rows{only}. "
                f"Left out: {why or 'nothing'}."
            )

    def _checked(self, item: Problem | Rejected) -> Problem | Rejected:
        """Leave out a problem of another size than wanted, or of a benchmark."""
        if isinstance(item, Rejected):
            return item
        item = with_common_prompt(item)
        if self.spec.exactly not in (None, len(item.solutions)):
            detail = f"{len(item.solutions)} usable solutions instead of {self.spec.exactly}."
            return item.rejected("group", Reason.WRONG_COUNT, detail)
        match = self.contamination and self.contamination.find(item.problem)
        return item.rejected("filter", Reason.CONTAMINATED, match.detail) if match else item

    def _gathered(self) -> Iterator[Problem | Rejected]:
        one_each = self._layout.one_each
        # Where problems are left out for other reasons, the limit lies further on.
        limited = not one_each and self.spec.exactly is None and self.contamination is None
        limit = self.spec.limit if limited else None
        path = self.scratch / f"rows-{self._scratch_key(limit)}.sqlite"
        info = read_info(path) or write_scratch(
            path, self._items(), lambda: self.rows_read, one_each=one_each, limit=limit
        )
        self.num_problems = min(info["problems"], self.spec.limit or info["problems"])
        if not one_each:
            return join_rows(path, self._items())
        self.rows_read = info["rows_read"]
        return read_gathered(path)

    def _items(self) -> Iterator[Problem | Rejected]:
        only = self.spec.only.items()
        options = {"turn": self.spec.turn} if self.spec.turn else {}
        self.rows_read = 0
        rows = readable_rows(self.rows, self._prompts)
        for row in islice(rows, self.first_rows):
            self.rows_read += 1
            if isinstance(row, Rejected):
                yield row
            elif all(str(row.values.get(name)) == str(value) for name, value in only):
                yield from self._layout.items(row, self.columns, **options)

    def _scratch_key(self, limit: int | None) -> str:
        if self.first_rows is not None:
            return "head"  # a fingerprint may take reading the whole input
        only = sorted((name, str(value)) for name, value in self.spec.only.items())
        # What comes after the last problem that is read is not looked at.
        parts = [
            *(self.fingerprint, self.name, self.rows.part, self.layout),
            *(astuple(self.columns), only, limit, self.spec.turn, self.spec.right_score),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def open_source(
    source: Any,
    spec: InputSpec | None = None,
    *,
    scratch: Path,
    on_reject: Callable[[Rejected], None],
    name: str = IN_MEMORY,
    without: Sequence[str] = (),
    **others: Any,
) -> Source:
    """Open an input and look at its first rows; the problems are read when it is iterated.

    Args:
        source (`str`, `Path` or `datasets.Dataset`): `"sample"` or `"controlled"` (packaged), a
            file, a folder, a Hub id or rows in memory. Local paths come before `"controlled"` and
            Hub ids.
        scratch (`Path`): A folder for the file that joins the rows of a problem; it is reused when
            input and options are the same.
        on_reject (`Callable`): Receives every [`Rejected`] once, in the order of the input.
        name (`str`): The name of a dataset in memory.
        without (`Sequence[str]`): Columns of it to ignore.

    Raises:
        InputError: The input cannot be found or read, is empty, or lacks a column.
    """
    spec = spec or InputSpec()
    rows = open_rows(source, spec, name=name, without=without)
    return Source(rows=rows, spec=spec, scratch=scratch, on_reject=on_reject, **others)


def look_at_head(
    source: Any, spec: InputSpec | None = None, *, name: str = IN_MEMORY, needed: Sequence[str] = ()
) -> tuple[list[str], Problem | None]:
    """Every column of an input's first rows, and the first problem in them, if any.

    `wanted` columns that the first rows lack are looked for in all rows of a file.

    Raises:
        InputError: The whole input has no usable problem.
    """
    # Later rows may add solutions to a problem.
    spec = replace(spec or InputSpec(), exactly=None)
    with tempfile.TemporaryDirectory() as scratch:
        options: dict[str, Any] = {"scratch": Path(scratch), "on_reject": lambda _: None}
        opened = open_source(source, spec, name=name, first_rows=PEEK_ROWS, **options)
        try:
            problem = next(iter(opened))
        except InputError:
            if opened.rows_read < PEEK_ROWS:
                raise
            problem = None
    there = dict.fromkeys((*opened.there, *(problem.extra if problem else ())))
    for row in opened.rows if isinstance(opened.rows, LocalRows) else ():
        if there.keys() >= {*needed}:
            break
        if isinstance(row, Row):
            there.update(dict.fromkeys(row.values))
    return list(there), problem


def open_rows(
    source: Any,
    spec: InputSpec,
    *,
    name: str = IN_MEMORY,
    without: Sequence[str] = (),
    streaming: bool = True,
) -> RowSource:
    """The rows of a packaged set, a file, a folder, a dataset on the Hub or one in memory."""
    if not isinstance(source, str | Path):
        return DatasetRows(source, name=name, without=without)
    source = str(source)
    if source == "sample":
        return LocalRows(Path(__file__).parents[1] / "sample", name="sample", split=spec.split)
    path = Path(source).expanduser()
    if path.exists():
        return LocalRows(path, name=source, split=spec.split, right_score=spec.right_score)
    if source == CONTROLLED:
        packaged = Path(__file__).parents[1] / "sets" / f"{CONTROLLED}.jsonl"
        return LocalRows(packaged, name=source, split=spec.split)
    if file_kind(path) is None and HUB_ID.fullmatch(source):
        place: dict[str, Any] = {"config": spec.config_name, "split": spec.split}
        return HubRows(source, **place, revision=spec.revision, streaming=streaming)
    raise InputError(
        f"There is no file or folder {source!r}, and it is not the id of a dataset on the Hub "
        "(owner/name). Name a file, a folder, a Hub id, or sample."
    )
