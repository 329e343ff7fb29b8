"""What a recipe can say, and how it is read: a YAML file on top of its base, without tolerance.

    base: base.yaml            # merged first; this file's keys win
    data: [data/rpd_1p3s]
    output_dir: runs/rpd_1p3s

A recipe sets fields of TRL's configuration classes and of the dataclasses here. TRL's parser reads
them from the file and the command line. An unknown name is an error that suggests the nearest one:
training libraries drop and rename options, and a silently ignored option is a wrong experiment.
"""

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
from rpd_metric.errors import InputError
from rpd_metric.models.static import default_embedder

# The problems of the AIME from 1983 to 2024.
AIME_ID = "gneubig/aime-1983-2024"
# Names of older recipes whose nearest spelling is another option.
RENAMED = {
    "torch_dtype": "dtype",
    "max_prompt_length": "max_prompt_tokens",
    "dataset_name": "data",
    "pad_token_id": "padding_token",
    "held_out": "decontaminate",
}
# transformers before 5.23 has the older name only; later it is deprecated, and ignored in silence
# if both are named. Recipes have the newer one.
NEWER = "activation_checkpointing"
OLDER = "gradient_checkpointing"
RENAMED |= {OLDER: NEWER, f"{OLDER}_kwargs": f"{NEWER}_kwargs"}


def _option(default: Any, help: str) -> Any:
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata={"help": help})
    return field(default=default, metadata={"help": help})


@dataclass
class CommonOptions:
    """What every recipe takes."""

    effective_batch_size: int | None = _option(
        None, "samples, or completions, per optimizer step over all devices"
    )
    padding_token: str | None = _option(None, "padding token; it must differ from the end token")
    prompt: str = _option(
        "problem", "prompt template: problem, box, reason_and_box, or a text with {problem}"
    )
    decontaminate: list[str] = _option(  # noqa: RUF009
        ["known"],
        "drop problems of these benchmarks (names as in passk.py), of files of problems, of all "
        "available benchmarks (known), or none",
    )
    smoke: bool = _option(
        False, "train two steps on the longest samples, print the peak memory, and save nothing"
    )
    dry_run: bool = _option(False, "show settings, steps, tokens and hours, and train nothing")
    seconds_per_step: float | None = _option(
        None, "for the hours of --dry_run: seconds of a step, as --smoke prints them"
    )
    grader: str | None = _option(
        None,
        "grade answers by this function of (answer, response) instead of as mathematics: "
        "file.py:function or package.module:function",
    )
    measure_every: int | None = _option(
        None, "sample solutions of measure_problems every so many steps, and log pass@k, strategies"
    )
    measure_problems: str | None = _option(
        None, "held-out problems: a benchmark as in passk.py, or a file with problem and answer"
    )
    measure_samples: int = _option(8, "solutions of each held-out problem")
    measure_tokens: int = _option(2048, "limit on new tokens of such a solution")


@dataclass
class SupervisedOptions(CommonOptions):
    """The options of supervised fine-tuning."""

    data: list[str] = _option(  # noqa: RUF009
        [],
        "curated folders, JSONL or Parquet files, or Hub ids, optionally with a branch, tag or "
        "commit (me/set@v2); several are concatenated",
    )
    data_config: str = _option("sft", "configuration with the training rows")
    data_split: str = _option("train", "split to train on")
    num_samples: int | None = _option(None, "refuse data with another number of samples")
    too_long: Literal["refuse", "drop"] = _option(
        "refuse", "refuse or drop samples longer than max_length"
    )
    rewritten: Literal["refuse", "drop"] = _option(
        "refuse", "refuse or drop samples whose completion the chat template changes"
    )


@dataclass
class ReinforcementOptions(CommonOptions):
    """The options of reinforcement learning."""

    problems: str = _option(
        AIME_ID,
        "Hub id, or a JSON or JSONL file with problem and answer; of rows with a year only 1983 to "
        "2023 are used",
    )
    num_problems: int | None = _option(None, "use only the first N problems")
    max_prompt_tokens: int = _option(3800, "drop problems with longer prompts")
    end_token: str | None = _option(None, "token that ends an answer, if not the tokenizer's own")
    accuracy_weight: float = _option(1.0, "weight of the accuracy reward")
    format_weight: float = _option(0.1, "weight of the format reward")
    diversity_weight: float = _option(
        0.0, "weight of the mean distance among right answers; 0 is off"
    )
    summarizer: str = _option(
        "extractive",
        "for diversity, whose distance is the one that rpd curate uses with it: taught, or "
        "strategy on a chat model's steps",
    )
    embedder: str = _option(default_embedder(), "for diversity: encodes steps, or pieces of text")


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
    """
    from trl.scripts.utils import TrlParser

    parser = TrlParser(
        cast(Any, list(kinds)),
        prog=prog,
        usage=f"{prog} --config RECIPE.yaml [--OPTION VALUE ...]",
        description="Options of the recipe; the command line wins. See recipes/README.md.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    defaults = vars(parser.parse_args([]))
    spelling = (NEWER, NEWER if NEWER in defaults else OLDER)
    config = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    config.add_argument("--config", type=Path)
    try:
        file, typed = config.parse_known_args(arguments)
        options = {} if file.config is None else read_recipe(file.config)
        older = [f"--{name}" for name in options] + typed
        _check_known([word for word in older if word.startswith(f"--{OLDER}")], ())
        options = {name.replace(*spelling): value for name, value in options.items()}
        typed = [re.sub(f"^--{NEWER}", f"--{spelling[1]}", word) for word in typed]
        # None cannot be written on a command line; as a default it can.
        parser.set_defaults(**{name: None for name, value in options.items() if value is None})
        line = [*_as_arguments(options), *typed]
        named, unknown = parser.parse_known_args(line)
        unknown += [f"--{name}" for name, value in options.items() if value is None]
        _check_known(unknown, defaults.keys() - RENAMED.keys())
        values = vars(named)
        if (effective := values.get("effective_batch_size")) is not None:
            processes = int(os.environ.get("WORLD_SIZE", "1"))
            per_device = values["per_device_train_batch_size"]
            steps, left_over = divmod(effective, per_device * processes)
            if left_over or steps < 1:
                raise InputError(
                    f"effective_batch_size {effective} cannot be made of {processes} process(es) x "
                    f"per_device_train_batch_size {per_device}; change one so that it divides"
                )
            line.append(f"--gradient_accumulation_steps={steps}")
            values["gradient_accumulation_steps"] = steps
        named_or_set = {n for n, value in values.items() if n in options or value != defaults[n]}
        current = {name.replace(spelling[1], NEWER): name for name in named_or_set}
        settings = {name: values[current[name]] for name in sorted(current)}
        if values.get("dry_run"):
            # What asks for bfloat16 on a GPU can be looked at where there is none.
            line.append("--use_cpu=true")
        return Recipe(tuple(parser.parse_args_into_dataclasses(args=line)), settings)
    except (argparse.ArgumentError, ValueError) as error:
        raise InputError(" ".join(str(error).split())) from error


def _check_known(left_over: Iterable[str], known: Iterable[str]) -> None:
    """Refuse what the parser has left over."""
    for argument in left_over:
        match = re.match(r"--([^\s=]+)", argument)
        name = match[1].replace("-", "_") if match else argument
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            meant = RENAMED.get(name) or (near[0] if near else None)
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise InputError(f"unknown option {name!r}{hint}")


def _as_arguments(options: dict[str, Any]) -> Iterable[str]:
    """As on a command line, so that values from a file are checked in the same way."""
    for name, value in options.items():
        if isinstance(value, list):
            yield from (f"--{name}", *map(str, value))
        elif value is not None:
            yield f"--{name}={json.dumps(value) if isinstance(value, dict) else value}"
