"""Raw rows, each with its place, those of a dataset in memory, and their values as JSON text."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError
from rpd_metric.reasons import Reason

# What a problem is usually called, and the id by which another file has it.
PROMPT_NAMES = ("problem", "question", "prompt", "query", "input", "messages")
ID_NAMES = ("custom_id", "task_id", "question_id", "problem_id", "id")
# Small enough that a batch of rows with 16 long chains of thought each stays under 100 MB.
BATCH_ROWS = 32
# Parquet, JSON and pickle recurse; deeper values would end in their limits.
MAX_DEPTH = 64
# How each is written and read. Such a value is an object with one key, `$rpd:NAME`. datetime is a
# date too: it is first.
_TYPES: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    datetime: (lambda at: at.isoformat(timespec="microseconds"), datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    timedelta: (lambda took: [took.days, took.seconds, took.microseconds], lambda n: timedelta(*n)),
    Decimal: (str, Decimal),
    bytes: (lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
_READ = {f"$rpd:{kind.__name__.lower()}": read for kind, (_, read) in _TYPES.items()}


@dataclass(frozen=True)
class Row:
    """One row as it was read.

    Args:
        place (`str`): The file's name or the Hub id, and the number of the line or row, from 1.
        values (`dict[str, Any]`): Column names to plain Python values.
        group (`str`): See [`~rpd_datasets.problem.Problem`].
    """

    place: str
    values: dict[str, Any]
    group: str = ""


@dataclass(frozen=True)
class Terms:
    """The licence and language that an input's card declares, by the Hub's names; and its id."""

    license: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


class DatasetRows:
    """The rows of a dataset in memory but for some columns; images and audio are not decoded."""

    part = ""
    terms = Terms()

    def __init__(self, dataset: Any, *, name: str, without: Sequence[str] = ()) -> None:
        from datasets import Dataset

        if not isinstance(dataset, Dataset):
            raise InputError(
                f"the rows are a {type(dataset).__name__}, not a datasets.Dataset: take one split "
                "of a DatasetDict, or make one with Dataset.from_list(rows)"
            )
        self.name = name
        aside = [column for column in without if column in dataset.column_names]
        self._rows = dataset.remove_columns(aside).with_format("arrow")

    def __iter__(self) -> Iterator[Row]:
        tables = self._rows.iter(batch_size=BATCH_ROWS)
        for number, values in enumerate((row for table in tables for row in table.to_pylist()), 1):
            yield Row(f"{self.name}:{number}", values)

    def fingerprint(self) -> str:
        """The sha256 over all values: that of `datasets` differs from one process to the next."""
        digest = hashlib.sha256()
        for row in self:
            digest.update(f"{encode_values(row.values)}\n".encode())
        return digest.hexdigest()


def prompts_by_id(name: str, rows: Iterable[Any]) -> dict[str, Any]:
    """The problems of rows, or of requests to OpenAI's batch API, by their ids; one at least.

    Each is the columns that it adds to a row: `prompt`, and `tools` if the request has some.
    """
    prompts: dict[str, Any] = {}
    for values in (row.values for row in rows if isinstance(row, Row)):
        body = values["body"] if isinstance(values.get("body"), dict) else values
        tools = {"tools": body["tools"]} if body.get("tools") else {}
        names = (name for name in PROMPT_NAMES if body.get(name))
        prompts |= {_id(values): {"prompt": body[name], **tools} for name in islice(names, 1)}
    prompts.pop("", None)
    if not prompts:
        raise InputError(
            f"{name} has no prompts: its rows need an id ({', '.join(ID_NAMES)}) and a problem "
            f"({', '.join(PROMPT_NAMES)}, also in a column body)."
        )
    return prompts


def readable_rows(rows: Iterable[Any], prompts: Mapping[str, Any]) -> Iterator[Any]:
    """The rows, with the prompt of their id as a column; `Rejected` for what is nested too deep."""
    for row in rows:
        if prompts and isinstance(row, Row):
            row = replace(row, values={**row.values, **prompts.get(_id(row.values), {})})
        if isinstance(row, Row) and _too_deep(row.values):
            detail = f"The row is nested more than {MAX_DEPTH} levels deep."
            row = Rejected("read", Reason.TOO_DEEP, row.place, detail)
        yield row


def _too_deep(values: Mapping[str, Any]) -> bool:
    level: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        inner = [value.values() if isinstance(value, dict) else value for value in level]
        level = [part for parts in inner for part in parts if isinstance(part, dict | list | tuple)]
    return bool(level)


def _id(values: Mapping[str, Any]) -> str:
    return next((str(values[name]) for name in ID_NAMES if values.get(name) is not None), "")


def encode_values(values: Mapping[str, Any]) -> str:
    """Column values as JSON text that `decode_values` turns back into equal values.

    Raises [`InputError`] if a column holds what cannot be written, e.g. a decoded image.
    """
    try:
        return json.dumps(values, default=_tagged)
    except TypeError as error:
        raise InputError(
            f"A row cannot be carried along: {error}. Its columns are {', '.join(values)}; remove "
            "the one that holds it from the dataset."
        ) from error


def decode_values(text: str) -> dict[str, Any]:
    """The column values that `encode_values` wrote."""
    values: dict[str, Any] = json.loads(text, object_hook=_untagged)
    return values


def _tagged(value: Any) -> dict[str, Any]:
    for kind, (write, _) in _TYPES.items():
        if isinstance(value, kind):
            return {f"$rpd:{kind.__name__.lower()}": write(value)}
    raise TypeError(f"it holds a {type(value).__name__}")


def _untagged(value: dict[str, Any]) -> Any:
    tag = next(iter(value), "")
    return _READ[tag](value[tag]) if len(value) == 1 and tag in _READ else value
