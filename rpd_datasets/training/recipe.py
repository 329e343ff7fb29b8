"""What a recipe can say, and how it is read: a YAML file on top of its base, without tolerance.

    base: base.yaml            # merged first; this file's keys win
    data: [data/rpd_1p3s]
    output_dir: runs/rpd_1p3s

A recipe names fields of TRL's configuration classes and of the dataclasses here, which are this
project's own options. TRL's parser reads them, from the file as from the command line. A name that
none of them has stops the run with the nearest one that exists: training libraries drop and rename
options, and an option that is ignored in silence is a wrong experiment.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from rpd_datasets.options import read_options
from rpd_datasets.training.aime import HUB_ID
from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.models.static import default_embedder

# Names of older recipes whose nearest spelling is another option.
RENAMED = {
    "torch_dtype": "dtype",
    "max_prompt_length": "max_prompt_tokens",
    "dataset_name": "data",
    "pad_token_id": "padding_token",
    "held_out": "decontaminate",
    # Deprecated; where both are named, the older one would be ignored in silence.
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass
class CommonOptions:
    """What every recipe takes."""

    effective_batch_size: int | None = _option(
        None, "samples, or completions, per optimizer step over all devices"
    )
    padding_token: str | None = _option(None, "pad with this token; it must not be the end token")
    prompt: str = _option(
        "problem",
        "what is put around a problem: problem, box, reason_and_box, or a text with {problem}",
    )
    decontaminate: list[str] = field(
        default_factory=lambda: ["known"],
        metadata={
            "help": "leave out problems that stand in these benchmarks: names as passk.py has "
            "them, files of problems, known for all that can be had here, or none"
        },
    )
    smoke: bool = _option(
        False,
        "train two steps on the longest samples, print the peak of memory, and save nothing",
    )
    dry_run: bool = _option(False, "show settings, steps and tokens; train nothing")


@dataclass
class SupervisedOptions(CommonOptions):
    """The options of supervised fine-tuning."""

    data: list[str] = field(
        default_factory=list,
        metadata={
            "help": "curated folders, JSONL or Parquet files, or Hub ids, these also with a "
            "branch, tag or commit (me/set@v2); several are joined"
        },
    )
    data_config: str = _option("sft", "the configuration that holds training rows")
    data_split: str = _option("train", "the split of it")
    num_samples: int | None = _option(None, "refuse data with another number of samples")
    too_long: Literal["refuse", "drop"] = _option(
        "refuse", "what happens to samples longer than max_length"
    )
    rewritten: Literal["refuse", "drop"] = _option(
        "refuse", "what happens to samples whose completion the chat template changes"
    )
    validation: float = _option(
        0.0, "share of the problems that is held out; its loss is logged as eval_loss"
    )


@dataclass
class ReinforcementOptions(CommonOptions):
    """The options of reinforcement learning."""

    problems: str = _option(
        HUB_ID,
        "a Hub id, or a JSON or JSONL file with problem and answer; where rows have a year, only "
        "1983 to 2023 are taken, as from the AIME",
    )
    num_problems: int | None = _option(None, "only the first so many")
    max_prompt_tokens: int = _option(3800, "leave out problems with longer prompts, and count them")
    end_token: str | None = _option(None, "what ends an answer, where the tokenizer does not say")
    rollouts: Literal["auto", "vllm", "continuous", "generate"] = _option(
        "auto",
        "who samples completions: vLLM, transformers' continuous batching, or plain generate; "
        "auto takes the first that this machine has",
    )
    grader: str | None = _option(
        None,
        "what tells right answers, where mathematics does not: a function of (answer, response), "
        "as file.py:function or package.module:function",
    )
    accuracy_weight: float = _option(1.0, "weight of the right answer")
    format_weight: float = _option(0.1, "weight of the form")
    diversity_weight: float = _option(0.0, "weight of RPD among right answers; 0 is off")
    diversity_as: Literal["reward", "bonus", "rarity"] = _option(
        "reward",
        "how diversity counts: as one reward of the sum that the group scales; as a bonus, "
        "diversity_weight x RPD, added to the advantages of right completions after the scaling; "
        "or as rarity: their advantages are weighted inversely to how many right completions of "
        "the problem use the same strategy, and diversity_weight only has to be above 0",
    )
    watch_diversity: bool = _option(
        False,
        "log RPD among right completions, and show it beside each of them in the table of "
        "completions, without rewarding it",
    )
    strategy_threshold: float = _option(
        0.425, "for rarity: the largest mean distance within one strategy (docs/distances.md)"
    )
    summarizer: str = _option("extractive", "for diversity: makes the steps")
    embedder: str = _option(default_embedder(), "for diversity: encodes the steps")


class Recipe(NamedTuple):
    """An instance of each dataclass, and every option that is named or differs from its default."""

    parts: tuple[Any, ...]
    settings: dict[str, Any]


def read_recipe(path: Path) -> dict[str, Any]:
    """Read a YAML file and everything it is based on; `base` is found relative to a file."""
    options: dict[str, Any] = {}
    chain: list[Path] = []
    current: Path | None = path
    while current is not None:
        if current.resolve() in chain:
            raise InputError(f"{current} is its own base; remove one of the base: lines")
        chain.append(current.resolve())
        loaded = read_options(current)
        base = loaded.pop("base", None)
        options = {**loaded, **options}
        current = current.parent / base if base is not None else None
    return options


def parse_recipe(kinds: Sequence[type], arguments: Sequence[str], *, prog: str) -> Recipe:
    """Parse a command line, `--config FILE` and options, into instances of dataclasses, strictly.

    Raises:
        [`InputError`]: An option does not exist, or its value is of the wrong kind.
        [`MissingExtraError`]: TRL is not installed.
    """
    try:
        from trl.scripts.utils import TrlParser
    except ImportError as error:
        raise MissingExtraError("training", extra="training", module="trl") from error
    parser = TrlParser(
        cast(Any, list(kinds)),
        prog=prog,
        usage=f"{prog} --config RECIPE.yaml [--OPTION VALUE ...]",
        description="The options stand in a recipe, one per line; the command line wins. See "
        "recipes/README.md.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    defaults = vars(parser.parse_args([]))
    config = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    config.add_argument("--config", type=Path)
    try:
        file, given = config.parse_known_args(arguments)
        options = {} if file.config is None else read_recipe(file.config)
        # None cannot be written on a command line; as a default it can.
        parser.set_defaults(**{name: None for name, value in options.items() if value is None})
        line = [*_as_arguments(options), *given]
        named, unknown = parser.parse_known_args(line)
        unknown += [f"--{name}" for name, value in options.items() if value is None]
        unknown += [one for one in line if one.startswith("--gradient_checkpointing")]
        _check_known(unknown, defaults.keys() - RENAMED.keys())
        chosen = vars(named)
        if (effective := chosen.get("effective_batch_size")) is not None:
            steps = _accumulation_steps(effective, chosen["per_device_train_batch_size"])
            line.append(f"--gradient_accumulation_steps={steps}")
            chosen["gradient_accumulation_steps"] = steps
        named_or_set = {n for n, value in chosen.items() if n in options or value != defaults[n]}
        settings = {name: chosen[name] for name in sorted(named_or_set)}
        if chosen.get("dry_run"):
            # What asks for bfloat16 on a GPU can be looked at where there is none.
            line.append("--use_cpu=true")
        return Recipe(tuple(parser.parse_args_into_dataclasses(args=line)), settings)
    except (argparse.ArgumentError, ValueError) as error:
        raise InputError(" ".join(str(error).split())) from error


def _accumulation_steps(effective: int, per_device: int) -> int:
    """The gradient accumulation that makes a batch of `effective` samples."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    at_once = per_device * processes
    if effective < 1 or effective % at_once:
        raise InputError(
            f"effective_batch_size {effective} cannot be made of {processes} process(es) x "
            f"per_device_train_batch_size {per_device}; change one so that it divides"
        )
    return effective // at_once


def _check_known(left_over: Iterable[str], known: Iterable[str]) -> None:
    """Refuse what the parser has left over."""
    for argument in left_over:
        match = re.match(r"--([^\s=]+)", argument)
        name = match[1].replace("-", "_") if match else argument
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            meant = RENAMED.get(name) or (near[0] if near else None)
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise InputError(f"there is no option {name!r}{hint}")


def _as_arguments(options: dict[str, Any]) -> Iterable[str]:
    """As on a command line, so that values from a file are checked in the same way."""
    for name, value in options.items():
        if isinstance(value, list):
            yield from (f"--{name}", *map(str, value))
        elif value is not None:
            yield f"--{name}={json.dumps(value) if isinstance(value, dict) else value}"
