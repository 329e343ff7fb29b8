"""Values as JSON and back: plain data only, so that no object crosses from candidate to checker.

Joined to `candidate.py` and `checker.py` as text, before them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# Longer whole numbers are written in base 16, which takes time linear in their length.
_SHORT = 1 << 63
# Whole numbers of any length may be printed and read.
sys.set_int_max_str_digits(0)


class NotPlain(TypeError):
    """A value is not plain data."""


def encode(value: Any) -> Any:
    """A plain value in JSON's terms; subclasses count as what they extend."""
    # NumPy's numbers; an array equals nothing.
    if getattr(value, "ndim", None) == 0 and hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -_SHORT < number < _SHORT else {"int": hex(number)}
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, list):
        return [encode(item) for item in value]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    raise NotPlain(f"a value of type {type(value).__name__} is not plain data")


def decode(value: Any) -> Any:
    """The plain value that [`encode`] wrote; built of exact built-in types."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind in ("tuple", "set", "frozenset"):
        items = [decode(item) for item in held]
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)
    if kind == "dict":
        return {decode(key): decode(item) for key, item in held}
    return int(held, 16)


def to_line(value: Any) -> bytes:
    """One message."""
    return json.dumps(value).encode() + b"\n"
