"""What of a folder is published, once the folder is known to be complete.

A curated folder is checked against its own card, a model against the headers of its weights; text
and every string in Parquet is searched for secrets and local paths (`secrets.py`). Sending is
`hub.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.inputs.files import one_line
from rpd_datasets.publish.model_card import PRIVATE, is_local, public
from rpd_datasets.publish.secrets import HOME_PATHS, emails_in, find_leak, secrets_in
from rpd_metric.errors import InputError

RepoType = Literal["dataset", "model", "space"]

NEEDED = ("README.md", "manifest.json")
OPTIONAL = ("scores.jsonl", "rejects.jsonl", "report.html")
FIGURES = ("*.png", "*.svg")
SHARD = re.compile(r".+-(\d{5})-of-(\d{5})\.parquet")
MODEL_CONFIGS = ("config.json", "adapter_config.json")
# What a recipe writes beside its weights: the options that made them.
RECORD = "recipe.json"
# Weights and what is needed to load them; a run's checkpoints, optimizer and pickled arguments
# stay here.
MODEL_FILES = (
    "*.safetensors",
    "*.json",
    "*.jinja",
    "*.txt",
    "*.model",
    "*.md",
    ".eval_results/*.yaml",
    *FIGURES,
)
# What an earlier push may have left and this one does not have; nothing else is ever deleted.
REPLACED: Mapping[RepoType, tuple[str, ...]] = {
    "dataset": ("data/*.parquet", "sft/*.parquet", "figures/*", "report-figures/*", *OPTIONAL),
    "model": ("model*.safetensors*", "adapter_model*.safetensors*"),
}
WITH_TEXT = (".md", ".json", ".jsonl", ".txt", ".py", ".svg", ".yaml", ".yml")
# Vocabularies hold every scrap of text there is.
VOCABULARIES = ("tokenizer*.json", "vocab*", "merges.txt")


@dataclass(frozen=True)
class Publishable:
    """A complete folder.

    Args:
        repo_type (`"dataset"` or `"model"`): What it is.
        files (`dict[str, Path]`): What is published of it, by name.
    """

    repo_type: RepoType
    files: dict[str, Path]


def publishable(folder: Path) -> Publishable:
    """What a folder is, and its files that are published.

    Args:
        folder (`Path`): Made by `rpd curate`, or a model or adapter made by one of the recipes.

    Returns:
        [`Publishable`]: Its kind and files.

    Raises:
        InputError: If the folder is neither, or not complete.
    """
    if folder.with_name(f"{folder.name}.partial").is_dir() and not folder.is_dir():
        raise InputError(f"{folder} is not finished: run the same rpd curate again, it goes on")
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name one that rpd curate or a recipe made")
    if any((folder / name).is_file() for name in MODEL_CONFIGS):
        return Publishable("model", model_files(folder))
    return Publishable("dataset", curated_files(folder))


def curated_files(folder: Path) -> dict[str, Path]:
    """The files of a complete curated folder that are published, by their names in it.

    Raises:
        InputError: If a file or shard is missing, or rows are not as many as the card says.
    """
    from huggingface_hub import DatasetCard
    from yaml import YAMLError  # type: ignore[import-untyped]

    for name in NEEDED:
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} is not complete: it has no {name}. Run rpd curate to its end first"
            )
    try:
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        data = DatasetCard.load(folder / "README.md").data.to_dict()
    except (ValueError, YAMLError) as error:
        raise InputError(f"{folder} is damaged: {one_line(error)}. Make it again") from error
    if "dataset_info" not in data or "configs" not in data:
        raise InputError(
            f"{folder}/README.md has no dataset_info or no configs in its metadata: it is not the "
            "card that rpd curate wrote. Put that one back"
        )
    infos = {info["config_name"]: info for info in data["dataset_info"]}
    files = {name: folder / name for name in (*NEEDED, *OPTIONAL) if (folder / name).is_file()}
    for config in data["configs"]:
        name = config["config_name"]
        rows = sum(split["num_examples"] for split in infos[name]["splits"])
        shards: list[Path] = []
        for split in config["data_files"]:
            shards += _shards(folder, split["path"])
        found = sum(_num_rows(shard) for shard in shards)
        if found != rows:
            raise InputError(
                f"{folder} is not complete: the card says {rows} rows for {name!r}, its shards "
                f"hold {found}. Run rpd curate again"
            )
        files.update((shard.relative_to(folder).as_posix(), shard) for shard in shards)
    for pattern in FIGURES:
        files.update((path.relative_to(folder).as_posix(), path) for path in folder.rglob(pattern))
    return dict(sorted(files.items()))


def model_files(folder: Path) -> dict[str, Path]:
    """The files of a model or adapter that are published, by their names in it.

    Raises:
        InputError: If the card or weights are missing or cut off, or nobody else has the base.
    """
    if not (folder / "README.md").is_file():
        raise InputError(f"{folder} is not complete: it has no README.md, the model's card")
    check_base(folder)
    files = {
        path.relative_to(folder).as_posix(): path
        for pattern in MODEL_FILES
        for path in folder.glob(pattern)
    }
    weights = {name for name in files if name.endswith(".safetensors")}
    index = files.get("model.safetensors.index.json")
    try:
        wanted = set(json.loads(index.read_text())["weight_map"].values()) if index else set()
    except (ValueError, KeyError) as error:
        raise InputError(f"{index} is damaged: {one_line(error)}. Save the model again") from error
    if missing := sorted(wanted - weights):
        raise InputError(f"{folder} is not complete: it has no {missing[0]}. Save the model again")
    if not weights:
        raise InputError(f"{folder} is not complete: it has no *.safetensors. Train it to its end")
    for name in sorted(weights):
        if not _whole(folder / name):
            raise InputError(f"{folder / name} is cut off or damaged: save the model again")
    return dict(sorted(files.items()))


def check_base(folder: Path) -> None:
    """Refuse an adapter that nobody else could load.

    Raises:
        InputError: If its base model is a folder of this machine.
    """
    path = folder / "adapter_config.json"
    if path.is_file():
        base = _read_json(path).get("base_model_name_or_path") or ""
        if is_local(base):
            raise InputError(
                f"{folder} is an adapter of {base}, a folder of this machine, so that nobody else "
                "could load it: merge it (recipes/merge.py) and publish the merged model"
            )


def public_record(path: Path) -> bytes:
    """A recipe's record without what is nobody's business: folders, tokens, where it was watched.

    Args:
        path (`Path`): The file that a recipe leaves beside a model.

    Raises:
        InputError: If it is damaged.
    """
    record = _read_json(path)
    settings = record.get("settings", {})
    record["settings"] = {name: value for name, value in settings.items() if name not in PRIVATE}
    if "data" in settings:
        record["settings"]["data"] = [public(spec) for spec in settings["data"]]
    return (json.dumps(record, indent=2) + "\n").encode()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {one_line(error)}. Save the model again") from error
    return content


def check_text(files: Mapping[str, Path | bytes], *, allowed: Sequence[str] = ()) -> None:
    """Refuse files with a secret or a path of this machine in their text.

    Args:
        files (`Mapping[str, Path | bytes]`): Files, or their contents, by name.
        allowed (`Sequence[str]`): Providers whose tokens are let through, by name.

    Raises:
        InputError: Naming the first file and line.
    """
    for name, path in files.items():
        if not name.endswith(WITH_TEXT) or any(fnmatch(name, one) for one in VOCABULARIES):
            continue
        with path.open("rb") if isinstance(path, Path) else BytesIO(path) as raw:
            lines = TextIOWrapper(raw, encoding="utf-8", errors="replace")
            leak = find_leak(lines, home=Path.home(), allowed=allowed)
        if leak is not None:
            what = f"{leak.name}, {leak.excerpt}" if leak.name else leak.excerpt
            override = f", or if it is none, --allow-secret {leak.name!r}" if leak.name else ""
            raise InputError(
                f"{name}, line {leak.line}, holds {leak.kind} ({what}), so nothing was "
                f"sent. Take it out, or leave the file out (--exclude {name}){override}"
            )


def check_rows(files: Mapping[str, Path | bytes], *, allowed: Sequence[str] = ()) -> list[str]:
    """Look through every text in Parquet files: problems, solutions, steps, carried columns.

    Args:
        files (`Mapping[str, Path | bytes]`): Files by name; others than Parquet are passed over.
        allowed (`Sequence[str]`): Providers whose tokens are let through, by name.

    Returns:
        `list[str]`: Warnings, a line each: e-mail addresses and home folders, with their rows.

    Raises:
        InputError: If there is a token, naming the rows.
    """
    tokens: dict[tuple[str, str, str], list[int]] = {}
    doubts: dict[tuple[str, str], list[int]] = {}
    for name, path in files.items():
        if not name.endswith(".parquet") or not isinstance(path, Path):
            continue
        for number, column, text in _texts(path):
            for provider, _ in secrets_in(text):
                if provider not in allowed:
                    tokens.setdefault((name, column, provider), []).append(number)
            if emails_in(text):
                doubts.setdefault((f"{name}, column {column}", "e-mail addresses"), []).append(
                    number
                )
            if HOME_PATHS.search(text):
                doubts.setdefault((f"{name}, column {column}", "home folders"), []).append(number)
    if tokens:
        (name, column, provider), rows = next(iter(tokens.items()))
        others = len(tokens) - 1
        more = f"; {others} more kinds or columns" if others else ""
        raise InputError(
            f"{name} holds a secret ({provider}) in column {column}, {_rows(rows)}{more}, so "
            f"nothing was sent. Take it out of the input and curate again, or if it is none, "
            f"--allow-secret {provider!r}"
        )
    return [f"{where}: {what} in {_rows(rows)}" for (where, what), rows in doubts.items()]


def _rows(numbers: Sequence[int]) -> str:
    once = list(dict.fromkeys(numbers))
    named = ", ".join(map(str, once[:5])) + (", ..." if len(once) > 5 else "")
    return f"row {named}" if len(once) == 1 else f"{len(once):,} rows ({named})"


def _texts(path: Path) -> Iterator[tuple[int, str, str]]:
    """Row (from 0), column and text, for every string however deep it lies."""
    import pyarrow.parquet as pq

    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            for name, inner in value.items():
                yield str(name)
                yield from strings(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from strings(inner)

    number = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=64):
            for row in batch.to_pylist():
                for column, value in row.items():
                    if texts := list(strings(value)):
                        yield number, column, "\n".join(texts)
                number += 1


def _shards(folder: Path, pattern: str) -> list[Path]:
    """The shards of one split, none of them missing."""
    shards = sorted(folder.glob(pattern))
    places = [SHARD.fullmatch(shard.name) for shard in shards]
    if not shards:
        raise InputError(f"{folder} is not complete: there is no {pattern}. Run rpd curate again")
    numbers = [(int(place[1]), int(place[2])) for place in places if place]
    if numbers != [(index, len(shards)) for index in range(len(shards))]:
        names = ", ".join(shard.name for shard in shards[:3])
        raise InputError(
            f"{folder} is not complete: its shards are {names}{', ...' * (len(shards) > 3)}; "
            "some are missing or left over. Run rpd curate again"
        )
    return shards


def _num_rows(shard: Path) -> int:
    import pyarrow.parquet as pq
    from pyarrow.lib import ArrowInvalid

    try:
        return int(pq.read_metadata(shard).num_rows)
    except ArrowInvalid as error:
        raise InputError(f"{shard} is damaged: {one_line(error)}. Run rpd curate again") from error


def _whole(weights: Path) -> bool:
    """Whether a safetensors file is as long as its header says."""
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = weights.stat().st_size
        if not 0 < length <= size - 8:
            return False
        try:
            header = json.loads(file.read(length))
        except ValueError:
            return False
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return size == 8 + length + max(ends, default=0)
