"""From a curated dataset to token sequences that a trainer takes as they are.

The rows are TRL's conversational prompt-completion rows, which `rpd curate` writes. They are
tokenized here and not in TRL, for three reasons: a sample that is too long is refused or dropped
and counted, where TRL would cut off its answer; every sample is checked to end in the token that
ends an answer; and the number of steps and tokens is known before any weights are loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.inputs.files import file_kind
from rpd_datasets.inputs.hub import HubRows
from rpd_metric.errors import InputError, ModelError, first_line

IGNORED = -100
# A template may close the turn with a line break after the end token, and nothing longer.
MAX_AFTER_END = 2


@dataclass
class DataArguments:
    """The options of supervised fine-tuning that are this project's own.

    Args:
        data (`list[str]`): Curated folders, JSONL or Parquet files, or Hub ids, these also with
            a branch, tag or commit (`me/set@v2`); several are joined.
        data_config (`str`): The configuration of a folder or a Hub dataset with training rows.
        data_split (`str`): Its split.
        num_samples (`int`, *optional*): How many samples the recipe is for; other numbers are
            refused.
        too_long (`"refuse"` or `"drop"`): What happens to samples over `max_length`.
        effective_batch_size (`int`, *optional*): Samples per optimizer step over all devices.
        padding_token (`str`, *optional*): Where the tokenizer's own is also its end token.
        dry_run (`bool`): Show what would be done, and load no weights.
    """

    data: list[str] = field(
        default_factory=list,
        metadata={"help": "curated folders, JSONL or Parquet files, Hub ids; several are joined"},
    )
    data_config: str = field(
        default="sft", metadata={"help": "the configuration that holds training rows"}
    )
    data_split: str = field(default="train", metadata={"help": "the split of it"})
    num_samples: int | None = field(
        default=None, metadata={"help": "refuse data with another number of samples"}
    )
    too_long: Literal["refuse", "drop"] = field(
        default="refuse", metadata={"help": "what happens to samples longer than max_length"}
    )
    effective_batch_size: int | None = field(
        default=None, metadata={"help": "samples per optimizer step over all devices"}
    )
    padding_token: str | None = field(
        default=None, metadata={"help": "pad with this token; it must not be the end token"}
    )
    dry_run: bool = field(
        default=False, metadata={"help": "show settings, steps, tokens and memory; train nothing"}
    )


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


def load_rows(specs: Sequence[str], *, config: str = "sft", split: str = "train") -> Any:
    """Load prompt-completion rows, one source after the other.

    Args:
        specs (`Sequence[str]`): Folders that `rpd curate` made, JSONL or Parquet files, or Hub
            ids. What exists on disk is never looked for on the Hub.
        config (`str`): The configuration of a folder or a Hub dataset.
        split (`str`): The split.

    Returns:
        `datasets.Dataset`: Columns `prompt` and `completion`, each a list of messages.

    Raises:
        [`InputError`]: A source cannot be read, is empty, or has other columns.
    """
    return load_pinned(specs, config=config, split=split)[0]


def load_pinned(
    specs: Sequence[str], *, config: str = "sft", split: str = "train"
) -> tuple[Any, list[str]]:
    """Load rows as [`load_rows`] does, and tell what was read.

    Returns:
        `tuple`: The rows, and the sources, those of the Hub as `id@commit`: named so, they give
            the same rows again whatever becomes of the branch.
    """
    import datasets

    if not specs:
        raise InputError("no data: name a curated folder, e.g. --data data/rpd_1p3s")
    loaded = [_load(spec, config, split) for spec in specs]
    return datasets.concatenate_datasets([rows for rows, _ in loaded]), [one for _, one in loaded]


def load_tokenizer(
    model: str,
    *,
    revision: str | None = None,
    end_token: str | None = None,
    padding_token: str | None = None,
    template: str | None = None,
    padding_side: Literal["left", "right"] = "right",
) -> Any:
    """Load a model's tokenizer and make sure that the end of an answer can be learnt.

    Args:
        model (`str`): Hub id or folder.
        revision (`str`, *optional*): Of a Hub id.
        end_token (`str`, *optional*): The token that ends an answer, where it is not the
            tokenizer's: base models of Qwen end texts, not turns.
        padding_token (`str`, *optional*): See [`DataArguments`].
        template (`str`, *optional*): A Jinja file to use as the chat template.
        padding_side (`"left"` or `"right"`): Left for generation.

    Raises:
        [`ModelError`]: The tokenizer cannot be loaded.
        [`InputError`]: It has no chat template, lacks a token, or pads with the end token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model, revision=revision, padding_side=padding_side
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load the tokenizer of {model}: {first_line(error)}") from error
    if template is not None:
        path = Path(template)
        if not path.is_file():
            raise InputError(f"chat_template_path {template} is no file; name a Jinja file")
        tokenizer.chat_template = path.read_text(encoding="utf-8")
    if tokenizer.chat_template is None:
        raise InputError(
            f"the tokenizer of {model} has no chat template; name a Jinja file with "
            "--chat_template_path"
        )
    vocabulary = tokenizer.get_vocab()
    for option, token in (("eos_token", end_token), ("padding_token", padding_token)):
        if token is not None and token not in vocabulary:
            raise InputError(f"{option} {token!r} is not in the vocabulary of {model}")
    if end_token is not None:
        tokenizer.eos_token = end_token
    if padding_token is not None:
        tokenizer.pad_token = padding_token
    if tokenizer.pad_token is None or tokenizer.pad_token == tokenizer.eos_token:
        raise InputError(
            f"{model} pads with {tokenizer.pad_token!r} and ends answers with "
            f"{tokenizer.eos_token!r}; name another token with --padding_token"
        )
    return tokenizer


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


def keep_adapters_exact(model: Any) -> None:
    """Keep the weights that are trained in float32, where TRL makes them bfloat16.

    TRL does so on 4-bit models. bfloat16 has 8 bits of precision, so that updates at this paper's
    learning rates round to nothing; and a resumed run loads its adapter in float32, which would
    make it another run.

    Args:
        model (`torch.nn.Module`): A trainer's model, before training starts.
    """
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


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
