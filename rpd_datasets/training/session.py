"""One training run, from its command line to its saved model: what all recipes have in common.

A recipe parses its options with [`open_session`], prepares its data, shows what it counted, and
ends in [`Session.show_plan`] (a dry run) or [`Session.train`]. Not here: data, rewards and which
of TRL's trainers is used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.memory import estimate_memory
from rpd_datasets.training.precision import keep_adapters_exact
from rpd_datasets.training.push import ModelPush, take_push
from rpd_datasets.training.recipe import parse_recipe
from rpd_datasets.training.record import check_resumable, record_settings
from rpd_datasets.training.tokenizer import load_tokenizer
from rpd_metric.errors import InputError


@dataclass(frozen=True)
class TrainingMethod:
    """What a model card says of the way a model was trained.

    Args:
        name (`str`): `"sft"` or `"grpo"`.
        description (`str`): In a few words, without the adapter.
        data (`Sequence[str]`): The data sources.
        watched (`str`): The logged value that the card shows, e.g. `"loss"`.
        measure (`str`): What the card calls it.
    """

    name: str
    description: str
    data: Sequence[str]
    watched: str
    measure: str


@dataclass(frozen=True)
class Session:
    """A run's parsed options, and what is done with them in every recipe.

    Args:
        options: This project's own options, e.g.
            [`~rpd_datasets.training.arguments.SupervisedArguments`].
        training (`transformers.TrainingArguments`): TRL's options of the trainer.
        model (`trl.ModelConfig`): TRL's options of the model.
        settings (`dict`): Every option that the recipe names or that differs from its default.
        push ([`~rpd_datasets.training.push.ModelPush`], *optional*): Where the model is published.
    """

    options: Any
    training: Any
    model: Any
    settings: dict[str, Any]
    push: ModelPush | None

    @property
    def output(self) -> Path:
        """The folder of the run."""
        return Path(self.training.output_dir)

    def log(self, line: str) -> None:
        """Print a line on stderr, once for all processes of a run."""
        if self.training.process_index == 0:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def load_tokenizer(
        self,
        *,
        end_token: str | None,
        template: str | None = None,
        padding_side: Literal["left", "right"] = "right",
    ) -> Any:
        """The model's tokenizer; see [`~rpd_datasets.training.tokenizer.load_tokenizer`]."""
        return load_tokenizer(
            self.model.model_name_or_path,
            revision=self.model.model_revision,
            end_token=end_token,
            padding_token=self.options.padding_token,
            template=template,
            padding_side=padding_side,
        )

    def show(self, counts: Mapping[str, int]) -> None:
        """Print counts, one a line."""
        for label, value in counts.items():
            self.log(f"{label}: {value:,}")

    def show_plan(self, *, tokens: int, title: str) -> None:
        """Print the settings and an estimate of memory: the end of a dry run.

        Args:
            tokens (`int`): Tokens in the largest batch of one device.
            title (`str`): What the estimate is called.
        """
        for name, value in self.settings.items():
            self.log(f"{name}: {value}")
        memory = estimate_memory(
            self.model.model_name_or_path,
            revision=self.model.model_revision,
            four_bit=self.model.load_in_4bit,
            lora_rank=self.model.lora_r if self.model.use_peft else None,
            tokens=tokens,
        )
        self.log(f"{title}: {memory}")

    def train(
        self, kind: type, method: TrainingMethod, counts: Mapping[str, int], **inputs: Any
    ) -> Any:
        """Train, or continue an interrupted run, and save, describe and publish the model.

        Args:
            kind (`type`): One of TRL's trainers.
            method ([`TrainingMethod`]): For the card.
            counts (`Mapping`): Samples, tokens, steps and the like, for the record and the card.
            inputs: For the trainer: `train_dataset`, `processing_class` and what it needs besides.

        Returns:
            The trainer.

        Raises:
            OutputError: The folder holds a run with other settings.
        """
        checkpoint = check_resumable(self.output, self.settings)
        if self.training.process_index == 0:
            facts = {"method": method.name, "four_bit": self.model.load_in_4bit, "counts": counts}
            record_settings(self.output, self.settings, facts)
        if checkpoint is not None:
            self.log(f"going on from {checkpoint}")
        trainer = self._trainer(kind, method, counts, inputs)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        self._finish(trainer)
        return trainer

    def _trainer(
        self, kind: type, method: TrainingMethod, counts: Mapping[str, int], inputs: dict[str, Any]
    ) -> Any:
        from trl.trainer.utils import get_peft_config, get_quantization_config

        write_card = self._write_card

        class Trainer(kind):  # type: ignore[misc]
            """TRL's trainer with this project's card in place of TRL's draft."""

            def create_model_card(self, *_args: Any, **_kwargs: Any) -> None:
                if self.is_world_process_zero():
                    write_card(method, counts, self.state.log_history)

        model = self.model
        self.training.model_init_kwargs = {
            **(self.training.model_init_kwargs or {}),
            "revision": model.model_revision,
            "dtype": model.dtype,
            "attn_implementation": model.attn_implementation,
        }
        trainer = Trainer(
            model=model.model_name_or_path,
            args=self.training,
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
            **inputs,
        )
        # Sharding wants one type for all weights.
        if model.load_in_4bit and not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
            keep_adapters_exact(trainer.model)
        return trainer

    def _write_card(
        self,
        method: TrainingMethod,
        counts: Mapping[str, int],
        history: Sequence[Mapping[str, Any]],
    ) -> None:
        card = CardFacts(
            name=(self.training.hub_model_id or self.output.resolve().name).split("/")[-1],
            base_model=self.model.model_name_or_path,
            method=f"{method.description} {_weights(self.model)}",
            library="peft" if self.model.use_peft else "transformers",
            data=method.data,
            counts=counts,
            settings=self.settings,
            losses=[(row["step"], row[method.watched]) for row in history if method.watched in row],
            measure=method.measure,
            tags=(method.name,),
        )
        (self.output / "README.md").write_text(model_card(card), encoding="utf-8")

    def _finish(self, trainer: Any) -> None:
        trainer.save_model()
        unwrapped = trainer.accelerator.unwrap_model(trainer.model)
        if trainer.is_world_process_zero():
            # An adapter is saved without it, and a server needs to know where an answer ends.
            unwrapped.generation_config.save_pretrained(self.output)
        trainer.create_model_card()
        self.log(f"saved {self.output}")
        if (self.output / "adapter_config.json").is_file():
            self.log(
                f"merge it: python recipes/merge.py --adapter {self.output} "
                f"--output {self.output}-merged"
            )
        if self.push is not None and trainer.is_world_process_zero():
            self.push.publish(self.output, self.log)
        trainer.end()


def open_session(kinds: Sequence[type], arguments: Sequence[str], *, prog: str) -> Session:
    """Parse a recipe and refuse what no run can do.

    Args:
        kinds (`Sequence[type]`): Three dataclasses: this project's options, TRL's options of the
            trainer, and TRL's options of the model.
        arguments (`Sequence[str]`): The command line, without the program.
        prog (`str`): The program's name.

    Returns:
        [`Session`]

    Raises:
        InputError: With the option to set.
        MissingExtraError: TRL is not installed.
    """
    recipe = parse_recipe(kinds, arguments, prog=prog)
    options, training, model = recipe.parts
    check_start(training, model)
    push = take_push(training, model, recipe.settings)
    return Session(options, training, model, recipe.settings, push)


def check_start(training: Any, model: Any) -> None:
    """Refuse a run that has no model or no folder, or that says itself where to continue.

    Args:
        training (`transformers.TrainingArguments`): Of the run.
        model (`trl.ModelConfig`): Of the run.

    Raises:
        InputError: With the option to set.
    """
    if not model.model_name_or_path:
        raise InputError("no model: set model_name_or_path, or start from a --config")
    if not training.output_dir:
        raise InputError("no output_dir: where is the model to be saved?")
    if training.resume_from_checkpoint is not None:
        raise InputError(
            "a run continues from the last checkpoint in its output_dir by itself; leave "
            "resume_from_checkpoint out"
        )


def _weights(model: Any) -> str:
    """What was trained, after "GRPO" or "supervised fine-tuning"."""
    if not model.use_peft:
        return "of all weights"
    kind = "4-bit QLoRA" if model.load_in_4bit else "LoRA"
    return f"with {kind} (rank {model.lora_r}, alpha {model.lora_alpha})"
