"""`--config FILE`: a command's options out of a YAML file, or out of the manifest of a run.

A YAML file holds the names that the command line has, one a line; a name that the command lacks is
an error. A `manifest.json` repeats the run that wrote it. Options typed beside either win.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.options import file_arguments, read_options
from rpd_metric.errors import InputError

COMMIT = re.compile(r"[0-9a-f]{40}")
# Models that are the same wherever they are named.
REPEATABLE = re.compile(r"extractive|minilm|st:.+")


def with_config(parser: argparse.ArgumentParser, given: Sequence[str]) -> list[str]:
    """What was typed, behind what stands in the file that `--config` names.

    Args:
        parser (`argparse.ArgumentParser`): The command's. Arguments without a flag take their
            value from the file where none is typed.
        given (`Sequence[str]`): What was typed behind the command's name.

    Raises:
        [`InputError`]: The file cannot be read, or holds what the command does not take.
    """
    path = _named(given)
    if path is None:
        return list(given)
    values = read_options(path)
    is_manifest = {"format", "options", "input"} <= values.keys()
    if is_manifest:
        values = manifest_options(values, str(path))
        _check_models(parser, values, given, str(path))
    for action in parser._actions:
        if not action.option_strings and action.dest in values:
            default = values.pop(action.dest)
            if not isinstance(default, str):
                raise InputError(f"{action.dest} in {path} is {default!r}; it must be text")
            action.default = action.type(default) if callable(action.type) else default
            action.nargs, action.required = "?", False
    return [*file_arguments(parser, values, str(path), given, strict=not is_manifest), *given]


def _check_models(
    parser: argparse.ArgumentParser, values: Mapping[str, Any], given: Sequence[str], where: str
) -> None:
    """A manifest holds the name of a server's model, not its address: that must be typed."""
    flags = {flag for action in parser._actions for flag in action.option_strings}
    for role in ("summarizer", "embedder"):
        flag, name = f"--{role}", values[role]
        typed = any(one.partition("=")[0] == flag for one in given)
        if flag in flags and not typed and not REPEATABLE.fullmatch(name):
            raise InputError(
                f"{where} was made with the {role} {name}, and does not say where that is served: "
                f"name it with {flag}"
            )


def _named(given: Sequence[str]) -> Path | None:
    for place, argument in enumerate(given):
        flag, equals, value = argument.partition("=")
        if flag == "--config":
            if not equals and place + 1 == len(given):
                raise InputError("--config needs a file, e.g. --config options.yaml")
            return Path(value if equals else given[place + 1])
    return None


def manifest_options(manifest: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The options that repeat a run, by their names on the command line.

    Servers and folders are left out of manifests: where one made the steps or the embeddings, it
    must be named again.

    Args:
        manifest (`Mapping`): The content of a `manifest.json`.
        where (`str`): What it is called, for errors.
    """
    try:
        options, source = dict(manifest["options"]), dict(manifest["input"])
        values = {**options, **options.pop("filters"), **options.pop("sampling")}
        for name in ("filters", "sampling", "problem_column", "solutions_column"):
            values.pop(name, None)
        values |= {f"{role}_column": name for role, name in source["columns"].items()}
        for name in ("layout", "split", "config_name", "revision", "exactly", "limit", "only"):
            values[name] = source[name]
        values["input"] = source["name"]
        if values["revision"] is None and COMMIT.fullmatch(source["fingerprint"]):
            values["revision"] = source["fingerprint"]
        mixed = manifest["mixed_in"]
        values["mix"] = [f"{one['name']}:{one['problems_wanted']}" for one in mixed] or None
        values["mix_only"] = dict(mixed[0]["only"]) if mixed else None
        decontaminated = manifest.get("decontaminated") or {"by": []}
        values["decontaminate"] = [one["name"] for one in decontaminated["by"]] or None
        values |= {"preset": manifest["preset"], "tokenizer": manifest["tokenizer"]["name"]}
        values["seed"] = options["seed"]  # there is one of sampling, too
        for role in ("summarizer", "embedder"):
            values[role] = manifest[role]["name"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where} is no manifest of rpd curate: {error} is missing") from error
    return values
