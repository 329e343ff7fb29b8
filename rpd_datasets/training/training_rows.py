"""Training rows: loaded from a curated dataset, given a prompt, and some held out.

The rows are TRL's conversational prompt-completion rows, which `rpd curate` writes. How they
become tokens is in `token_rows.py`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.hub_rows import HubRows
from rpd_datasets.inputs.local_files import file_kind
from rpd_datasets.instructions import MARK, fill_prompt, prompt_template
from rpd_metric.errors import InputError, first_line


def load_rows(
    specs: Sequence[str],
    *,
    config: str = "sft",
    split: str = "train",
    num_samples: int | None = None,
) -> tuple[Any, list[str]]:
    """Load prompt-completion rows, one source after the other.

    Args:
        specs (`Sequence[str]`): Folders that `rpd curate` made, JSONL or Parquet files, or Hub
            ids. What exists on disk is never looked for on the Hub.
        config (`str`): The configuration of a folder or a Hub dataset.
        split (`str`): The split.
        num_samples (`int`, *optional*): How many rows there must be.

    Returns:
        `tuple`: A `datasets.Dataset` with the columns `prompt` and `completion`, each a list of
            messages, and the sources, those of the Hub as `id@commit`, which give the same rows
            again whatever becomes of the branch.
    """
    import datasets

    loaded = [_load(spec, config, split) for spec in specs]
    rows = datasets.concatenate_datasets([rows for rows, _ in loaded])
    if num_samples is not None and len(rows) != num_samples:
        raise InputError(
            f"the recipe is for {num_samples} samples and {', '.join(specs)} holds "
            f"{len(rows)}; use the data it is for, or pass --num_samples {len(rows)}"
        )
    return rows, [source for _, source in loaded]


def without_contaminated(
    rows: Any, contamination: Contamination | None, say: Callable[[str], None]
) -> tuple[Any, int]:
    """The rows whose problem stands in no benchmark, and how many do; these are named."""
    if contamination is None:
        return rows, 0
    kept = []
    for number, prompt in enumerate(rows["prompt"]):
        asked = "\n".join(str(one["content"]) for one in prompt if one["role"] == "user")
        if match := contamination.find(asked):
            say(f"left out row {number}: {match.detail}")
        else:
            kept.append(number)
    if not kept:
        raise InputError(
            f"all {len(rows)} rows stand in {', '.join(contamination.sizes)}: train on other "
            "problems, or set decontaminate to none"
        )
    return (rows if len(kept) == len(rows) else rows.select(kept)), len(rows) - len(kept)


def with_prompt(rows: Any, prompt: str) -> Any:
    """Put a prompt of `instructions.py` around the last user message of each row."""
    template = prompt_template(prompt)
    if template == MARK:
        return rows

    def fill(row: dict[str, Any]) -> dict[str, Any]:
        *before, last = row["prompt"]
        return {"prompt": [*before, {**last, "content": fill_prompt(template, last["content"])}]}

    return rows.map(fill, keep_in_memory=True, load_from_cache_file=False, desc="Prompts")


def split_by_problem(rows: Any, share: float, *, seed: int) -> tuple[Any, Any]:
    """Hold out a share of the problems, each with all of its solutions.

    Returns:
        `tuple`: The rows to train on, of one problem at least, and those held out.
    """
    if not 0 < share < 1:
        raise InputError(f"validation is {share}; use a share between 0 and 1, e.g. 0.02")
    keys = [json.dumps(prompt, sort_keys=True) for prompt in rows["prompt"]]
    problems = sorted(set(keys))
    if len(problems) < 2:
        raise InputError("validation needs two problems or more; leave it out")
    number = min(len(problems) - 1, math.ceil(share * len(problems)))
    held = set(random.Random(seed).sample(problems, number))
    places: dict[bool, list[int]] = {False: [], True: []}
    for place, key in enumerate(keys):
        places[key in held].append(place)
    return rows.select(places[False]), rows.select(places[True])


def _load(spec: str, config: str, split: str) -> tuple[Any, str]:
    import datasets

    path = Path(spec).expanduser()
    pinned = spec
    try:
        if path.is_file():
            kind = file_kind(path)
            if kind not in ("jsonl", "json", "parquet"):
                raise InputError(f"{spec} is not a JSONL, JSON or Parquet file")
            loader = "parquet" if kind == "parquet" else "json"
            rows = datasets.load_dataset(loader, data_files=str(path), split="train")
        elif path.is_dir():
            rows = datasets.load_dataset(str(path), config, split=split)
        elif spec.count("/") <= 1:
            name, _, revision = spec.partition("@")
            source = HubRows(
                name, config=config, split=split, revision=revision or None, streaming=False
            )
            rows, pinned = source.dataset, f"{name}@{source.fingerprint()}"
        else:
            raise InputError(f"there is no file or folder {spec}, and it is no Hub id (owner/name)")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"cannot load training rows from {spec} (configuration {config!r}, split {split!r}): "
            f"{first_line(error)}. A folder that `rpd curate` made is what is expected"
        ) from error
    if not len(rows):
        raise InputError(f"{spec} holds no rows")
    for column in ("prompt", "completion"):
        first = rows[0].get(column)
        if not isinstance(first, list) or not first or not isinstance(first[0], dict):
            raise InputError(
                f"{spec} has no column {column!r} with a list of messages, only "
                f"{', '.join(rows.column_names)}; make training rows with `rpd curate` or "
                "rpd_datasets.to_sft"
            )
    return rows.select_columns(["prompt", "completion"]), pinned
