r"""Reinforcement learning with GRPO on the AIME of 1983 to 2023 (App. E.4 of the paper).

    python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s \
        --output merged/qwen3-4b-base/rpd_1p3s
    accelerate launch recipes/grpo.py --config recipes/configs/qwen3-4b-base/grpo/rpd_1p3s.yaml

It starts from a whole model, never from an adapter. Rewards: the right answer by this project's
own grader, a readable form, and, off unless asked for, diversity among right answers
(`--diversity_weight`). The same command continues an interrupted run; `--dry_run` shows what a
recipe would do and loads no weights. The options are TRL's (`GRPOConfig`, `ModelConfig`) and those
of `rpd_datasets.training.recipe.ReinforcementOptions`.
"""

import os
import sys
from collections.abc import Sequence

# Before anything imports huggingface_hub: TRL reports every trainer that is made. Consent is
# given by setting the variable to 0.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.commands import run_command
from rpd_datasets.evaluation.benchmarks import load_answers
from rpd_datasets.evaluation.decontamination import load_contamination
from rpd_datasets.training.held_out import load_held_out
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_datasets.training.reinforcement import (
    check_reinforcement,
    check_sampler,
    load_prompts,
    load_rewards,
    reinforcement_steps,
)
from rpd_datasets.training.session import TrainingMethod, open_session
from rpd_datasets.training.trainers import sampling_exactly
from rpd_metric.errors import needs_extra
from rpd_metric.grading.custom import load_grader

WARNING = (
    "the diversity reward is on. A policy can raise a diversity measure without solving anything "
    "in another way (arXiv 2606.29985): watch diversity/distance against diversity/wording, "
    "diversity/length and rewards/accuracy"
)


def main(arguments: Sequence[str]) -> None:
    """Train by a recipe; see the module's docstring."""
    with needs_extra("training", "training"):
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer
        from trl.trainer.model_config import ModelConfig

    kinds = (ReinforcementOptions, GRPOConfig, ModelConfig)
    session = open_session(kinds, arguments, prog="recipes/grpo.py")
    options, training = session.options, session.training
    check_reinforcement(options, training, session.model)
    tokenizer = session.load_tokenizer(end_token=options.end_token, padding_side="left")
    measured = load_held_out(options, tokenizer, load_answers, session.log)
    contamination = load_contamination(options.decontaminate, say=session.log)
    rows, counts = load_prompts(options, tokenizer, contamination, session.log)
    counts["optimizer steps"] = reinforcement_steps(len(rows), training)
    session.show(counts)
    if options.diversity_weight:
        session.log(f"warning: {WARNING}")
    if options.dry_run:
        session.show_settings(counts["optimizer steps"])
        return
    check_sampler(training, session.model)
    of_aime = " on problems of the AIME" if counts["problems with a year"] else ""
    method = TrainingMethod("grpo", f"GRPO{of_aime}", [options.problems], "reward", "mean reward")
    with load_grader(options.grader) as grader:
        rewards, training.reward_weights = load_rewards(options, grader)
        session.train(
            sampling_exactly(GRPOTrainer),
            method,
            counts,
            measured,
            train_dataset=rows,
            processing_class=tokenizer,
            reward_funcs=rewards,
        )


if __name__ == "__main__":
    sys.exit(run_command("recipes/grpo.py", lambda: main(sys.argv[1:])))
