r"""Supervised fine-tuning with LoRA on curated solutions (Sec. 4.2 and App. E of the paper).

    rpd curate sample --num-problems 8 --output data/sample
    accelerate launch recipes/sft.py --config recipes/configs/qwen3-4b-base/sft/rpd_1p3s.yaml \
        --data data/sample --num_samples 24

The loss is computed on the solutions only, with `--assistant_only_loss true` only on the model's
turns of them. No sample is cut, and the token that ends an answer is learnt. The same command
continues an interrupted run. `--dry_run` shows what a recipe would do and loads no weights. The
options are TRL's (`SFTConfig`, `ModelConfig`) and those of
`rpd_datasets.training.recipe.SupervisedOptions`; the recipes' README has one command per row of the
paper's tables.
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
from rpd_datasets.training.recipe import SupervisedOptions
from rpd_datasets.training.session import TrainingMethod, open_session
from rpd_datasets.training.tokenizer import assistant_template
from rpd_datasets.training.training_rows import (
    check_data,
    load_rows,
    other_turns_learnt,
    supervised_steps,
    tokenize_rows,
    with_prompt,
    without_contaminated,
)
from rpd_metric.errors import needs_extra


def main(arguments: Sequence[str]) -> None:
    """Train by a recipe; see the module's docstring."""
    with needs_extra("training", "training"):
        from trl.trainer.model_config import ModelConfig
        from trl.trainer.sft_config import SFTConfig
        from trl.trainer.sft_trainer import SFTTrainer

    kinds = (SupervisedOptions, SFTConfig, ModelConfig)
    session = open_session(kinds, arguments, prog="recipes/sft.py")
    options, training = session.options, session.training
    check_data(options, training)
    tokenizer = session.load_tokenizer(
        end_token=training.eos_token, template=training.chat_template_path
    )
    rows, sources = load_rows(
        options.data,
        config=options.data_config,
        split=options.data_split,
        num_samples=options.num_samples,
    )
    # A run continues with the very rows it began with, and its card names them.
    session.settings["data"] = sources
    measured = load_held_out(options, tokenizer, load_answers, session.log)
    contamination = load_contamination(options.decontaminate, say=session.log)
    rows, contaminated = without_contaminated(rows, contamination, session.log)
    rows = with_prompt(rows, options.prompt)
    template = assistant_template(tokenizer) if training.assistant_only_loss else None
    if template is None and (warning := other_turns_learnt(rows)):
        session.log(warning)
    # The labels of the rows say it; TRL refuses the option for rows of token ids.
    training.assistant_only_loss = False
    samples = tokenize_rows(
        rows,
        tokenizer,
        max_length=training.max_length,
        too_long=options.too_long,
        rewritten=options.rewritten,
        assistant_template=template,
    )
    counts = {
        **samples.counts,
        "samples left out as contaminated": contaminated,
        "optimizer steps": supervised_steps(samples.dataset, training),
    }
    session.show(counts)
    if options.dry_run:
        session.show_settings(counts["optimizer steps"])
        return
    session.train(
        SFTTrainer,
        TrainingMethod("sft", "supervised fine-tuning", sources, "loss", "loss"),
        counts,
        measured,
        train_dataset=samples.dataset,
        processing_class=tokenizer,
    )


if __name__ == "__main__":
    sys.exit(run_command("recipes/sft.py", lambda: main(sys.argv[1:])))
