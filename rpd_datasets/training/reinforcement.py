"""What reinforcement learning needs beside a trainer: problems, steps, rewards, who samples.

The problems are those of the AIME from 1983 to 2023. The dataset that the paper names also holds
2024, a benchmark: other years are left out and counted.
"""

import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rpd_datasets.filters.contamination import Contamination, words_of
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_datasets.training.recipe import AIME_ID, ReinforcementOptions
from rpd_datasets.training.reward_functions import AccuracyReward, FormatReward, load_diversity
from rpd_datasets.training.training_rows import with_prompt, without_contaminated
from rpd_metric.errors import InputError, install_line
from rpd_metric.grading.custom import GraderLike

FIRST_YEAR, LAST_YEAR = 1983, 2023


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
    weights = (options.accuracy_weight, options.format_weight, options.diversity_weight)
    if min(weights) < 0 or not any(weights):
        raise InputError(f"the rewards' weights are {weights}; none may be negative or all 0")
    local = training.generation_batch_size // training.world_size
    if options.diversity_weight and local % training.num_generations:
        raise InputError(
            f"each process sees {local} completions, not a multiple of num_generations "
            f"({training.num_generations}), and diversity is measured within a process; raise "
            "effective_batch_size to a multiple of num_generations x processes"
        )


def load_aime(
    spec: str = AIME_ID, *, limit: int | None = None
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """The problems of 1983 to 2023 with their answers, and counts by label.

    `spec` is a Hub id, or a file with problem and answer; problems of one's own have no year.
    `limit` takes only the first so many.
    """
    problems: dict[str, tuple[str, str, int | None]] = {}
    other_years = duplicates = 0
    for problem, answer, year in _rows(spec):
        # Copies of a problem of the AIME differ in spacing and LaTeX; one's own may differ in no
        # more than that.
        key = problem if year is None else " ".join(words_of(problem))
        if year is not None and not FIRST_YEAR <= year <= LAST_YEAR:
            other_years += 1
        elif key in problems:
            duplicates += 1
        else:
            problems[key] = (problem, answer, year)
    if not problems:
        raise InputError(f"{spec} has no problem of {FIRST_YEAR} to {LAST_YEAR}")
    first = list(problems.values())[:limit]
    return [(problem, answer) for problem, answer, _ in first], {
        "problems with a year": sum(year is not None for _, _, year in first),
        "problems left out for their year": other_years,
        "problems left out as duplicates": duplicates,
    }


def _rows(spec: str) -> Iterator[tuple[str, str, int | None]]:
    """The problem, answer and year of each row, however they are spelt."""
    for row in open_rows(spec, InputSpec(), streaming=False):
        if not isinstance(row, Row):
            raise InputError(f"{spec} cannot be read. {row.where}: {row.detail}")
        cells = {name.lower(): cell for name, cell in row.values.items() if cell is not None}
        problem, answer = cells.get("problem", cells.get("question")), cells.get("answer")
        if problem is None or answer is None:
            raise InputError(f"{spec} has a row without {'answer' if problem else 'problem'}")
        year = cells.get("year")
        try:
            yield str(problem), str(answer), None if year is None else int(year)
        except (TypeError, ValueError):
            raise InputError(f"the year must be a number, got {year!r} in {spec}") from None


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
    short = [row for row, length in enumerate(lengths) if length <= options.max_prompt_tokens]
    if not short:
        raise InputError(
            f"every prompt is longer than max_prompt_tokens {options.max_prompt_tokens}"
        )
    counts = {
        "problems": len(short),
        **of_problems,
        "problems left out as too long": len(rows) - len(short),
        "problems left out as contaminated": contaminated,
        "problems of benchmarks compared": sum(
            contamination.sizes.values() if contamination else ()
        ),
        "longest prompt, in tokens": max(lengths[row] for row in short),
    }
    return rows.select(short), counts


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


def check_sampler(training: Any, model: Any) -> None:
    """Refuse a run whose completions could not be sampled as its `GRPOConfig` says."""
    # Before continuous batching TRL casts the whole model in place, and never casts it back.
    if training.use_transformers_continuous_batching:
        raise InputError("leave use_transformers_continuous_batching out: it rounds the weights")
    if not training.use_vllm:
        return
    if importlib.util.find_spec("vllm") is None:
        raise InputError(f"vLLM is not installed: {install_line('vllm')}. Or pass --use_vllm false")
    if model.load_in_4bit:
        raise InputError("vLLM cannot take the weights of a 4-bit model; set load_in_4bit: false")
    if model.use_peft and os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"):
        raise InputError(
            "an adapter of sharded weights was never merged for vLLM; use "
            "recipes/accelerate/ddp.yaml, where each GPU holds the model and its own vLLM"
        )


def load_rewards(
    options: ReinforcementOptions, grader: GraderLike
) -> tuple[list[Any], list[float]]:
    """The rewards with a weight above 0, and their weights."""
    chosen: list[tuple[Any, float]] = []
    if options.accuracy_weight:
        chosen.append((AccuracyReward(grader), options.accuracy_weight))
    if options.format_weight:
        chosen.append((FormatReward(), options.format_weight))
    if options.diversity_weight:
        diversity = load_diversity(grader, options.summarizer, options.embedder)
        chosen.append((diversity, options.diversity_weight))
    return [reward for reward, _ in chosen], [weight for _, weight in chosen]
