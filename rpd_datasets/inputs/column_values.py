"""Column values as JSON text and back, with what Parquet has and JSON lacks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rpd_metric.errors import InputError

# Such a value is an object with one key, `$rpd:NAME`. datetime is a date too: it is first.
_TYPES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "datetime": (
        datetime,
        lambda at: at.isoformat(timespec="microseconds"),
        datetime.fromisoformat,
    ),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda took: [took.days, took.seconds, took.microseconds],
        lambda parts: timedelta(*parts),
    ),
    "decimal": (Decimal, str, Decimal),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
_READ = {f"$rpd:{name}": read for name, (_, _, read) in _TYPES.items()}


def encode_values(values: Mapping[str, Any]) -> str:
    """Column values as JSON text that `decode_values` turns back into equal values.

    Raises:
        InputError: If a column holds what cannot be written, e.g. a decoded image.
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
    for name, (kind, write, _) in _TYPES.items():
        if isinstance(value, kind):
            return {f"$rpd:{name}": write(value)}
    raise TypeError(f"it holds a {type(value).__name__}")


def _untagged(value: dict[str, Any]) -> Any:
    tag = next(iter(value), "")
    return _READ[tag](value[tag]) if len(value) == 1 and tag in _READ else value
