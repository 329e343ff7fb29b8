"""From a curated dataset to token sequences that a trainer takes as they are.

The rows are TRL's conversational prompt-completion rows, which `rpd curate` writes. They are
tokenized here and not in TRL, for three reasons: a sample that is too long is refused or dropped
and counted, where TRL would cut off its answer; every sample is checked to end in the token that
ends an answer; and the number of steps and tokens is known before any weights are loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.inputs.files import file_kind
from rpd_datasets.inputs.hub import HubRows
from rpd_datasets.training.arguments import SupervisedArguments
from rpd_metric.errors import InputError, first_line

IGNORED = -100
# A template may close the turn with a line break after the end token, and nothing longer.
MAX_AFTER_END = 2
# Attention that keeps packed samples apart.
FLASH = ("flash_attention_2", "flash_attention_3", "kernels-community/")


@dataclass(frozen=True)
class TokenizedRows:
    """Samples as token ids, and what became of the rows.

    Args:
        dataset (`datasets.Dataset`): Columns `input_ids` and `labels`; labels of the prompt are
            -100.
        num_rows (`int`): Rows that came in.
        num_dropped (`int`): Left out because they are too long.
        num_tokens (`int`): Tokens of the samples that stayed.
        num_learnt (`int`): Those of them that the loss is computed on.
        longest (`int`): Tokens of the longest sample that came in.
    """

    dataset: Any
    num_rows: int
    num_dropped: int
    num_tokens: int
    num_learnt: int
    longest: int

    def counts(self) -> dict[str, int]:
        """By label, for the log, the record and the card."""
        return {
            "samples": self.num_rows - self.num_dropped,
            "samples left out as too long": self.num_dropped,
            "tokens per epoch": self.num_tokens,
            "of them learnt": self.num_learnt,
            "longest sample, in tokens": self.longest,
        }


def check_data(options: SupervisedArguments, training: Any, model: Any) -> None:
    """Refuse what would train something else than it says.

    Args:
        options ([`~rpd_datasets.training.arguments.SupervisedArguments`]): Of the run.
        training (`trl.SFTConfig`): Of the run.
        model (`trl.ModelConfig`): Of the run.

    Raises:
        [`InputError`]: With the option to change.
    """
    if not options.data:
        raise InputError("no data: name a curated folder, e.g. --data data/rpd_1p3s")
    if not training.packing:
        return
    if not (model.attn_implementation or "").startswith(FLASH):
        raise InputError(
            "packing lets samples attend to each other unless the attention knows their borders; "
            "set attn_implementation: flash_attention_2, or packing: false"
        )
    if training.packing_strategy != "bfd":
        raise InputError(
            f"packing_strategy {training.packing_strategy} cuts samples in two; use bfd"
        )
    if training.max_length is None:
        raise InputError("packing needs max_length, the length of a pack")


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
            messages, and the sources, those of the Hub as `id@commit`: named so, they give the
            same rows again whatever becomes of the branch.

    Raises:
        [`InputError`]: A source cannot be read, is empty or has other columns, or there is
            another number of rows.
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


def tokenize_rows(
    rows: Any, tokenizer: Any, *, max_length: int | None, too_long: Literal["refuse", "drop"]
) -> TokenizedRows:
    """Turn rows into token ids with labels on the completion only; nothing is cut.

    Args:
        rows (`datasets.Dataset`): From [`load_rows`].
        tokenizer: From [`load_tokenizer`].
        max_length (`int`, *optional*): The longest sample that is allowed, in tokens.
        too_long (`"refuse"` or `"drop"`): What happens to longer ones.

    Returns:
        [`TokenizedRows`]

    Raises:
        [`InputError`]: A sample is too long, or its last token is not the end token; or nothing
            is left.
    """

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        before = _encode(tokenizer, row["prompt"], add_generation_prompt=True)
        ids = _encode(tokenizer, row["prompt"] + row["completion"])
        # Qwen3's template adds an empty think block to a completion without one: the completion
        # begins where the two texts part.
        start = next(
            (i for i, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b),
            min(len(before), len(ids)),
        )
        tail = ids[max(start, len(ids) - MAX_AFTER_END) :]
        return {
            "input_ids": ids,
            "labels": [IGNORED] * start + ids[start:],
            "length": len(ids),
            "learnt": len(ids) - start,
            "ends": tokenizer.eos_token_id in tail,
        }

    encoded = rows.map(
        encode,
        remove_columns=rows.column_names,
        keep_in_memory=True,
        load_from_cache_file=False,
        desc="Tokenizing",
    )
    if not all(encoded["ends"]):
        row = list(encoded["ends"]).index(False)
        raise InputError(
            f"the chat template does not end the completion of row {row} with "
            f"{tokenizer.eos_token!r}, so that the model would never learn to stop; set eos_token "
            "to the token that ends a turn in this template"
        )
    lengths = list(encoded["length"])
    over = [place for place, n in enumerate(lengths) if max_length is not None and n > max_length]
    if over and too_long == "refuse":
        raise InputError(
            f"{len(over)} of {len(lengths)} samples are longer than max_length {max_length} (the "
            f"longest has {max(lengths)} tokens, the first of them is row {over[0]}); raise "
            "--max_length, or leave them out with --too_long drop"
        )
    kept = sorted(set(range(len(lengths))) - set(over))
    if not kept:
        raise InputError(
            f"no sample is left: all {len(lengths)} are longer than max_length {max_length}"
        )
    dataset = encoded.select(kept) if over else encoded
    return TokenizedRows(
        dataset=dataset.select_columns(["input_ids", "labels"]),
        num_rows=len(lengths),
        num_dropped=len(over),
        num_tokens=sum(lengths[place] for place in kept),
        num_learnt=sum(dataset["learnt"]),
        longest=max(lengths),
    )


def supervised_steps(rows: Any, training: Any) -> int:
    """How often the weights change in a run.

    Args:
        rows (`datasets.Dataset`): From [`tokenize_rows`].
        training (`trl.SFTConfig`): Of the run.
    """
    if training.packing:
        from trl.data_utils import pack_dataset

        rows = pack_dataset(rows, training.max_length, training.packing_strategy)
    return optimizer_steps(
        len(rows),
        per_device=training.per_device_train_batch_size,
        processes=training.world_size,
        accumulation=training.gradient_accumulation_steps,
        epochs=training.num_train_epochs,
        max_steps=training.max_steps,
    )


def optimizer_steps(
    samples: int,
    *,
    per_device: int,
    processes: int,
    accumulation: int,
    epochs: float,
    max_steps: int = -1,
) -> int:
    """How often the weights change in a run of supervised fine-tuning.

    An epoch's last batch may be smaller than the others and is a step all the same: 300 samples
    in batches of 16 are 19 steps, so that 12 epochs are 228 steps where one epoch of 3,600
    samples is 225.

    Args:
        samples (`int`): Sequences in the training set (packs, when packing).
        per_device (`int`): Sequences in a batch of one device.
        processes (`int`): Devices.
        accumulation (`int`): Batches per step.
        epochs (`float`): Passes over the data.
        max_steps (`int`): If positive, the answer.

    Example:

    ```py
    >>> from rpd_datasets.training.data import optimizer_steps
    >>> optimizer_steps(300, per_device=1, processes=1, accumulation=16, epochs=12)
    228

    ```
    """
    if max_steps > 0:
        return max_steps
    batches = math.ceil(samples / (per_device * processes))
    return math.ceil(epochs * max(1, math.ceil(batches / accumulation)))


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
    except InputError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
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


def _encode(tokenizer: Any, messages: list[dict[str, str]], **options: Any) -> list[int]:
    encoded = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **options)
    ids: list[int] = encoded["input_ids"]
    return ids
