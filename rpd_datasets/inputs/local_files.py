"""Raw rows out of files and folders, one at a time and each with its place.

A row that cannot be read becomes a `Rejected`, where the readers of `datasets` give up the whole
file; a broken file is an `InputError`. Memory holds one line or one batch of rows, or all of a
`.json` array. Lines longer than 256 MiB are skipped.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from rpd_datasets.inputs.harness import HARNESSES, read_harness
from rpd_datasets.inputs.inspect_rows import JSON_LOG, read_inspect_log
from rpd_datasets.inputs.raw_rows import BATCH_ROWS, Row, Terms
from rpd_datasets.inputs.sessions import is_session, read_session
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError, first_line
from rpd_metric.reasons import Reason

SUFFIXES = {
    f".{ending}{packed}": kind
    for ending, kind in (("jsonl", "jsonl"), ("ndjson", "jsonl"), ("json", "json"))
    for packed in ("", ".gz", ".zst")
} | {".eval": "inspect", **{f".{kind}": kind for kind in ("csv", "tsv", "parquet", "arrow")}}
BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 20
# The longest line, and cell of a table, that is read: a longer one would not fit in memory.
LONGEST_LINE = 1 << 28
# The words by which files of a split are known, as `datasets` has them.
SPLIT_OF = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}


def file_kind(path: Path) -> str | None:
    """What a file holds by its suffix: `"jsonl"`, `"json"`, `"parquet"`, ..., or `None`.

    >>> file_kind(Path("rows.jsonl.gz")), file_kind(Path("notes.txt"))
    ('jsonl', None)
    """
    name = path.name.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


class LocalRows:
    """The rows of a file, or of a folder of files or of what `save_to_disk` wrote."""

    part = ""
    terms = Terms()

    def __init__(
        self, path: Path, *, name: str, split: str = "train", right_score: str | None = None
    ) -> None:
        if not path.is_dir() and file_kind(path) is None:
            endings = ", ".join(SUFFIXES)
            raise InputError(f"{path} is not a data file: it must end in one of {endings}.")
        self.name = name
        self.files = _folder_files(path, split) if path.is_dir() else [path]
        self._root = path if path.is_dir() else path.parent
        self._right_score = right_score

    def __iter__(self) -> Iterator[Row | Rejected]:
        for path in self.files:
            try:
                label = path.relative_to(self._root).as_posix()
                yield from _read(path, label, self._right_score)
            except OSError as error:
                raise InputError(f"{path} cannot be read: {first_line(error)}") from error

    def fingerprint(self) -> str:
        """The sha256 over the content of the files, in the order in which they are read."""
        digest = hashlib.sha256()
        for path in self.files:
            try:
                digest.update(f"{path.stat().st_size}\n".encode())
                with path.open("rb") as file:
                    hashlib.file_digest(file, lambda: digest)
            except OSError as error:
                raise InputError(f"{path} cannot be read: {first_line(error)}") from error
        return digest.hexdigest()


def _folder_files(root: Path, split: str) -> list[Path]:
    """The data files of a folder in a fixed order, never of two tables."""
    if any((root / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return _saved_files(root, split)
    by_kind: dict[str, list[Path]] = {}
    for path in _data_files(root / "data") or _data_files(root):
        by_kind.setdefault(file_kind(path) or "", []).append(path)
    if len(by_kind) > 1:
        # Next to tables, .json files are nearly always settings or metadata.
        by_kind.pop("json", None)
    if len(by_kind) > 1:
        raise InputError(
            f"{root} holds both {' and '.join(sorted(by_kind))} files, which may be the same rows "
            "twice: name one file, or a folder with files of one kind."
        )
    if not by_kind:
        raise InputError(
            f"The folder {root} has no data file ({', '.join(SUFFIXES)}), nor does a folder "
            "'data' in it."
        )
    ((kind, files),) = by_kind.items()
    # A log is of no split, whatever its name says.
    return files if kind == "inspect" else _of_split(files, root, split)


def _saved_files(root: Path, split: str) -> list[Path]:
    """The files of what `save_to_disk` wrote."""
    from datasets import DatasetDict, load_from_disk

    try:
        saved = load_from_disk(root)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{root} is not as save_to_disk writes it: {first_line(error)}. Save the dataset again."
        ) from error
    if isinstance(saved, DatasetDict):
        if split not in saved:
            raise InputError(f"{root} has no split {split!r}, only: {', '.join(saved)}.")
        saved = saved[split]
    return [Path(file["filename"]) for file in saved.cache_files]


def _data_files(folder: Path) -> list[Path]:
    """The data files under a folder, none of them hidden, in order of their names."""
    files = (path for path in folder.rglob("*") if file_kind(path) and path.is_file())
    return sorted(path for path in files if "/." not in f"/{path.relative_to(folder).as_posix()}")


def _of_split(files: list[Path], root: Path, split: str) -> list[Path]:
    """Keep the files of one split where names such as `train-00000-of-00001` tell splits apart."""
    by_split: dict[str, list[Path]] = {}
    for path in files:
        words = re.split(r"[^a-z0-9]+", path.relative_to(root).as_posix().lower())
        named = {SPLIT_OF[word] for word in words if word in SPLIT_OF}
        by_split.setdefault(named.pop() if len(named) == 1 else "", []).append(path)
    splits = sorted(filter(None, by_split))
    name = SPLIT_OF.get(split, split)
    if splits and name not in splits:
        raise InputError(
            f"{root} has no files of the split {split!r}, only: {', '.join(splits)}. "
            "Choose one with {split}.",
            option="split",
        )
    return by_split[name] if splits else files


def _read(path: Path, label: str, right_score: str | None) -> Iterator[Row | Rejected]:
    """The rows of a file; those of a harness as problems, a session as one row."""
    kind = file_kind(path) or ""
    read = _READERS[kind]
    if kind in ("jsonl", "parquet"):
        head = islice(read(path, label), BATCH_ROWS)
        peeked = [row.values for row in head if isinstance(row, Row)]
        if any(map(is_session, peeked)):
            return read_session(read(path, label), label)
        wrote = (tool for values in peeked for tool in HARNESSES if tool.misses(values) is None)
        if harness := next(wrote, None):
            return read_harness(harness, lambda: read(path, label), right_score)
    if kind in ("json", "inspect"):
        read = partial(read, right_score=right_score)
    return read(path, label)


def _open(path: Path) -> BinaryIO:
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    if codec is None:
        return path.open("rb")
    import pyarrow as pa

    return cast(BinaryIO, io.BufferedReader(pa.CompressedInputStream(str(path), codec)))


def _read_jsonl(path: Path, label: str) -> Iterator[Row | Rejected]:
    with _open(path) as file:
        for number in count(1):
            place, raw = f"{label}:{number}", file.readline(LONGEST_LINE)
            if not raw:
                return
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(CHUNK)
                detail = f"The line is longer than {LONGEST_LINE >> 20} MiB."
                yield Rejected("read", Reason.LINE_TOO_LONG, place, detail)
            elif (line := raw.removeprefix(BOM) if number == 1 else raw).strip():
                yield _json_row(line, place)


def _json_row(raw: bytes, place: str) -> Row | Rejected:
    try:
        return _as_row(json.loads(raw.decode("utf-8")), place)
    except UnicodeDecodeError as error:
        return Rejected("read", Reason.NOT_UTF8, place, f"The line is not UTF-8: {error.reason}.")
    except (ValueError, RecursionError) as error:
        return Rejected("read", Reason.MALFORMED_JSON, place, f"Not JSON: {first_line(error)}.")


def _as_row(value: Any, place: str) -> Row | Rejected:
    if isinstance(value, dict):
        return Row(place, value)
    detail = f"A row must be an object, not {type(value).__name__}."
    return Rejected("read", Reason.NOT_AN_OBJECT, place, detail)


def _read_json(path: Path, label: str, right_score: str | None) -> Iterator[Row | Rejected]:
    """A `.json` file: one array of objects, a log of Inspect, or JSON Lines under another name."""
    with _open(path) as file:
        head = file.read(CHUNK).removeprefix(BOM).lstrip()
    if JSON_LOG.match(head):
        yield from _read_inspect(path, label, right_score)
        return
    if not head.startswith(b"["):
        yield from _read_jsonl(path, label)
        return
    try:
        with _open(path) as file:
            rows = json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON: {first_line(error)}. Write it as JSON Lines (.jsonl), "
            "where a bad row costs only itself."
        ) from error
    for number, value in enumerate(rows, start=1):
        yield _as_row(value, f"{label}:{number}")


def _read_csv(path: Path, label: str, delimiter: str = ",") -> Iterator[Row | Rejected]:
    """Rows of text: a problem and one solution each. The first line names the columns."""
    csv.field_size_limit(LONGEST_LINE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        # Inside quotes, a long line that is read in parts stays one row.
        parts = iter(partial(file.readline, LONGEST_LINE), "")
        rows = csv.DictReader(parts, strict=True, delimiter=delimiter)
        try:
            columns = rows.fieldnames
            for number in count(1):
                place = f"{label}:{number}"
                try:
                    values = next(rows, None)
                except csv.Error as error:
                    # A quote too few or too many: the reader goes on with the next line.
                    detail = f"Not CSV: {first_line(error)}."
                    yield Rejected("read", Reason.MALFORMED_CSV, place, detail)
                    continue
                if values is None:
                    return
                if None in values or None in values.values():
                    detail = f"The row has not as many cells as there are columns: {columns}."
                    yield Rejected("read", Reason.MALFORMED_CSV, place, detail)
                else:
                    yield Row(place, values)
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not valid CSV: {first_line(error)}") from error


def _read_table(path: Path, label: str) -> Iterator[Row | Rejected]:
    """The rows of a Parquet file or an Arrow stream."""
    import pyarrow as pa

    try:
        rows = (values for batch in _batches(path) for values in _values(batch))
        for number, values in enumerate(rows, start=1):
            place = f"{label}:{number}"
            if isinstance(values, UnicodeDecodeError):
                detail = f"The row is not UTF-8: {values.reason}."
                yield Rejected("read", Reason.NOT_UTF8, place, detail)
            else:
                yield Row(place, values)
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is not a readable {path.suffix} file: {first_line(error)}"
        ) from error


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    if not path.stat().st_size:
        return
    if file_kind(path) == "arrow":
        from datasets import Dataset

        yield from Dataset.from_file(str(path)).with_format("arrow").iter(BATCH_ROWS)
        return
    # Without a buffer's size, or with pre_buffer, all columns of a row group would be held, which
    # may be the whole file.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=CHUNK) as file:
        yield from file.iter_batches(batch_size=BATCH_ROWS)


def _values(batch: Any) -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError as error:
        # One bad row spoils its whole batch: find it by taking the rows one by one.
        if batch.num_rows == 1:
            yield error
        else:
            for start in range(batch.num_rows):
                yield from _values(batch.slice(start, 1))


def _read_inspect(path: Path, label: str, right_score: str | None) -> Iterator[Row | Rejected]:
    for number, row in enumerate(read_inspect_log(path, right_score), start=1):
        yield row if isinstance(row, Rejected) else Row(f"{label}:{number}", row, row["id"])


_READERS: dict[str, Callable[..., Iterator[Row | Rejected]]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
    "tsv": partial(_read_csv, delimiter="\t"),
    "parquet": _read_table,
    "arrow": _read_table,
    "inspect": _read_inspect,
}
