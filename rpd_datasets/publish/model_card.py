"""The card of a trained model: its data, recipe and losses, without local paths and hosts."""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

# Packages whose version can change a result of training.
VERSIONED = (
    *("rpd-metric", "trl", "peft", "transformers", "accelerate", "bitsandbytes", "torch"),
    "datasets",
)
NOT_EVALUATED = "Not evaluated yet. A training loss is not evidence of reasoning."
# Local folders and logging, which are not part of the recipe.
PRIVATE = {
    *("data", "output_dir", "model_name_or_path", "report_to", "run_name"),
    *("problems", "summarizer", "embedder", "chat_template_path", "logging_dir"),
    *("disable_tqdm", "use_cpu", "dry_run"),
}
# A push replaces it by the repository's id.
PLACE = "PATH_OR_ID"
LOADERS = {"peft": "AutoPeftModelForCausalLM", "transformers": "AutoModelForCausalLM"}


@dataclass(frozen=True)
class CardFacts:
    """What a card says."""

    name: str
    base_model: str  # as it was named
    method: str  # in a few words, e.g. "supervised fine-tuning with 4-bit QLoRA"
    library: str  # "peft" for an adapter, "transformers" for a whole model
    data: Sequence[str]  # as they were named; ids on the Hub with @ and the commit that was read
    counts: Mapping[str, Any]  # samples, tokens, steps and the like, by label
    settings: Mapping[str, Any]  # the recipe's options that differ from their defaults
    losses: Sequence[tuple[int, float]] = ()  # step and value of what was logged
    measure: str = "loss"  # what they are
    license: str | None = None  # of the base model, as the Hub names it
    prompt: str | None = None  # what the model sees of a problem, {problem} in its place
    tags: Sequence[str] = ()  # beside those of every model


def model_card(facts: CardFacts) -> str:
    """Render the card: Markdown with the YAML header that the Hub reads."""
    from huggingface_hub import ModelCard, ModelCardData

    data = ModelCardData(
        library_name=facts.library,
        pipeline_tag="text-generation",
        tags=sorted({"rpd", "trl", *facts.tags}),
        base_model=None if is_local(facts.base_model) else facts.base_model,
        license=facts.license,
        datasets=[spec.partition("@")[0] for spec in facts.data if not is_local(spec)] or None,
    )
    # A block of the prompt that nothing in it can end.
    ticks = max(map(len, re.findall("`+", facts.prompt or "")), default=0)
    card = ModelCard.from_template(
        data,
        template_str=Path(__file__).with_name("model_card_template.md").read_text(encoding="utf-8"),
        facts=facts,
        base=public(facts.base_model),
        loader=LOADERS[facts.library],
        place=PLACE,
        fence="`" * max(3, 1 + ticks),
        sources=[_source(spec) for spec in facts.data],
        settings=[item for item in sorted(facts.settings.items()) if item[0] not in PRIVATE],
        not_evaluated=NOT_EVALUATED,
        versions=", ".join(f"{name} {version}" for name, version in versions(VERSIONED).items()),
    )
    return f"{card}\n"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of the packages, where they are installed."""
    installed = {"python": platform.python_version()}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def is_local(spec: str) -> bool:
    """Whether a spec names a file or folder rather than something on the Hub."""
    return spec.count("/") != 1 or spec.startswith((".", "/", "~")) or Path(spec).exists()


def public(spec: str) -> str:
    """A source's or model's name without the folders it lies in."""
    return Path(spec).expanduser().resolve().name if is_local(spec) else spec


def _source(spec: str) -> str:
    name, at, commit = ("", "", "") if is_local(spec) else spec.partition("@")
    return f"`{name}`, commit `{commit}`" if at else f"`{public(spec)}`"
