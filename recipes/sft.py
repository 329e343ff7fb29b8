r"""Supervised fine-tuning with LoRA on curated solutions (Sec. 4.2 and App. E of the paper).

    rpd curate sample --num-problems 8 --output data/sample
    accelerate launch recipes/sft.py --config recipes/configs/qwen3-4b-base/sft/rpd_1p3s.yaml \
        --data data/sample --num_samples 24

The loss is computed on the solutions only, no sample is cut, and the token that ends an answer
is learnt. The same command goes on where an interrupted run stopped. `--dry_run` shows what a
recipe would do and loads no weights. The options are TRL's (`SFTConfig`, `ModelConfig`) and those
of `rpd_datasets.training.data.DataArguments`; the recipes' README has one command per row of the
paper's tables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Before anything imports huggingface_hub: TRL reports every trainer that is made. Consent is
# given by setting the variable to 0.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.data import (
    DataArguments,
    TokenizedRows,
    keep_adapters_exact,
    load_pinned,
    load_tokenizer,
    optimizer_steps,
    tokenize_rows,
)
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
from rpd_metric.errors import InputError

FLASH = ("flash_attention_2", "flash_attention_3", "kernels-community/")


def main(arguments: Sequence[str]) -> None:
    """Train by a recipe; see the module's docstring."""
    from trl.trainer.model_config import ModelConfig
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer
    from trl.trainer.utils import get_peft_config, get_quantization_config

    recipe = parse_recipe((DataArguments, SFTConfig, ModelConfig), arguments, prog="recipes/sft.py")
    data, training, model = recipe.parts
    check(data, training, model)
    say = speaker(training)
    push = take_push(training, model, recipe.settings)

    tokenizer = load_tokenizer(
        model.model_name_or_path,
        revision=model.model_revision,
        end_token=training.eos_token,
        padding_token=data.padding_token,
        template=training.chat_template_path,
    )
    rows, sources = load_pinned(data.data, config=data.data_config, split=data.data_split)
    # A run goes on with the very rows it began with, and its card names them.
    recipe.settings["data"] = sources
    if data.num_samples is not None and len(rows) != data.num_samples:
        raise InputError(
            f"the recipe is for {data.num_samples} samples and {', '.join(data.data)} holds "
            f"{len(rows)}; use the data it is for, or pass --num_samples {len(rows)}"
        )
    samples = tokenize_rows(rows, tokenizer, max_length=training.max_length, too_long=data.too_long)
    steps = _steps(samples, training)
    counts = {
        "samples": samples.num_rows - samples.num_dropped,
        "samples left out as too long": samples.num_dropped,
        "tokens per epoch": samples.num_tokens,
        "of them learnt": samples.num_learnt,
        "longest sample, in tokens": samples.longest,
        "optimizer steps": steps,
    }
    for label, value in counts.items():
        say(f"{label}: {value:,}")
    if data.dry_run:
        for name, value in recipe.settings.items():
            say(f"{name}: {value}")
        memory = estimate_memory(
            model.model_name_or_path,
            revision=model.model_revision,
            four_bit=model.load_in_4bit,
            lora_rank=model.lora_r if model.use_peft else None,
            tokens=training.per_device_train_batch_size * samples.longest,
        )
        say(f"memory: {memory}")
        return

    output = Path(training.output_dir)
    checkpoint = check_resumable(output, recipe.settings)
    if training.process_index == 0:
        facts = {"method": "sft", "four_bit": model.load_in_4bit, "counts": counts}
        record_settings(output, recipe.settings, facts)
    if checkpoint is not None:
        say(f"going on from {checkpoint}")

    class Trainer(SFTTrainer):
        """TRL's trainer with this project's card in place of TRL's draft."""

        def create_model_card(self, *_args: Any, **_kwargs: Any) -> None:
            if not self.is_world_process_zero():
                return
            losses = [(row["step"], row["loss"]) for row in self.state.log_history if "loss" in row]
            card = CardFacts(
                name=(training.hub_model_id or output.resolve().name).split("/")[-1],
                base_model=model.model_name_or_path,
                method=_method(model),
                library="peft" if model.use_peft else "transformers",
                data=sources,
                counts=counts,
                settings=recipe.settings,
                losses=losses,
                tags=("sft",),
            )
            (output / "README.md").write_text(model_card(card), encoding="utf-8")

    training.model_init_kwargs = {
        **(training.model_init_kwargs or {}),
        "revision": model.model_revision,
        "dtype": model.dtype,
        "attn_implementation": model.attn_implementation,
    }
    trainer = Trainer(
        model=model.model_name_or_path,
        args=training,
        train_dataset=samples.dataset,
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model),
        peft_config=get_peft_config(model),
    )
    # Sharding wants one type for all weights.
    if model.load_in_4bit and not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        keep_adapters_exact(trainer.model)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finish(trainer, push, say)


def check(data: DataArguments, training: Any, model: Any) -> None:
    """Refuse what would train something else than it says.

    Raises:
        [`InputError`]: With the option to change.
    """
    check_start(training, model)
    if not data.data:
        raise InputError("no data: name a curated folder, e.g. --data data/rpd_1p3s")
    attention = model.attn_implementation or ""
    if training.packing and not attention.startswith(FLASH):
        raise InputError(
            "packing lets samples attend to each other unless the attention knows their borders; "
            "set attn_implementation: flash_attention_2, or packing: false"
        )
    if training.packing and training.packing_strategy != "bfd":
        raise InputError(
            f"packing_strategy {training.packing_strategy} cuts samples in two; use bfd"
        )
    if training.packing and training.max_length is None:
        raise InputError("packing needs max_length, the length of a pack")


def _steps(samples: TokenizedRows, training: Any) -> int:
    rows = samples.dataset
    if training.packing:
        from trl.data_utils import pack_dataset

        rows = pack_dataset(rows, training.max_length, training.packing_strategy)
    return optimizer_steps(
        len(rows),
        per_device=training.per_device_train_batch_size,
        processes=training.world_size,
        accumulation=training.gradient_accumulation_steps,
        epochs=training.num_train_epochs,
        max_steps=training.max_steps,
    )


def _method(model: Any) -> str:
    if not model.use_peft:
        return "supervised fine-tuning of all weights"
    kind = "4-bit QLoRA" if model.load_in_4bit else "LoRA"
    return f"supervised fine-tuning with {kind} (rank {model.lora_r}, alpha {model.lora_alpha})"


if __name__ == "__main__":
    sys.exit(run_script("recipes/sft.py", main))
