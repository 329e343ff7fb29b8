r"""Reinforcement learning with GRPO on the AIME of 1983 to 2023 (App. E.4 of the paper).

    python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s \
        --output merged/qwen3-4b-base/rpd_1p3s
    accelerate launch recipes/grpo.py --config recipes/configs/qwen3-4b-base/grpo/rpd_1p3s.yaml

It starts from a whole model, never from an adapter. Rewards: the right answer by this project's
own grader, a readable form, and, off unless asked for, diversity among right answers
(`--diversity_weight`). The same command goes on where an interrupted run stopped; `--dry_run`
shows what a recipe would do and loads no weights. The options are TRL's (`GRPOConfig`,
`ModelConfig`) and those of `ReinforcementArguments` below.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

# Before anything imports huggingface_hub: TRL reports every trainer that is made. Consent is
# given by setting the variable to 0.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.aime import HUB_ID, check_leakage, load_aime
from rpd_datasets.training.data import keep_adapters_exact, load_tokenizer
from rpd_datasets.training.memory import estimate_memory
from rpd_datasets.training.push import finish, take_push
from rpd_datasets.training.recipe import (
    check_resumable,
    check_start,
    parse_recipe,
    record_settings,
    run_script,
    speaker,
)
from rpd_datasets.training.rewards import AccuracyReward, DiversityReward, FormatReward
from rpd_metric.errors import InputError
from rpd_metric.grading.custom import GraderLike, load_grader
from rpd_metric.inference.registry import load_embedder
from rpd_metric.steps.registry import load_summarizer

WARNING = (
    "the diversity reward is on. A policy can raise a diversity measure without solving anything "
    "in another way (arXiv 2606.29985): watch diversity/rpd against diversity/wording, "
    "diversity/length and rewards/accuracy"
)


@dataclass
class ReinforcementArguments:
    """The options of reinforcement learning that are this project's own."""

    problems: str = field(
        default=HUB_ID,
        metadata={
            "help": "a Hub id, or a JSON or JSONL file with problem and answer; where rows have a "
            "year, only 1983 to 2023 are taken, as from the AIME"
        },
    )
    held_out: str | None = field(
        default=None, metadata={"help": "refuse problems that stand in this file or Hub dataset"}
    )
    num_problems: int | None = field(default=None, metadata={"help": "only the first so many"})
    prompt_suffix: str = field(
        default="Put your final answer within \\boxed{}.",
        metadata={"help": "what follows the problem in a prompt"},
    )
    max_prompt_tokens: int = field(
        default=3800, metadata={"help": "leave out problems with longer prompts, and count them"}
    )
    effective_batch_size: int | None = field(
        default=None, metadata={"help": "completions per optimizer step over all devices"}
    )
    padding_token: str | None = field(
        default=None, metadata={"help": "pad with this token; it must not be the end token"}
    )
    end_token: str | None = field(
        default=None, metadata={"help": "what ends an answer, where the tokenizer does not say"}
    )
    rollouts: Literal["auto", "vllm", "continuous", "generate"] = field(
        default="auto",
        metadata={
            "help": "who samples completions: vLLM, transformers' continuous batching, or plain "
            "generate; auto takes the first that this machine has"
        },
    )
    grader: str | None = field(
        default=None,
        metadata={
            "help": "what tells right answers, where mathematics does not: a function of (answer, "
            "response), as file.py:function or package.module:function"
        },
    )
    accuracy_weight: float = field(default=1.0, metadata={"help": "weight of the right answer"})
    format_weight: float = field(default=0.1, metadata={"help": "weight of the form"})
    diversity_weight: float = field(
        default=0.0, metadata={"help": "weight of RPD among right answers; 0 is off"}
    )
    summarizer: str = field(
        default="extractive", metadata={"help": "for the diversity reward: who finds the steps"}
    )
    embedder: str = field(
        default="minilm", metadata={"help": "for the diversity reward: who encodes the steps"}
    )
    dry_run: bool = field(
        default=False, metadata={"help": "show settings, steps and memory; train nothing"}
    )


def main(arguments: Sequence[str]) -> None:
    """Train by a recipe; see the module's docstring."""
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer
    from trl.trainer.model_config import ModelConfig
    from trl.trainer.utils import get_peft_config, get_quantization_config

    recipe = parse_recipe(
        (ReinforcementArguments, GRPOConfig, ModelConfig), arguments, prog="recipes/grpo.py"
    )
    options, training, model = recipe.parts
    check(options, training, model)
    say = speaker(training)
    push = take_push(training, model, recipe.settings)

    tokenizer = load_tokenizer(
        model.model_name_or_path,
        revision=model.model_revision,
        end_token=options.end_token,
        padding_token=options.padding_token,
        padding_side="left",
    )
    rows, counts = _prompts(options, tokenizer)
    counts["optimizer steps"] = steps = reinforcement_steps(len(rows), training)
    for label, value in counts.items():
        say(f"{label}: {value:,}")
    if not steps:
        raise InputError(
            f"{len(rows)} problems do not fill one batch of "
            f"{training.generation_batch_size // training.num_generations}; lower "
            "effective_batch_size"
        )
    # A dry run sets use_cpu by itself; the recipe's own setting is what counts.
    _choose_rollouts(options, training, say, on_cpu=bool(recipe.settings.get("use_cpu")))
    if options.diversity_weight:
        say(f"warning: {WARNING}")
    if options.dry_run:
        for name, value in recipe.settings.items():
            say(f"{name}: {value}")
        memory = estimate_memory(
            model.model_name_or_path,
            revision=model.model_revision,
            four_bit=model.load_in_4bit,
            lora_rank=model.lora_r if model.use_peft else None,
            tokens=training.per_device_train_batch_size
            * (counts["longest prompt, in tokens"] + training.max_completion_length),
        )
        say(f"memory without rollouts: {memory}")
        return

    output = Path(training.output_dir)
    checkpoint = check_resumable(output, recipe.settings)
    if training.process_index == 0:
        facts = {"method": "grpo", "four_bit": model.load_in_4bit, "counts": counts}
        record_settings(output, recipe.settings, facts)
    if checkpoint is not None:
        say(f"going on from {checkpoint}")

    class Trainer(GRPOTrainer):
        """TRL's trainer with this project's card in place of TRL's draft."""

        def create_model_card(self, *_args: Any, **_kwargs: Any) -> None:
            if not self.is_world_process_zero():
                return
            rewards = [
                (row["step"], row["reward"]) for row in self.state.log_history if "reward" in row
            ]
            card = CardFacts(
                name=(training.hub_model_id or output.resolve().name).split("/")[-1],
                base_model=model.model_name_or_path,
                method=(
                    "GRPO on problems of the AIME" if counts["problems with a year"] else "GRPO"
                )
                + (f" with LoRA (rank {model.lora_r}, alpha {model.lora_alpha})" * model.use_peft),
                library="peft" if model.use_peft else "transformers",
                data=[options.problems],
                counts=counts,
                settings=recipe.settings,
                losses=rewards,
                measure="mean reward",
                tags=("grpo",),
            )
            (output / "README.md").write_text(model_card(card), encoding="utf-8")

    training.model_init_kwargs = {
        **(training.model_init_kwargs or {}),
        "revision": model.model_revision,
        "dtype": model.dtype,
        "attn_implementation": model.attn_implementation,
    }
    with load_grader(options.grader) as grader:
        rewards, training.reward_weights = _rewards(options, grader)
        trainer = Trainer(
            model=model.model_name_or_path,
            reward_funcs=rewards,
            args=training,
            train_dataset=rows,
            processing_class=tokenizer,
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
        )
        # Sharding wants one type for all weights.
        if model.load_in_4bit and not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
            keep_adapters_exact(trainer.model)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finish(trainer, push, say)


def check(options: ReinforcementArguments, training: Any, model: Any) -> None:
    """Refuse what cannot work or would train something else than it says.

    Raises:
        [`InputError`]: With the option to change, or the command that mends it.
    """
    check_start(training, model)
    name = model.model_name_or_path
    if (Path(name) / "adapter_config.json").is_file():
        raise InputError(
            f"{name} is an adapter and GRPO starts from a whole model; merge it first: "
            f"python recipes/merge.py --adapter {name} --output {name}-merged"
        )
    if training.reward_weights is not None:
        raise InputError(
            "set accuracy_weight, format_weight and diversity_weight instead of reward_weights"
        )
    weights = (options.accuracy_weight, options.format_weight, options.diversity_weight)
    if min(weights) < 0 or not any(weights):
        raise InputError(f"the rewards' weights are {weights}; none may be negative or all 0")
    if model.load_in_4bit and options.rollouts == "vllm":
        raise InputError("vLLM cannot take the weights of a 4-bit model; set load_in_4bit: false")


def reinforcement_steps(problems: int, training: Any) -> int:
    """How often the weights change: whole batches of problems only, as TRL's sampler gives them."""
    if training.max_steps > 0:
        return int(training.max_steps)
    batches = problems // (training.generation_batch_size // training.num_generations)
    slices = batches * training.steps_per_generation * training.num_iterations
    epochs: float = training.num_train_epochs
    per_epoch: int = math.ceil(slices / training.gradient_accumulation_steps)
    return math.ceil(epochs * per_epoch)


def _prompts(options: ReinforcementArguments, tokenizer: Any) -> tuple[Any, dict[str, int]]:
    import datasets

    aime = load_aime(options.problems, limit=options.num_problems)
    compared = check_leakage(aime.problems, options.held_out) if options.held_out else 0
    prompts, answers, lengths = [], [], []
    for problem, answer in zip(aime.problems, aime.answers, strict=True):
        content = f"{problem}\n\n{options.prompt_suffix}" if options.prompt_suffix else problem
        prompt = [{"role": "user", "content": content}]
        encoded = tokenizer.apply_chat_template(
            prompt, tokenize=True, add_generation_prompt=True, return_dict=True
        )
        length = len(encoded["input_ids"])
        if length <= options.max_prompt_tokens:
            prompts.append(prompt)
            answers.append(answer)
            lengths.append(length)
    if not prompts:
        raise InputError(
            f"every prompt is longer than max_prompt_tokens {options.max_prompt_tokens}"
        )
    counts = {
        "problems": len(prompts),
        "problems with a year": sum(year is not None for year in aime.years),
        "problems left out for their year": aime.other_years,
        "problems left out as duplicates": aime.duplicates,
        "problems left out as too long": len(aime.problems) - len(prompts),
        "held-out problems compared": compared,
        "longest prompt, in tokens": max(lengths),
    }
    return datasets.Dataset.from_dict({"prompt": prompts, "answer": answers}), counts


def _choose_rollouts(
    options: ReinforcementArguments, training: Any, say: Any, *, on_cpu: bool
) -> None:
    import torch

    who = options.rollouts
    installed = importlib.util.find_spec("vllm") is not None
    if who == "auto":
        gpu = torch.cuda.is_available() and not on_cpu
        who = ("vllm" if installed else "continuous") if gpu else "generate"
    if who == "vllm" and not installed:
        raise InputError("vLLM is not installed: pip install vllm, or pass --rollouts continuous")
    training.use_vllm = who == "vllm"
    training.use_transformers_continuous_batching = who == "continuous"
    say(f"rollouts: {who}")


def _rewards(options: ReinforcementArguments, grader: GraderLike) -> tuple[list[Any], list[float]]:
    chosen: list[tuple[Any, float]] = []
    if options.accuracy_weight:
        chosen.append((AccuracyReward(grader), options.accuracy_weight))
    if options.format_weight:
        chosen.append((FormatReward(), options.format_weight))
    if options.diversity_weight:
        summarizer, embedder = load_summarizer(options.summarizer), load_embedder(options.embedder)
        reward = DiversityReward(grader, summarizer, embedder)
        chosen.append((reward, options.diversity_weight))
    return [reward for reward, _ in chosen], [weight for _, weight in chosen]


if __name__ == "__main__":
    sys.exit(run_script("recipes/grpo.py", main))
