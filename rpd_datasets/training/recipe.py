"""A training recipe: a YAML file on top of its base, parsed without tolerance.

    base: base.yaml            # merged first; this file's keys win
    data: [data/rpd_1p3s]
    output_dir: runs/rpd_1p3s

A recipe names the fields of the dataclasses a script takes (TRL's configuration classes and the
script's own), and the command line may override each. A name that none of them has stops the
run with the nearest one that exists: training libraries drop and rename options, and an option
that is ignored in silence is a wrong experiment. Not here: what the options do.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from rpd_datasets.options import read_options
from rpd_metric.errors import InputError, MissingExtraError

# What older recipes called options that exist under another name, or not at all.
RENAMED = {
    "max_seq_length": "max_length",
    "warmup_ratio": "warmup_steps (a fraction is allowed)",
    "torch_dtype": "dtype",
    "max_prompt_length": "max_prompt_tokens",
    "dataset_name": "data",
    "evaluation_strategy": "eval_strategy",
    "pad_token_id": "padding_token",
    "prompt_suffix": "prompt (a name, or a text with {problem})",
}


@dataclass(frozen=True)
class Recipe:
    """A parsed recipe.

    Args:
        parts (`tuple`): One instance of each dataclass that was asked for, in that order.
        settings (`dict`): Every option that the recipe names or that differs from its default,
            as plain values.
    """

    parts: tuple[Any, ...]
    settings: dict[str, Any]


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a YAML file and everything it is based on.

    Args:
        path (`Path`): The file. Its `base`, if it has one, is found relative to it.

    Returns:
        `dict`: The options, those of a file before those of its base.

    Raises:
        [`InputError`]: A file is missing, no mapping, its own base, or names an option twice.
    """
    options: dict[str, Any] = {}
    chain: list[Path] = []
    current: Path | None = path
    while current is not None:
        if current.resolve() in chain:
            raise InputError(f"{current} is its own base; remove one of the base: lines")
        chain.append(current.resolve())
        loaded = read_options(current)
        base = loaded.pop("base", None)
        options = {**loaded, **options}
        current = current.parent / base if base is not None else None
    return options


def parse_recipe(kinds: Sequence[type], arguments: Sequence[str], *, prog: str) -> Recipe:
    """Parse `--config FILE` and options into dataclasses, strictly.

    Args:
        kinds (`Sequence[type]`): The dataclasses whose fields are the options. One of them may
            have `effective_batch_size`: the steps of gradient accumulation then follow from it,
            the batch of one device and the number of processes.
        arguments (`Sequence[str]`): The command line, without the program.
        prog (`str`): The program's name, for `--help`.

    Returns:
        [`Recipe`]

    Raises:
        [`InputError`]: An option does not exist, or its value is of the wrong kind.
        [`MissingExtraError`]: TRL is not installed.
    """
    parser = _parser(kinds, prog)
    known = {action.dest for action in parser._actions if action.dest != "help"}
    given = list(arguments)
    options: dict[str, Any] = {}
    for place, argument in enumerate(given):
        flag, separator, value = argument.partition("=")
        if flag == "--config":
            end = place + (1 if separator else 2)
            if not separator:
                if end > len(given):
                    raise InputError("--config needs a file, e.g. --config recipe.yaml")
                value = given[place + 1]
            options = read_recipe(Path(value))
            del given[place:end]
            for name in options:
                if name not in known:
                    raise InputError(f"{value}: {_unknown(name, known)}")
            break
    line = _as_arguments(options) + given
    # None cannot be written on a command line; as a default it can.
    parser.set_defaults(**{name: None for name, value in options.items() if value is None})
    chosen = vars(parser.parse_args(line))
    if (effective := chosen.get("effective_batch_size")) is not None:
        steps = accumulation_steps(
            effective,
            per_device=chosen["per_device_train_batch_size"],
            processes=int(os.environ.get("WORLD_SIZE", "1")),
        )
        line += ["--gradient_accumulation_steps", str(steps)]
        chosen = vars(parser.parse_args(line))
    if chosen.get("dry_run"):
        # What asks for bfloat16 on a GPU can be looked at where there is none.
        line += ["--use_cpu", "true"]
    try:
        parts = tuple(parser.parse_args_into_dataclasses(args=line))
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from error
    defaults = vars(_parser(kinds, prog).parse_args([]))
    settings = {
        name: value
        for name, value in sorted(chosen.items())
        if name in options or value != defaults[name]
    }
    return Recipe(parts, settings)


def accumulation_steps(effective: int, *, per_device: int, processes: int) -> int:
    """The gradient accumulation that makes a batch of `effective` samples.

    Raises:
        [`InputError`]: There is none.

    Example:

    ```py
    >>> from rpd_datasets.training.recipe import accumulation_steps
    >>> accumulation_steps(16, per_device=2, processes=4)
    2

    ```
    """
    at_once = per_device * processes
    if effective < 1 or effective % at_once:
        raise InputError(
            f"effective_batch_size {effective} cannot be made of {processes} process(es) x "
            f"per_device_train_batch_size {per_device}; change one so that it divides"
        )
    return effective // at_once


def _parser(kinds: Sequence[type], prog: str) -> Any:
    try:
        from trl.scripts.utils import TrlParser
    except ImportError as error:
        raise MissingExtraError("training", extra="training", module="trl") from error

    class Strict(TrlParser):
        def error(self, message: str) -> NoReturn:
            if match := re.match(r"unrecognized arguments: --([^\s=]+)", message):
                known = {action.dest for action in self._actions}
                message = _unknown(match[1].replace("-", "_"), known)
            raise InputError(message)

    parser = Strict(cast(Any, list(kinds)), prog=prog, allow_abbrev=False)
    parser.description = (
        "A recipe holds options, one per line; an option on the command line wins. --dry_run "
        "shows settings, steps and memory and trains nothing. The same command goes on where an "
        f"interrupted run stopped. Example: accelerate launch {prog} --config "
        f"recipes/configs/qwen3-4b-base/{Path(prog).stem}/rpd_1p3s.yaml --dry_run. See "
        "recipes/README.md."
    )
    parser.usage = f"{prog} --config RECIPE.yaml [--OPTION VALUE ...]"
    return parser


def _unknown(name: str, known: set[str]) -> str:
    if name in RENAMED:
        return f"there is no option {name!r} any more; use {RENAMED[name]}"
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"there is no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _as_arguments(options: dict[str, Any]) -> list[str]:
    """As on a command line, so that values from a file are checked in the same way."""
    line: list[str] = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, list):
            line += [f"--{name}", *map(str, value)]
        elif isinstance(value, dict):
            line += [f"--{name}", json.dumps(value)]
        else:
            line.append(f"--{name}={value}")
    return line
