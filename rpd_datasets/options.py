"""Options as fields of dataclasses: command lines and files of options are made from them.

A field made with [`option`] carries its help. [`add_options`] turns such fields into arguments of
a parser and [`options_from`] turns what was parsed back into the dataclass, so that an option is
written once. [`read_options`] reads a YAML or JSON file strictly, and [`file_arguments`] turns it
into the command line that it stands for: values from a file are checked as if they were typed.
"""

from __future__ import annotations

import argparse
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import yaml  # type: ignore[import-untyped,unused-ignore]

from rpd_metric.errors import InputError

Kind = TypeVar("Kind")


def option(
    default: Any = MISSING,
    help: str = "",
    *,
    factory: Any = MISSING,
    group: str | None = "",
    name: str | None = None,
    metavar: str | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A dataclass field that is an option.

    Args:
        default: Its default.
        help (`str`): What it does, in a line or two.
        factory (`Callable`, *optional*): Makes the default instead.
        group (`str`, *optional*): Which options of the dataclass it is added with, see
            [`add_options`]; `None` for one that is not on the command line.
        name (`str`, *optional*): On the command line, where it differs from the field's.
        metavar (`str`, *optional*): What stands for its value in `--help`.
        choices (`Sequence[str]`): Its values, where the field's type does not list them.
    """
    metadata = {
        "help": help,
        "group": group,
        "name": name,
        "metavar": metavar,
        "choices": tuple(choices),
    }
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def documented(kind: type[Kind]) -> type[Kind]:
    """Write the fields' help into a dataclass's docstring, for `help()` and for readers."""
    lines = [f"        {one.name}: {one.metadata['help']}." for one in fields(kind)]  # type: ignore[arg-type]
    kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\n    Args:\n" + "\n".join(lines) + "\n"
    return kind


def _options(kind: type, group: str) -> list[Field[Any]]:
    return [
        one
        for one in fields(kind)
        if "help" in one.metadata and one.metadata.get("group", "") == group
    ]


def add_options(
    parser: Any, kind: type, group: str = "", *, defaults: Mapping[str, Any] | None = None
) -> None:
    """Add a dataclass's options to a parser.

    Args:
        parser (`argparse.ArgumentParser` or group): Gets them.
        kind (`type`): The dataclass.
        group (`str`): Which of its options.
        defaults (`Mapping`, *optional*): Other defaults than the fields', by field.
    """
    hints = typing.get_type_hints(kind)
    for one in _options(kind, group):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        default = (defaults or {}).get(one.name, default)
        settings: dict[str, Any] = {"default": default, "help": one.metadata["help"]}
        settings |= _kind_of(hints[one.name], one)
        if one.metadata.get("metavar"):
            settings["metavar"] = one.metadata["metavar"]
        parser.add_argument(
            f"--{(one.metadata.get('name') or one.name).replace('_', '-')}", **settings
        )


def _kind_of(hint: Any, one: Field[Any]) -> dict[str, Any]:
    """How `argparse` takes values of a type."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    choices = one.metadata.get("choices") or (
        typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    )
    if typing.get_origin(hint) in (tuple, list):
        return {"action": "append", "default": None}
    return {"choices": choices} if choices else {"type": hint}


def options_from(
    kind: type[Kind], args: argparse.Namespace, groups: Iterable[str] = ("",), **others: Any
) -> Kind:
    """Make a dataclass of what was parsed.

    Args:
        kind (`type`): The dataclass.
        args (`argparse.Namespace`): The command line, with the options of these groups.
        groups (`Iterable[str]`): Which groups were added.
        others: Further fields; they win.
    """
    values: dict[str, Any] = {}
    for group in groups:
        for one in _options(kind, group):
            value = getattr(args, one.metadata.get("name") or one.name)
            if value is not None or one.default is None:
                values[one.name] = tuple(value) if isinstance(value, list) else value
    return kind(**{**values, **others})


def unknown(name: str, known: Iterable[str], where: str) -> InputError:
    """The error about an option that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"unknown key {name!r} in {where}{hint}")


def read_options(path: str | Path) -> dict[str, Any]:
    """Read a file of options: YAML, of which JSON is a part.

    Args:
        path (`str` or `Path`): One option a line, as in `num_problems: 100`.

    Returns:
        `dict`: Names to plain values.

    Raises:
        [`InputError`]: The file cannot be read, is no YAML, holds no names, or one name twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        loaded = yaml.load(text, Loader=_Strict)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise InputError(f"{path} must hold one option a line, as in seed: 1")
    return loaded


class _Strict(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """YAML in which a name that stands there twice is an error: one would be ignored in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the name {name!r} stands there twice", node.start_mark
                )
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def file_arguments(
    parser: argparse.ArgumentParser,
    values: Mapping[str, Any],
    where: str,
    given: Sequence[str],
    *,
    strict: bool = True,
) -> list[str]:
    """The command line that a file of options stands for; put what was typed behind it.

    Args:
        parser (`argparse.ArgumentParser`): Knows the options.
        values (`Mapping`): From the file, by name, `-` or `_` alike. `None` is the default.
        where (`str`): What the file is called.
        given (`Sequence[str]`): What was typed: an option that may be repeated is left to it.
        strict (`bool`): Whether a name that the parser does not know is an error.

    Raises:
        [`InputError`]: There is no such option, or its value is not of the option's kind.
    """
    actions = {action.dest: action for action in parser._actions if action.option_strings}
    line: list[str] = []
    for key, value in values.items():
        name = key.replace("-", "_")
        action = actions.get(name)
        if action is None or name in ("help", "config"):
            if not strict:
                continue
            raise unknown(key, actions.keys() - {"help", "config"}, where)
        flag = action.option_strings[0]
        typed = any(one == flag or one.startswith(f"{flag}=") for one in given)
        if value is None or (typed and not isinstance(value, bool)):
            continue
        line += _typed(action, flag, key, value, where)
    return line


def _typed(action: argparse.Action, flag: str, key: str, value: Any, where: str) -> list[str]:
    """An option as it would be typed."""
    several = isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*")
    wrong = InputError(f"{key} in {where} is {value!r}, which the option {flag} does not take")
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            raise wrong
        if isinstance(action, argparse.BooleanOptionalAction):
            return [flag if value else f"--no-{flag[2:]}"]
        return [flag] if value else []
    if isinstance(value, Mapping) and several:
        value = [f"{name}={one}" for name, one in value.items()]
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(one, (bool, dict, list)) for one in listed) or (
        len(listed) != 1 and not several
    ):
        raise wrong
    if several and action.nargs in ("+", "*"):
        return [flag, *map(str, listed)]
    return [f"{flag}={one}" for one in listed]
