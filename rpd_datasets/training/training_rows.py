"""Training rows: loaded from a curated dataset, given a prompt, and tokenized.

The rows are TRL's conversational prompt-completion rows, which `rpd curate` writes. They are
tokenized here and not in TRL: samples that are too long are refused or dropped, where TRL would cut
off their answers; every sample holds its whole completion and ends in the end token; and steps and
tokens are known before weights are loaded.
"""

import json
import math
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.hub_rows import HubRows
from rpd_datasets.inputs.local_files import file_kind
from rpd_datasets.instructions import MARK, fill_prompt, prompt_template
from rpd_datasets.messages import Message
from rpd_datasets.sft import message_features
from rpd_datasets.training.recipe import SupervisedOptions
from rpd_metric.errors import InputError, first_line

IGNORED = -100
# A template may close the turn with a line break after the end token, and nothing longer.
MAX_AFTER_END = 2


def load_rows(
    specs: Sequence[str],
    *,
    config: str = "sft",
    split: str = "train",
    num_samples: int | None = None,
) -> tuple[Any, list[str]]:
    """Load prompt-completion rows, one source after the other; `num_samples` is how many to expect.

    Returns:
        `tuple`: A `datasets.Dataset` with the columns `prompt` and `completion`, each a list of
            messages, and perhaps `tools`; and the sources, those of the Hub pinned as `id@commit`.
    """
    import datasets

    loaded = [_load(spec, config, split) for spec in specs]
    tables = [rows for rows, _ in loaded]
    if any(rows.features != tables[0].features for rows in tables):
        features = message_features(tools=any("tools" in rows.features for rows in tables))
        fill = dict.fromkeys(features)
        tables = [
            rows.map(lambda row: fill | row, features=features, keep_in_memory=True)
            for rows in tables
        ]
    rows = datasets.concatenate_datasets(tables)
    if num_samples is not None and len(rows) != num_samples:
        raise InputError(
            f"the recipe is for {num_samples} samples and {', '.join(specs)} holds "
            f"{len(rows)}; use the data it is for, or pass --num_samples {len(rows)}"
        )
    return rows, [source for _, source in loaded]


def without_contaminated(
    rows: Any, contamination: Contamination | None, say: Callable[[str], None]
) -> tuple[Any, int]:
    """Drop the rows whose problem is in a benchmark; returns the rows and how many were dropped."""
    if contamination is None:
        return rows, 0
    clean = []
    for number, prompt in enumerate(rows["prompt"]):
        questions = (str(turn["content"]) for turn in prompt if turn["role"] == "user")
        if match := contamination.find("\n".join(questions)):
            say(f"left out row {number}: {match.detail}")
        else:
            clean.append(number)
    if not clean:
        raise InputError(
            f"all {len(rows)} rows are in {', '.join(contamination.sizes)}: train on other "
            "problems, or set decontaminate to none"
        )
    return (rows if len(clean) == len(rows) else rows.select(clean)), len(rows) - len(clean)


def with_prompt(rows: Any, prompt: str) -> Any:
    """Put a prompt of `instructions.py` around the last user message of each row."""
    template = prompt_template(prompt)
    if template == MARK:
        return rows

    def fill(row: dict[str, Any]) -> dict[str, Any]:
        turns = [*row["prompt"]]
        users = [at for at, turn in enumerate(turns) if turn["role"] == "user"]
        last = users[-1] if users else -1
        turns[last] = {**turns[last], "content": fill_prompt(template, turns[last]["content"])}
        return {"prompt": turns}

    return rows.map(fill, keep_in_memory=True, load_from_cache_file=False, desc="Prompts")


def _load(spec: str, config: str, split: str) -> tuple[Any, str]:
    import datasets

    path, pinned = Path(spec).expanduser(), spec
    kind = file_kind(path) if path.is_file() else "jsonl"
    if kind not in ("jsonl", "json", "parquet"):
        raise InputError(f"{spec} is not a JSONL, JSON or Parquet file")
    if not path.exists() and spec.count("/") > 1:
        raise InputError(f"{spec} is neither a file or folder nor a Hub id (owner/name)")
    try:
        if path.is_file():
            loader = kind.removesuffix("l")
            rows = datasets.load_dataset(loader, data_files=str(path), split="train")
        elif path.is_dir():
            rows = datasets.load_dataset(str(path), config, split=split)
        else:
            name, _, revision = spec.partition("@")
            source = HubRows(
                name, config=config, split=split, revision=revision or None, streaming=False
            )
            rows, pinned = source.dataset, f"{name}@{source.fingerprint()}"
    except InputError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"cannot load training rows from {spec} (configuration {config!r}, split {split!r}): "
            f"{first_line(error)}. Use a folder that `rpd curate` made"
        ) from error
    if not len(rows):
        raise InputError(f"{spec} has no rows")
    for column in ("prompt", "completion"):
        first = rows[0].get(column)
        if not isinstance(first, list) or not first or not isinstance(first[0], dict):
            raise InputError(
                f"{spec} has no column {column!r} with a list of messages, only "
                f"{', '.join(rows.column_names)}; make training rows with `rpd curate` or "
                "rpd_datasets.to_sft"
            )
    tools = ["tools"] if "tools" in rows.column_names else []
    return rows.select_columns(["prompt", "completion", *tools]), pinned


class TokenizedRows(NamedTuple):
    """Samples as token ids, and what became of the rows."""

    dataset: Any  # with input_ids and labels; labels of the prompt are -100
    counts: dict[str, int]  # by label, for the log, the record and the card


def check_data(options: SupervisedOptions, training: Any) -> None:
    """Refuse options that cannot work together or would train something else than they say."""
    if not options.data:
        raise InputError("no data: name a curated folder, e.g. --data data/rpd_1p3s")
    if not training.packing:
        return
    if training.packing_strategy != "bfd":
        raise InputError(
            f"packing_strategy {training.packing_strategy} cuts samples in two; use bfd"
        )
    if training.max_length is None:
        raise InputError("packing needs max_length, the length of a pack")


def tokenize_rows(
    rows: Any,
    tokenizer: Any,
    *,
    max_length: int | None,
    too_long: Literal["refuse", "drop"],
    rewritten: Literal["refuse", "drop"] = "refuse",
    assistant_template: str | None = None,
) -> TokenizedRows:
    """Turn rows into token ids with labels on the completion only; nothing is cut.

    With an `assistant_template`, a chat template with generation marks, labels are on the model's
    turns of the completion only.

    `too_long` says what happens to samples of more than `max_length` tokens, `rewritten` what
    happens to those whose completion the chat template changes: Qwen3's keeps of several `</think>`
    the first and the last part.
    """
    encoded = rows.map(
        lambda row: encode_row(row, tokenizer, assistant_template),
        remove_columns=rows.column_names,
        keep_in_memory=True,
        load_from_cache_file=False,
        desc="Tokenizing",
    )
    ends, kept_text, lengths = (list(encoded[name]) for name in ("ends", "kept_text", "length"))
    if not all(ends):
        raise InputError(
            f"the chat template does not end the completion of row {ends.index(False)} with "
            f"{tokenizer.eos_token!r}, so that the model would never learn to stop; set eos_token "
            "to the token that ends a turn in this template"
        )
    if not all(kept_text) and rewritten == "refuse":
        raise InputError(
            f"the chat template changes the completions of {kept_text.count(False)} of "
            f"{len(lengths)} samples (the first is row {kept_text.index(False)}): a think block "
            "that is not closed, or closed twice, loses text. Leave them out with --rewritten drop"
        )
    over = [max_length is not None and length > max_length for length in lengths]
    if any(over) and too_long == "refuse":
        raise InputError(
            f"{sum(over)} of {len(lengths)} samples are longer than max_length {max_length} (the "
            f"longest has {max(lengths)} tokens, the first of them is row {over.index(True)}); "
            "raise --max_length, or leave them out with --too_long drop"
        )
    usable = [row for row, long in enumerate(over) if not long and kept_text[row]]
    if not usable:
        raise InputError(
            f"no sample is left: all {len(lengths)} are longer than max_length {max_length} or "
            "changed by the chat template"
        )
    dataset = encoded.select(usable) if len(usable) < len(lengths) else encoded
    counts = {
        "samples": len(usable),
        "samples left out as too long": len(lengths) - len(usable) - kept_text.count(False),
        "samples left out as changed by the template": kept_text.count(False),
        "tokens per epoch": sum(dataset["length"]),
        "of them learnt": sum(dataset["learnt"]),
        "longest sample, in tokens": max(lengths),
    }
    return TokenizedRows(dataset.select_columns(["input_ids", "labels"]), counts)


def encode_row(
    row: dict[str, Any], tokenizer: Any, assistant_template: str | None = None
) -> dict[str, Any]:
    """Token ids and labels of a row, and whether its text and its end are in them."""
    prompt, completion = ([*map(_bare, row[name])] for name in ("prompt", "completion"))
    tools = row.get("tools")
    tools = (json.loads(tools) if isinstance(tools, str) else tools) or None
    shape = {"tools": tools, "return_dict": True}
    if assistant_template:
        shape["chat_template"] = assistant_template
    before = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, **shape)["input_ids"]
    whole = tokenizer.apply_chat_template(
        prompt + completion, return_assistant_tokens_mask=bool(assistant_template), **shape
    )
    ids = whole["input_ids"]
    # A template may add an empty think block to a completion without one: the completion
    # begins where the two texts part.
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, ids, strict=False))
    start = sum(1 for _ in same)
    labels = [IGNORED] * start + ids[start:]
    if assistant_template:
        masks = whole["assistant_masks"]
        labels = [label if mask else IGNORED for label, mask in zip(labels, masks, strict=True)]
    tail = labels[max(start, len(ids) - MAX_AFTER_END) :]
    prompt_text, rendered = (
        tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        for messages in (prompt, prompt + completion)
    )
    return {
        "input_ids": ids,
        "labels": labels,
        "length": len(ids),
        "learnt": len(ids) - labels.count(IGNORED),
        "ends": tokenizer.eos_token_id in tail,
        "kept_text": keeps_text(
            completion, tools or (), prompt_text=prompt_text, rendered=rendered
        ),
    }


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the keys that Arrow fills in for other messages."""
    return {name: value for name, value in message.items() if value is not None}


def keeps_text(
    completion: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    *,
    prompt_text: str,
    rendered: str,
) -> bool:
    """Whether a chat template keeps all of a completion, up to white space: texts, thoughts, calls.

    `prompt_text` is the rendered prompt, `rendered` that with the completion; the names of all
    tools have to be in it, too.
    """
    contents = [turn.get("content") or "" for turn in completion]
    values: list[Any] = [*contents, *(turn.get("reasoning_content") or "" for turn in completion)]
    values += [tool.get("function", tool).get("name", "") for tool in tools]
    for call in (call["function"] for turn in completion for call in turn.get("tool_calls") or ()):
        arguments = call["arguments"]
        listed = arguments.values() if isinstance(arguments, dict) else [arguments]
        values += [call["name"], *(value for value in listed if isinstance(value, str))]
    whole = "".join(rendered.split())
    # Arguments are written as JSON by most templates, and as they are by some.
    forms = ((value, json.dumps(value, ensure_ascii=False)[1:-1]) for value in values)
    if not all(any("".join(form.split()) in whole for form in pair) for pair in forms):
        return False
    # A second think block before the completion's own is another text than the completion.
    tags = rendered.count("<think>") - prompt_text.count("<think>")
    return len(contents) > 1 or tags == contents[0].count("<think>") or "<think>" not in contents[0]


def other_turns_learnt(rows: Any) -> str | None:
    """A line about completions with turns of users or tools, which are learnt like the model's."""
    mixed = sum(any(turn["role"] != "assistant" for turn in row) for row in rows["completion"])
    if not mixed:
        return None
    return (
        f"warning: {mixed} of {len(rows)} completions have turns of tools or users, which are "
        "learnt, too; --assistant_only_loss true learns the model's turns only"
    )


def supervised_steps(rows: Any, training: Any) -> int:
    """How often the weights change when `SFTConfig` options train on tokenized rows.

    An epoch's last batch may be smaller and is a step as well: 12 epochs of 300 samples in batches
    of 16 are 228 steps. With packing, samples are packs.
    """
    if training.max_steps > 0:
        return int(training.max_steps)
    if training.packing:
        from trl.data_utils import pack_dataset

        rows = pack_dataset(rows, training.max_length, training.packing_strategy)
    at_once = training.per_device_train_batch_size * training.world_size
    per_epoch = math.ceil(len(rows) / (at_once * training.gradient_accumulation_steps))
    steps: int = math.ceil(training.num_train_epochs * per_epoch)
    return steps
