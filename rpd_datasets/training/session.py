"""One training run, from its command line to its saved model: what all recipes have in common.

A recipe parses its options with [`open_session`], prepares its data, shows what it counted, and
ends in [`Session.show_settings`] (a dry run) or [`Session.train`].
"""

import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rpd_datasets.destination import check_output
from rpd_datasets.instructions import prompt_template
from rpd_datasets.training.held_out import HeldOut, measure_while_training
from rpd_datasets.training.recipe import parse_recipe
from rpd_datasets.training.record import (
    base_license,
    check_resumable,
    read_record,
    record_settings,
    run_names,
    write_card,
)
from rpd_datasets.training.tokenizer import keep_ends_only, load_tokenizer
from rpd_datasets.training.trainers import (
    keep_adapters_exact,
    keep_gradients_exact,
    log_changed_weights,
)
from rpd_metric.errors import InputError

SMOKE_STEPS = 2
# Enough for two steps of every recipe here.
SMOKE_ROWS = 64
# TRL would push the folder after every save, publicly, with whatever lies in it.
PUBLISHING = ("push_to_hub", "hub_always_push", "hub_model_id", "hub_token", "hub_revision")


class TrainingMethod(NamedTuple):
    """How a model was trained, for its card; `watched` is the logged value that it shows."""

    name: Literal["sft", "grpo"]
    description: str
    data: Sequence[str]
    watched: str
    measure: str


@dataclass(frozen=True)
class Session:
    """A run's parsed options, and the steps that all recipes share."""

    options: Any  # this project's own
    training: Any  # a transformers.TrainingArguments
    model: Any  # a trl.ModelConfig
    settings: dict[str, Any]  # every option that is named or differs from its default

    @property
    def output(self) -> Path:
        """The folder of the run."""
        return Path(self.training.output_dir)

    def log(self, line: str) -> None:
        """Print a line on stderr, from the first process only."""
        if self.training.process_index == 0:
            sys.stderr.write(line + "\n")

    def load_tokenizer(self, **options: Any) -> Any:
        """The model's tokenizer, see [`load_tokenizer`]."""
        return load_tokenizer(
            self.model.model_name_or_path,
            revision=self.model.model_revision,
            padding_token=self.options.padding_token,
            **options,
        )

    def show(self, counts: Mapping[str, int]) -> None:
        """Print counts, one a line."""
        for label, value in counts.items():
            self.log(f"{label}: {value:,}")

    def show_settings(self, steps: int) -> None:
        """Print the settings, which attention it will be, and how long that many steps take."""
        for name, value in self.settings.items():
            self.log(f"{name}: {value}")
        self.log(f"attention: {self.model.attn_implementation or 'sdpa'}")
        if (seconds := self.options.seconds_per_step) is None:
            self.log("hours: unknown; --smoke times a step, and --seconds_per_step states it")
        else:
            self.log(f"hours: {steps * seconds / 3600:.1f}")

    def train(
        self,
        kind: type,
        method: TrainingMethod,
        counts: Mapping[str, int],
        held_out: HeldOut | None,
        **inputs: Any,
    ) -> None:
        """Train with one of TRL's trainers, or continue; save, describe and publish the model.

        `method` and `counts` are for the record and the card, `inputs` for the trainer.
        """
        if self.options.smoke:
            self._smoke(kind, inputs, counts["optimizer steps"])
            return
        checkpoint = check_resumable(self.output, self.settings, self.log)
        if self.training.process_index == 0:
            facts = {
                "method": method.name,
                "four_bit": self.model.load_in_4bit,
                "counts": counts,
                # A prompt as the model sees it, {problem} in the problem's place.
                "prompt_format": inputs["processing_class"].apply_chat_template(
                    [{"role": "user", "content": prompt_template(self.options.prompt)}],
                    tokenize=False,
                    add_generation_prompt=True,
                ),
                "base_license": base_license(self.model.model_name_or_path),
            }
            record_settings(self.output, self.settings, facts)
        trainer = self._trainer(kind, inputs)
        if held_out is not None:
            measure_while_training(trainer, held_out)
        # In place of TRL's draft, which every checkpoint would write.
        trainer.create_model_card = lambda *_, **__: self._write_card(trainer, method)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        self._finish(trainer)

    def _smoke(self, kind: type, inputs: dict[str, Any], steps: int) -> None:
        """Train two steps, save nothing and print the peak of memory."""
        self.training.max_steps = SMOKE_STEPS
        self.training.save_strategy = "no"
        rows = inputs["train_dataset"]
        tokens = "input_ids" in rows.column_names
        lengths = [len(row["input_ids"] if tokens else str(row["prompt"])) for row in rows]
        longest = sorted(range(len(rows)), key=lambda place: -lengths[place])
        inputs["train_dataset"] = rows.select(longest[:SMOKE_ROWS])
        with tempfile.TemporaryDirectory() as scratch:
            self.training.output_dir = scratch
            seconds = self._trainer(kind, inputs).train().metrics["train_runtime"]
        self.log(
            f"peak memory of {SMOKE_STEPS} steps: {peak_memory() / 1e9:.2f} GB; "
            f"{seconds / SMOKE_STEPS:.2f} s a step, with which {steps} steps take "
            f"{steps * seconds / SMOKE_STEPS / 3600:.1f} hours"
        )

    def _trainer(self, kind: type, inputs: dict[str, Any]) -> Any:
        from trl.trainer.utils import get_peft_config, get_quantization_config

        model = self.model
        self.training.model_init_kwargs = {
            **(self.training.model_init_kwargs or {}),
            "revision": model.model_revision,
            "dtype": model.dtype,
            "attn_implementation": model.attn_implementation,
        }
        trainer = kind(
            model=model.model_name_or_path,
            args=self.training,
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
            **inputs,
        )
        if model.load_in_4bit:
            keep_gradients_exact(trainer.model)
        keep_adapters_exact(trainer.model)
        log_changed_weights(trainer, self.log)
        experts = [name for name, _ in trainer.model.named_parameters() if ".experts." in name]
        if model.use_peft and experts and not any("lora_" in name for name in experts):
            self.log("warning: experts get no adapter; name theirs in lora_target_parameters")
        return trainer

    def _write_card(self, trainer: Any, method: TrainingMethod) -> None:
        if not trainer.is_world_process_zero():
            return
        model, history = self.model, trainer.state.log_history
        weights = "of all weights"
        if model.use_peft:
            adapter = "4-bit QLoRA" if model.load_in_4bit else "LoRA"
            weights = f"with {adapter} (rank {model.lora_r}, alpha {model.lora_alpha})"
        write_card(
            self.output,
            read_record(self.output),
            base_model=model.model_name_or_path,
            method=f"{method.description} {weights}",
            library="peft" if model.use_peft else "transformers",
            data=method.data,
            losses=[(row["step"], row[method.watched]) for row in history if method.watched in row],
            measure=method.measure,
        )

    def _finish(self, trainer: Any) -> None:
        unwrapped = trainer.accelerator.unwrap_model(trainer.model)
        keep_ends_only(unwrapped, trainer.processing_class)
        trainer.save_model()
        if trainer.is_world_process_zero():
            # An adapter is saved without it, and a server needs to know where an answer ends.
            unwrapped.generation_config.save_pretrained(self.output)
        trainer.create_model_card()
        self.log(f"saved {self.output}")
        if (self.output / "adapter_config.json").is_file():
            merged = f"{self.output}-merged"
            self.log(
                f"merge it: python recipes/merge.py --adapter {self.output} --output {merged}\n"
                f"measure it: python recipes/passk.py --benchmark aime24 --model {merged}"
            )
        trainer.end()


def open_session(kinds: Sequence[type], arguments: Sequence[str], *, prog: str) -> Session:
    """Parse and check a recipe; `kinds` are our options, TRL's trainer's and the model's."""
    recipe = parse_recipe(kinds, arguments, prog=prog)
    options, training, model = recipe.parts
    if not model.model_name_or_path:
        raise InputError("no model: set model_name_or_path, or start from a --config")
    name = str(model.model_name_or_path)
    if not Path(name).exists() and (name.count("/") > 1 or name.startswith(("merged/", "runs/"))):
        raise InputError(
            f"{name} is neither a folder nor a Hub id. Merge a fine-tuned model first: "
            f"python recipes/merge.py --adapter {name.replace('merged/', 'runs/', 1)} "
            f"--output {name}"
        )
    if not training.output_dir:
        raise InputError("no output_dir: where is the model to be saved?")
    if training.process_index == 0 and not (options.dry_run or options.smoke):
        check_output(Path(training.output_dir), run_names)
    if training.resume_from_checkpoint is not None:
        raise InputError(
            "a run continues from the last checkpoint in its output_dir by itself; leave "
            "resume_from_checkpoint out"
        )
    if training.eval_strategy != "no":
        raise InputError(
            "a recipe has no set for eval_strategy: --measure_every and --measure_problems sample "
            "held-out problems while it trains"
        )
    if named := [name for name in PUBLISHING if getattr(training, name)]:
        raise InputError(
            f"leave {named[0]} out: rpd push {training.output_dir} NAME publishes the model, once, "
            "privately, and without secrets"
        )
    # A resumed run has to keep these products, not their factors.
    at_once = training.per_device_train_batch_size * training.world_size
    batch = {"effective_batch_size": at_once * training.gradient_accumulation_steps}
    if hasattr(training, "generation_batch_size"):
        batch["generation_batch_size"] = training.generation_batch_size
    session = Session(options, training, model, recipe.settings | batch)
    if not model.use_peft and model.load_in_4bit:
        raise InputError(
            "4-bit weights cannot be trained: set use_peft: true, or load_in_4bit: false"
        )
    if not model.use_peft and model.dtype != "float32":
        session.log(f"all weights are trained, in float32: {model.dtype} rounds most updates away")
        model.dtype = session.settings["dtype"] = "float32"
    return session


def peak_memory() -> int:
    """The peak memory of this process in bytes, of its GPU or else of the machine."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
