"""Results of a model as the Hub reads them: the files `.eval_results/*.yaml` of its repository.

The Hub shows them on the model's page and on the board of the benchmark. The format is that of
https://huggingface.co/docs/hub/eval-results; there is no machine-readable schema of it.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from rpd_datasets.destination import whole_file
from rpd_metric.errors import InputError, OutputError, first_line

FOLDER = ".eval_results"
# Of a dataset that is a benchmark: its tasks, to which results refer.
BOARD = "eval.yaml"
BENCHMARK_DOCS = "huggingface.co/docs/hub/eval-results#benchmark-datasets"
Entry = dict[str, Any]
# The keys of each part, and the required ones.
ENTRY = {"dataset", "value", "verifyToken", "date", "source", "evaluation_framework", "notes"}
DATASET, SOURCE = {"id", "task_id", "revision"}, {"url", "name", "user", "org"}
REQUIRED = {"entry": {"dataset", "value"}, "dataset": {"id", "task_id"}, "source": {"url"}}
_TASK = re.compile(r"([\w.-]+/[\w.-]+):([\w.-]+)")


def eval_entry(task: str, value: float, notes: str, source: str | None = None) -> Entry:
    """One result.

    Args:
        task (`str`): `DATASET:TASK`, a benchmark of the Hub and a task of its `eval.yaml`.
        value (`float`): The figure, in the unit of the benchmark's board.
        notes (`str`): How it was measured.
        source (`str`, *optional*): The address of the log or a paper.
    """
    match = _TASK.fullmatch(task)
    if match is None:
        raise InputError(
            f"{{hub_task}} is {task!r}; name a benchmark of the Hub and a task of its eval.yaml, "
            "as Idavidrein/gpqa:gpqa_diamond",
            option="hub_task",
        )
    entry: Entry = {"dataset": {"id": match[1], "task_id": match[2]}, "value": value}
    return {**entry, **({"source": {"url": source}} if source else {}), "notes": notes}


def write_entry(model: Path, entry: Entry) -> Path:
    """Write a result into a model's folder, replacing an earlier one of the same task."""
    import yaml  # type: ignore[import-untyped]

    if not model.is_dir():
        raise OutputError(f"{model} is not a folder: name that of the model")
    dataset = entry["dataset"]
    name = f"{dataset['id']}-{dataset['task_id']}".replace("/", "-")
    path = model / FOLDER / f"{name}.yaml"
    with whole_file(path) as file:
        file.write(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True))
    return path


def read_entries(path: Path) -> list[Entry]:
    """The results of a file. Raises [`InputError`] where the Hub would refuse it."""
    entries = _read_yaml(path)
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} is not a list of results (huggingface.co/docs/hub/eval-results)")
    for entry in entries:
        _check(path, "entry", entry, ENTRY, {"dataset": dict, "value": float, "source": dict})
        _check(path, "dataset", entry["dataset"], DATASET)
        if "source" in entry:
            _check(path, "source", entry["source"], SOURCE)
    return entries


def check_tasks(path: Path, configs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse the `eval.yaml` of a benchmark whose tasks the Hub, or Inspect, would not find.

    `configs` are those of the dataset's card.
    """
    board = _read_yaml(path)
    tasks = board.get("tasks") if isinstance(board, dict) else None
    if not isinstance(tasks, list) or not tasks or not board.get("name"):
        raise InputError(f"{path} needs a name and a list of tasks: {BENCHMARK_DOCS}")
    known = {
        (config["config_name"], part["split"])
        for config in configs
        for part in config["data_files"]
    }
    ids = [task.get("id") if isinstance(task, dict) else None for task in tasks]
    if None in ids or len(set(ids)) < len(ids):
        raise InputError(f"{path}: every task needs an id of its own")
    for task in tasks:
        place = task.get("config", "default"), task.get("split", "test")
        if place not in known:
            raise InputError(f"{path}: the card has no config {place[0]!r} with split {place[1]!r}")


def results_text(paths: Iterable[Path]) -> str:
    """The results of a model's files, as a list for its card."""
    return "\n".join(
        f"- {entry['dataset']['id']}, {entry['dataset']['task_id']}: {entry['value']}"
        + (f" ({entry['notes']})" if entry.get("notes") else "")
        for path in paths
        for entry in read_entries(path)
    )


def _read_yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {first_line(error)}") from error


def _check(
    path: Path, part: str, values: Any, keys: set[str], kinds: Mapping[str, type] | None = None
) -> None:
    """Refuse a part of a result with an unknown key, without a needed one, or of another type."""
    if not isinstance(values, dict):
        raise InputError(f"{path}: {part} is not a set of named values")
    if unknown := sorted(map(str, values.keys() - keys)):
        raise InputError(f"{path}: {part} has the unknown key {unknown[0]!r}")
    if missing := sorted(REQUIRED[part] - values.keys()):
        raise InputError(f"{path}: {part} has no {missing[0]}")
    for name, value in values.items():
        kind: Any = (kinds or {}).get(name, str)
        allowed = {float: (int, float), str: (str, date)}.get(kind, kind)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise InputError(f"{path}: {name} is {value!r}, not a {kind.__name__}")
