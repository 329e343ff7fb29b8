"""The options of the recipes that are this project's own; all others are TRL's.

Each field's help is what `--help` shows; prompts have their names in `rpd_datasets/instructions.py`.
Not here: what the options do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rpd_datasets.training.aime import HUB_ID


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass
class CommonArguments:
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
    dry_run: bool = _option(False, "show settings, steps, tokens and memory; train nothing")


@dataclass
class SupervisedArguments(CommonArguments):
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
    modes: int = _option(
        0,
        "ask for the n-th solution of a problem with [mode n] in its prompt, so many modes at "
        "most; 0 is off. Sample with the same modes in recipes/passk.py",
    )
    mode_assignment: Literal["order", "matching"] = _option(
        "order",
        "which solution gets which mode: in the order in which curation chose them, or matched "
        "before each epoch to the mode under which the model finds it likeliest (SSFT)",
    )
    validation: float = _option(
        0.0, "share of the problems that is held out; its loss is logged as eval_loss"
    )


@dataclass
class ReinforcementArguments(CommonArguments):
    """The options of reinforcement learning."""

    problems: str = _option(
        HUB_ID,
        "a Hub id, or a JSON or JSONL file with problem and answer; where rows have a year, only "
        "1983 to 2023 are taken, as from the AIME",
    )
    held_out: str | None = _option(
        None, "refuse problems that are in this file or Hub dataset, too"
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
    summarizer: str = _option("extractive", "for diversity: who finds the steps")
    embedder: str = _option("minilm", "for diversity: who encodes the steps")
