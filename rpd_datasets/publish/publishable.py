"""The files of a folder to publish: a curated folder or a model, which must be complete."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.publish.eval_results import BOARD, FOLDER, check_tasks, read_entries
from rpd_datasets.publish.model_card import PRIVATE, is_local, public
from rpd_metric.errors import InputError, first_line

RepoType = Literal["dataset", "model", "space"]

NEEDED = ("README.md", "manifest.json")
OPTIONAL = ("scores.jsonl", "rejects.jsonl", "report.html")
# What a benchmark of the Hub has beside its data.
BENCHMARK = ("LICENSE", "board.json", "croissant.json", "load.py")
FIGURES = ("*.png", "*.svg")
ADAPTER_CONFIG = "adapter_config.json"
# What a recipe writes beside its weights: the options that made them.
RECORD = "recipe.json"
# Weights and what is needed to load them; a run's checkpoints, optimizer and pickled arguments
# stay here.
MODEL_FILES = (
    *("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.md", f"{FOLDER}/*.yaml"),
    *FIGURES,
)
# What an earlier push may have left and this one does not have; nothing else is ever deleted.
REPLACED: Mapping[RepoType, tuple[str, ...]] = {
    "dataset": ("data/*.parquet", "sft/*.parquet", "figures/*", "report-figures/*", *OPTIONAL),
    "model": ("model*.safetensors*", "adapter_model*.safetensors*"),
}


def publishable(folder: Path) -> tuple[RepoType, dict[str, Path]]:
    """The kind of a folder that `rpd curate` or a recipe made, and its files to publish."""
    if not folder.is_dir() and folder.with_name(f"{folder.name}.partial").is_dir():
        raise InputError(f"{folder} is not finished: run the same rpd curate again to continue")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name one that rpd curate or a recipe made")
    if any((folder / name).is_file() for name in ("config.json", ADAPTER_CONFIG)):
        return "model", model_files(folder)
    return "dataset", curated_files(folder)


def curated_files(folder: Path) -> dict[str, Path]:
    """The files of a complete curated folder, whose shards hold the rows of its card."""
    from huggingface_hub import DatasetCard
    from yaml import YAMLError  # type: ignore[import-untyped]

    for name in NEEDED:
        if not (folder / name).is_file():
            raise InputError(f"{folder} is not complete: it has no {name}. Run rpd curate again")
    try:
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        data = DatasetCard.load(folder / "README.md").data.to_dict()
    except (ValueError, YAMLError) as error:
        raise InputError(f"{folder} is damaged: {first_line(error)}. Make it again") from error
    if "dataset_info" not in data or "configs" not in data:
        raise InputError(
            f"{folder}/README.md lacks dataset_info or configs in its metadata: it is not the card "
            "that rpd curate wrote. Restore that card"
        )
    infos = {info["config_name"]: info for info in data["dataset_info"]}
    names = (*NEEDED, *OPTIONAL, *BENCHMARK, BOARD)
    paths = [folder / name for name in names if (folder / name).is_file()]
    if folder / BOARD in paths:
        check_tasks(folder / BOARD, data["configs"])
    for config in data["configs"]:
        name = config["config_name"]
        expected = sum(split["num_examples"] for split in infos[name]["splits"])
        patterns = [split["path"] for split in config["data_files"]]
        shards = [path for pattern in patterns for path in folder.glob(pattern)]
        rows = sum(map(_num_rows, shards))
        if rows != expected:
            raise InputError(
                f"{folder} is not complete: the card says {expected} rows for {name!r}, "
                f"{', '.join(patterns)} hold {rows}. Run rpd curate again"
            )
        paths += shards
    paths += [path for pattern in FIGURES for path in folder.rglob(pattern)]
    return _by_name(folder, paths)


def model_files(folder: Path) -> dict[str, Path]:
    """The files of a complete model, or of an adapter whose base others can load."""
    if not (folder / "README.md").is_file():
        raise InputError(f"{folder} is not complete: it has no README.md, the model's card")
    if (folder / ADAPTER_CONFIG).is_file():
        base = _read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path") or ""
        if is_local(base):
            raise InputError(
                f"{folder} is an adapter of {base}, a local folder that others lack: merge it "
                "(recipes/merge.py) and publish the merged model"
            )
    files = _by_name(folder, [path for pattern in MODEL_FILES for path in folder.glob(pattern)])
    for name, path in files.items():
        if name.startswith(f"{FOLDER}/"):
            read_entries(path)
    weights = [name for name in files if name.endswith(".safetensors")]
    expected: dict[str, str] = {} if weights else {"": "*.safetensors"}
    if index := files.get("model.safetensors.index.json"):
        expected = _read_json(index).get("weight_map", {})
        if not expected:
            raise InputError(f"{index} is damaged: it has no weight_map. Save the model again")
    if missing := sorted(set(expected.values()) - set(weights)):
        raise InputError(f"{folder} is not complete: it has no {missing[0]}. Save the model again")
    for name in weights:
        if not _whole(folder / name):
            raise InputError(f"{folder / name} is cut off or damaged: save the model again")
    return files


def public_record(path: Path) -> bytes:
    """A recipe's record without local folders and logging options."""
    record = _read_json(path)
    settings = record.get("settings", {})
    record["settings"] = {name: value for name, value in settings.items() if name not in PRIVATE}
    if "data" in settings:
        record["settings"]["data"] = [public(spec) for spec in settings["data"]]
    return (json.dumps(record, indent=2) + "\n").encode()


def _by_name(folder: Path, paths: list[Path]) -> dict[str, Path]:
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in paths))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}. Save the model again") from error


def _num_rows(shard: Path) -> int:
    import pyarrow.parquet as pq
    from pyarrow.lib import ArrowInvalid

    try:
        return int(pq.read_metadata(shard).num_rows)
    except ArrowInvalid as error:
        message = f"{shard} is damaged: {first_line(error)}. Run rpd curate again"
        raise InputError(message) from error


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
