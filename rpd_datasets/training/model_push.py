"""What TRL's options about the Hub mean in a recipe: one push, when training has finished.

TRL and transformers push the output folder after every save, publicly unless asked not to, with
whatever lies in it. A recipe publishes as `rpd push` does: once, in one commit, privately unless
asked not to, and only after a look for secrets and paths. Options that would then do nothing
are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi

from rpd_datasets.publish.model_card import is_local
from rpd_datasets.publish.pushing import check_access, push_folder
from rpd_metric.errors import InputError

# What makes no sense before there is something to publish.
NEED_PUSH = ("hub_model_id", "hub_private_repo", "hub_token", "hub_revision")


@dataclass(frozen=True)
class ModelPush:
    """Where a model goes when it is trained, see [`~rpd_datasets.publish.pushing.push_folder`]."""

    repo_id: str
    private: bool
    revision: str | None
    token: str | None

    def publish(self, folder: Path, say: Callable[[str], None]) -> None:
        """Publish a model's folder."""
        public = "" if self.private else " --public"
        branch = f" --revision {self.revision}" if self.revision else ""
        say(f"publishing it; should that break: rpd push {folder} {self.repo_id}{public}{branch}")
        pushed = push_folder(
            folder,
            self.repo_id,
            private=self.private,
            revision=self.revision,
            api=HfApi(token=self.token),
        )
        done = "published" if pushed.changed else "already there"
        say(f"{done}: {pushed.url}\ncommit {pushed.commit}")


def take_push(training: Any, model: Any, settings: dict[str, Any]) -> ModelPush | None:
    """Take pushing out of TRL's hands, before any time is spent on training.

    `training` pushes nothing afterwards. `settings` are written down and shown: a token is taken
    out of them.
    """
    settings.pop("hub_token", None)
    if settings.get("hub_strategy", "end") != "end" or training.hub_always_push:
        raise InputError(
            "a recipe publishes once, at the end: leave hub_strategy and hub_always_push out"
        )
    if not training.push_to_hub:
        if idle := [name for name in NEED_PUSH if getattr(training, name) is not None]:
            raise InputError(f"{idle[0]} does nothing by itself: add push_to_hub: true")
        return None
    if model.use_peft and is_local(model.model_name_or_path):
        raise InputError(
            f"an adapter of {model.model_name_or_path}, a folder of this machine, could be loaded "
            "by nobody else: train without push_to_hub, merge (recipes/merge.py), then rpd push"
        )
    push = ModelPush(
        repo_id=training.hub_model_id or Path(training.output_dir).resolve().name,
        private=training.hub_private_repo is not False,
        revision=training.hub_revision,
        token=training.hub_token,
    )
    training.push_to_hub = False
    training.hub_token = None
    if training.process_index == 0:
        api = HfApi(token=push.token)
        check_access(push.repo_id, repo_type="model", private=push.private, api=api)
    return push
