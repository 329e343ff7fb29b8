"""Options as fields of dataclasses, on the command line and in YAML files.

A field made with [`option`] has its help in its metadata: [`add_options`] adds such fields to a
parser, [`options_from`] makes the dataclass from parsed arguments, and [`documented`] writes its
docstring and checks names. [`read_options`] reads a YAML or JSON file strictly.
"""

import argparse
import difflib
import functools
import types
import typing
from collections.abc import Iterable
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_metric.errors import InputError

Kind = TypeVar("Kind")
# Of manifests that hold their options as a file of options does.
MANIFEST_FORMAT = 2


def option(
    default: Any = MISSING,
    help: str = "",
    *,
    factory: Any = MISSING,
    group: str | None = "",
    name: str | None = None,
    metavar: str | None = None,
    choices: Iterable[str] = (),
) -> Any:
    """A dataclass field that is an option.

    Args:
        default, factory: Its default, or a function that makes it.
        help (`str`): What it does, in a line or two.
        group (`str`, *optional*): Its group; `None` keeps it off the command line.
        name (`str`, *optional*): On the command line, if it differs from the field's.
        metavar (`str`, *optional*): Its value in `--help`.
        choices (`Iterable[str]`): Its values, if not a `Literal`. With a metavar they are listed
            only when needed.
    """
    metadata = {"help": help, "group": group, "name": name, "metavar": metavar, "choices": choices}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


# Options of curation about its models and about what it chooses, and those that are not on the
# command line.
model_option = functools.partial(option, group="models")
choice_option = functools.partial(option, group="choice")
hidden = functools.partial(option, group=None)


_DOCUMENTED: list[Any] = []


def documented(kind: type[Kind]) -> type[Kind]:
    """Write the fields' help into a dataclass's docstring, and refuse unknown names by name."""
    _DOCUMENTED.append(kind)
    make: Any = kind.__init__
    names = [option.name for option in fields(kind)]  # type: ignore[arg-type]

    @functools.wraps(make)
    def checked(self: Any, *values: Any, **options: Any) -> None:
        for name in options.keys() - names:
            (near,) = difflib.get_close_matches(name, names, n=1, cutoff=0)
            homes = [
                f"set {other.__name__}({entry.name}=...)"
                for other in _DOCUMENTED
                for entry in fields(other)
                if name in (entry.name, entry.metadata["name"])
            ]
            advice = homes[0] if homes else f"did you mean {near!r}?"
            raise InputError(f"{kind.__name__} has no option {name!r}; {advice}")
        make(self, *values, **options)

    kind.__init__ = checked  # type: ignore[method-assign]
    lines = [f"        {entry.name}: {entry.metadata['help']}." for entry in fields(kind)]  # type: ignore[arg-type]
    kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\n    Args:\n" + "\n".join(lines) + "\n"
    return kind


def _options(kind: type, group: str) -> list[Field[Any]]:
    options = [entry for entry in fields(kind) if "help" in entry.metadata]
    return [entry for entry in options if entry.metadata.get("group", "") == group]


def add_options(parser: Any, kind: type, group: str = "") -> None:
    """Add a group of a dataclass's options to a parser, or to a group of its arguments."""
    hints = typing.get_type_hints(kind)
    for entry in _options(kind, group):
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        settings = {
            "default": default,
            "help": entry.metadata["help"],
            **_argument_settings(hints[entry.name]),
        }
        settings |= {n: entry.metadata[n] for n in ("metavar", "choices") if entry.metadata.get(n)}
        if "choices" in settings and "metavar" in settings:
            settings["help"] += ". One of %(choices)s"
        name = entry.metadata.get("name") or entry.name
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)


def _argument_settings(hint: Any) -> dict[str, Any]:
    """How `argparse` takes values of a type."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is Literal:
        return {"choices": typing.get_args(hint)}
    if typing.get_origin(hint) in (tuple, list):
        return {"action": "append", "default": None}
    return {"type": hint}


def options_from(
    kind: type[Kind], args: argparse.Namespace, groups: Iterable[str] = ("",), **others: Any
) -> Kind:
    """Make a dataclass from the parsed options of these groups; `others` win."""
    values: dict[str, Any] = {}
    for entry in (entry for group in groups for entry in _options(kind, group)):
        value = getattr(args, entry.metadata.get("name") or entry.name)
        if value is not None or entry.default is None:
            values[entry.name] = tuple(value) if isinstance(value, list) else value
    return kind(**{**values, **others})


def as_options(value: Any, *groups: str) -> dict[str, Any]:
    """The inverse of [`options_from`]: values by their names on the command line."""
    return {
        entry.metadata.get("name") or entry.name: getattr(value, entry.name)
        for group in groups
        for entry in _options(type(value), group)
    }


def read_options(path: str | Path) -> dict[str, Any]:
    """Read a YAML or JSON file of options.

    Raises:
        [`InputError`]: The file cannot be read, is not YAML, or has duplicate or no names.
    """
    try:
        loaded = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Strict)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise InputError(f"{path} must hold one option a line, as in seed: 1")
    return loaded


class _Strict(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """YAML in which a duplicate name is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := [name for name in names if names.count(name) > 1]:
            message = f"duplicate name {twice[0]!r}"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping
