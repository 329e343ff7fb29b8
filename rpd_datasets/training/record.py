"""The record of a run, and its checkpoints: where an interrupted run continues.

A run writes `recipe.json` with its settings before it trains. The same model, data, seed, schedule
and effective batch continue from the last complete checkpoint; anything else is refused. How a
batch is split over devices, and where curves go, may change.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.destination import whole_file
from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.publish.publishable import RECORD
from rpd_metric.errors import OutputError

PARTIAL = f"{RECORD}.partial"
# May differ when a run continues: none of them changes what is learnt. The first are factors of a
# batch whose product is compared.
FREE_TO_CHANGE = {
    *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"),
    *("activation_checkpointing", "attn_implementation"),
    *("dataloader_num_workers", "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode"),
    *("output_dir", "dry_run", "smoke", "report_to", "project", "trackio_space_id", "run_name"),
    *("logging_steps", "log_completions", "num_completions_to_print", "disable_tqdm"),
    *("save_steps", "save_total_limit", "seconds_per_step"),
    *("measure_every", "measure_samples", "measure_tokens"),
}


def last_checkpoint(output: Path) -> Path | None:
    """The newest complete checkpoint: `trainer_state.json` is its last file."""
    whole = (state.parent for state in output.glob("checkpoint-*/trainer_state.json"))
    numbered = {folder.name.removeprefix("checkpoint-"): folder for folder in whole}
    steps = [int(number) for number in numbered if number.isdecimal()]
    return numbered[str(max(steps))] if steps else None


def check_resumable(
    output: Path, settings: dict[str, Any], say: Callable[[str], None]
) -> Path | None:
    """The checkpoint to resume from, if any; a run with other settings is refused."""
    record = output / RECORD
    if not record.is_file():
        return None
    before = json.loads(record.read_text(encoding="utf-8"))["settings"]
    now = json.loads(json.dumps(settings))
    changed = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
    was, is_ = ({n: values.get(n, "the default") for n in changed} for values in (before, now))
    changes = {name: f"{name} was {was[name]!r} and is {is_[name]!r}" for name in changed}
    if fixed := [name for name in changed if name not in FREE_TO_CHANGE]:
        raise OutputError(
            f"{output} holds a run with other settings ({', '.join(fixed)}; {changes[fixed[0]]}); "
            "choose another --output_dir, or remove that folder to start over"
        )
    if checkpoint := last_checkpoint(output):
        say("; ".join([f"continuing from {checkpoint}", *changes.values()]))
    return checkpoint


def run_names(output: Path) -> Sequence[str] | None:
    """Any name where a run left its record: it only adds to its folder, and so may others."""
    return ("*",) if any((output / name).is_file() for name in (RECORD, PARTIAL)) else None


def record_settings(output: Path, settings: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write down what a run is, for a resumed run, for merging and for its card."""
    # Another process of the same run may be reading it.
    with whole_file(output / RECORD) as file:
        # In their order: the card of a merged model lists them as the run counted them.
        file.write(json.dumps({"settings": settings, **facts}, indent=2) + "\n")


def read_record(folder: Path) -> dict[str, Any]:
    """What a recipe wrote down of a run; empty for models of other tools."""
    path = folder / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_card(folder: Path, record: Mapping[str, Any], **own: Any) -> None:
    """Write a model's card from its run's record and what only the caller knows of `CardFacts`."""
    of_record = {
        "name": folder.resolve().name,
        "counts": record.get("counts", {}),
        "settings": record.get("settings", {}),
        "license": record.get("base_license"),
        "prompt": record.get("prompt_format"),
        "tags": (record.get("method", "sft"),),
    }
    card = model_card(CardFacts(**of_record | own))
    (folder / "README.md").write_text(card, encoding="utf-8")


def base_license(model: str) -> str | None:
    """The licence that the card of a folder or of a model on the Hub names, if it names one."""
    from huggingface_hub import ModelCard

    from rpd_metric.models.http_library import httpx

    path = Path(model) / "README.md"
    try:
        named = ModelCard.load(path if Path(model).is_dir() else model).data.license
    except (OSError, ValueError, httpx.HTTPError):
        return None  # no card, no metadata in it, or no Hub to ask
    return named if isinstance(named, str) else None
