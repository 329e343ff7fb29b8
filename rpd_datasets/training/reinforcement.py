"""What reinforcement learning needs beside a trainer: prompts, steps, rewards, who samples.

Not here: the rewards themselves (`reward_functions.py`) and where problems come from (`aime.py`).
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.training.aime import load_aime
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_datasets.training.reward_functions import AccuracyReward, DiversityReward, FormatReward
from rpd_datasets.training.training_rows import with_prompt, without_contaminated
from rpd_metric.errors import InputError
from rpd_metric.grading.custom import GraderLike
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.summarizers import load_summarizer


def check_reinforcement(options: ReinforcementOptions, training: Any, model: Any) -> None:
    """Refuse what cannot work or would train something else than it says."""
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
    if training.eval_strategy != "no":
        raise InputError(
            "GRPO has no held-out set here; measure with recipes/passk.py instead of eval_strategy"
        )
    weights = (options.accuracy_weight, options.format_weight, options.diversity_weight)
    if min(weights) < 0 or not any(weights):
        raise InputError(f"the rewards' weights are {weights}; none may be negative or all 0")
    local = training.generation_batch_size // training.world_size
    if (options.diversity_weight or options.watch_diversity) and local % training.num_generations:
        raise InputError(
            f"each process would see {local} completions, no multiple of the "
            f"{training.num_generations} of a problem, and diversity is measured among what one "
            "process sees; raise effective_batch_size to a multiple of num_generations x processes"
        )


def load_prompts(
    options: ReinforcementOptions,
    tokenizer: Any,
    contamination: Contamination | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Any, dict[str, int]]:
    """The problems as a `datasets.Dataset` of `prompt` and `answer`, and counts by label."""
    import datasets

    problems, of_problems = load_aime(options.problems, limit=options.num_problems)
    rows = datasets.Dataset.from_list(
        [{"prompt": [{"role": "user", "content": text}], "answer": a} for text, a in problems]
    )
    rows, contaminated = without_contaminated(rows, contamination, say)
    rows = with_prompt(rows, options.prompt)
    lengths = [
        len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False))
        for prompt in rows["prompt"]
    ]
    kept = [place for place, n in enumerate(lengths) if n <= options.max_prompt_tokens]
    if not kept:
        raise InputError(
            f"every prompt is longer than max_prompt_tokens {options.max_prompt_tokens}"
        )
    counts = {
        "problems": len(kept),
        **of_problems,
        "problems left out as too long": len(rows) - len(kept),
        "problems left out as contaminated": contaminated,
        "problems of benchmarks compared": sum(contamination.sizes.values())
        if contamination
        else 0,
        "longest prompt, in tokens": max(lengths[place] for place in kept),
    }
    return rows.select(kept), counts


def reinforcement_steps(problems: int, training: Any) -> int:
    """How often the weights change: TRL's sampler gives whole batches of problems only."""
    if training.max_steps > 0:
        return int(training.max_steps)
    batch = training.generation_batch_size // training.num_generations
    slices = problems // batch * training.steps_per_generation * training.num_iterations
    per_epoch: int = math.ceil(slices / training.gradient_accumulation_steps)
    steps: int = math.ceil(training.num_train_epochs * per_epoch)
    if not steps:
        raise InputError(
            f"{problems} problems do not fill one batch of {batch}; lower effective_batch_size"
        )
    return steps


def choose_rollouts(
    options: ReinforcementOptions, training: Any, model: Any, *, on_cpu: bool
) -> str:
    """Write into a run's `GRPOConfig` who samples completions, and return it.

    `on_cpu` is whether the recipe itself asks for the CPU, which a dry run does not tell.
    """
    import torch

    sampler: str = options.rollouts
    installed = importlib.util.find_spec("vllm") is not None
    if sampler == "auto":
        gpu = torch.cuda.is_available() and not on_cpu
        found = "vllm" if installed and not model.load_in_4bit else "continuous"
        sampler = found if gpu else "generate"
    if sampler == "vllm":
        if not installed:
            raise InputError(
                "vLLM is not installed: pip install -e '.[vllm]', or pass --rollouts continuous"
            )
        if model.load_in_4bit:
            raise InputError(
                "vLLM cannot take the weights of a 4-bit model; set load_in_4bit: false"
            )
        if model.use_peft and os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"):
            raise InputError(
                "an adapter of sharded weights was never merged for vLLM; use "
                "recipes/accelerate/ddp.yaml, where each GPU holds the model and its own vLLM"
            )
    training.use_vllm = sampler == "vllm"
    training.use_transformers_continuous_batching = sampler == "continuous"
    return sampler


def advantage_change(
    options: ReinforcementOptions, rewards: Sequence[Any]
) -> Callable[[Any], Any] | None:
    """What is done with advantages, one per completion, after the group's scaling, if anything.

    Inside the sum, a group whose completions are all right and differ a little has its small
    differences scaled up to full strength; outside of it a bonus stays as small as its weight.
    """
    if not options.diversity_weight or options.diversity_as == "reward":
        return None
    (diversity,) = [reward for reward in rewards if isinstance(reward, DiversityReward)]

    def add_bonus(advantages: Any) -> Any:
        return advantages + options.diversity_weight * advantages.new_tensor(diversity.rewards)

    def weigh(advantages: Any) -> Any:
        return advantages * advantages.new_tensor(diversity.rarity)

    return add_bonus if options.diversity_as == "bonus" else weigh


def load_rewards(
    options: ReinforcementOptions, grader: GraderLike
) -> tuple[list[Any], list[float]]:
    """The rewards with a weight above 0 and those that are only watched, and their weights."""
    chosen: list[tuple[Any, float]] = []
    if options.accuracy_weight:
        chosen.append((AccuracyReward(grader), options.accuracy_weight))
    if options.format_weight:
        chosen.append((FormatReward(), options.format_weight))
    if options.diversity_weight or options.watch_diversity:
        summarizer, embedder = load_summarizer(options.summarizer), load_embedder(options.embedder)
        reward = DiversityReward(grader, summarizer, embedder, threshold=options.strategy_threshold)
        # Beside the group's scaling it is computed and logged, and no part of the sum.
        in_sum = options.diversity_as == "reward"
        chosen.append((reward, options.diversity_weight if in_sum else 0.0))
    return [reward for reward, _ in chosen], [weight for _, weight in chosen]
