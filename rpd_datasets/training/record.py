"""The record of a run, and its checkpoints: where an interrupted run continues.

A run writes `recipe.json` with its settings before it trains. The same settings continue from the
last whole checkpoint; other settings are refused, since they would be another experiment in the
same folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rpd_datasets.publish.publishable import RECORD
from rpd_metric.errors import OutputError

# May differ when a run goes on: none of them changes what is learnt.
FREE_TO_CHANGE = {
    *("output_dir", "dry_run", "smoke", "report_to", "run_name", "disable_tqdm"),
    *("logging_steps", "save_steps", "save_total_limit", "push_to_hub", "hub_model_id"),
    *("hub_private_repo", "hub_token", "hub_revision", "hub_strategy"),
}


def last_checkpoint(output: Path) -> Path | None:
    """The newest checkpoint of a run that was written to its end.

    `trainer_state.json` is the last file of a checkpoint; one without it was being written when
    the run was killed.
    """
    whole = (state.parent for state in output.glob("checkpoint-*/trainer_state.json"))
    numbered = {one.name.removeprefix("checkpoint-"): one for one in whole}
    steps = [int(number) for number in numbered if number.isdecimal()]
    return numbered[str(max(steps))] if steps else None


def check_resumable(output: Path, settings: dict[str, Any]) -> Path | None:
    """The checkpoint that a run goes on from, if any, having made sure that it is the same run."""
    record = output / RECORD
    if not record.is_file():
        if last_checkpoint(output) is not None:
            raise OutputError(
                f"{output} holds checkpoints of a run that left no {RECORD}; choose another "
                "--output_dir"
            )
        return None
    before = json.loads(record.read_text(encoding="utf-8"))["settings"]
    now = json.loads(json.dumps(settings))
    fixed = (before.keys() | now.keys()) - FREE_TO_CHANGE
    if changed := sorted(name for name in fixed if before.get(name) != now.get(name)):
        first = changed[0]
        raise OutputError(
            f"{output} holds a run with other settings ({', '.join(changed)}; {first} was "
            f"{before.get(first, 'the default')!r} and is {now.get(first, 'the default')!r}); "
            "choose another --output_dir, or remove that folder to start over"
        )
    return last_checkpoint(output)


def record_settings(output: Path, settings: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write down what a run is, for a resumed run, for merging and for its card."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        # In their order: the card of a merged model lists them as the run counted them.
        text = json.dumps({"settings": settings, **facts}, indent=2) + "\n"
        # Another process of the same run may be reading it.
        rough = output / f"{RECORD}.partial"
        rough.write_text(text, encoding="utf-8")
        os.replace(rough, output / RECORD)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror}") from error


def read_record(folder: Path) -> dict[str, Any]:
    """What a recipe wrote down of a run; empty for models of other tools."""
    path = folder / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def base_license(model: str) -> str | None:
    """The licence that the card of a folder or of a model on the Hub names, if it names one."""
    from huggingface_hub import ModelCard
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    path = Path(model) / "README.md"
    try:
        found = ModelCard.load(path if Path(model).is_dir() else model).data.license
    except (OSError, ValueError, httpx.HTTPError):
        return None  # no card, no metadata in it, or no Hub to ask
    return found if isinstance(found, str) else None
