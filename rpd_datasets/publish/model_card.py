"""The card of a trained model: what it was made of, by what recipe, and what is known of it.

A pure function from plain values to Markdown. It holds no path and no host: local folders appear
by their last name only.
"""

from __future__ import annotations

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
NOT_EVALUATED = "Not evaluated yet. A training loss is no evidence of reasoning."
# Where things lie and how a run was watched is nobody's business and no part of the recipe.
PRIVATE = {
    *("data", "output_dir", "model_name_or_path", "report_to", "run_name", "hub_token"),
    *("hub_model_id", "hub_private_repo", "hub_revision", "hub_strategy", "push_to_hub"),
    *("problems", "held_out", "summarizer", "embedder", "chat_template_path", "logging_dir"),
    *("disable_tqdm", "use_cpu", "dry_run"),
}
# Where the model lies: a push puts its id in place.
PLACE = "PATH_OR_ID"
LOADERS = {"peft": "AutoPeftModelForCausalLM", "transformers": "AutoModelForCausalLM"}
USE = """```python
from {package} import {loader}
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{place}")
model = {loader}.from_pretrained("{place}", dtype="auto")
messages = [{{"role": "user", "content": "What is the sum of the first 100 positive integers?"}}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
)
output = model.generate(**inputs.to(model.device), max_new_tokens=4096)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
```"""


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
    import yaml  # type: ignore[import-untyped]

    header: dict[str, Any] = {
        "library_name": facts.library,
        "pipeline_tag": "text-generation",
        "tags": sorted({"rpd", "trl", *facts.tags}),
    }
    if not is_local(facts.base_model):
        header["base_model"] = facts.base_model
    if facts.license:
        header["license"] = facts.license
    if ids := [spec for spec in facts.data if not is_local(spec)]:
        header["datasets"] = [spec.partition("@")[0] for spec in ids]
    shown = {name: value for name, value in facts.settings.items() if name not in PRIVATE}
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=True)}---",
        f"# {facts.name}",
        f"Made from `{public(facts.base_model)}` by {facts.method}.",
        "## Use",
        USE.format(package=facts.library, loader=LOADERS[facts.library], place=PLACE),
        _prompt_format(facts.prompt),
        "## Data",
        "\n".join(f"- {_source(spec)}" for spec in facts.data),
        _table("what", "number", {label: f"{value:,}" for label, value in facts.counts.items()}),
        "## Recipe",
        "Every option that the recipe sets; the others have the defaults of the versions below.",
        _table("option", "value", {f"`{name}`": f"`{shown[name]}`" for name in sorted(shown)}),
    ]
    if facts.losses:
        (first, before), (last, after) = facts.losses[0], facts.losses[-1]
        parts.append(
            f"The {facts.measure} was {before:.4f} at step {first} and {after:.4f} at step {last}."
        )
    parts += [
        "## Results",
        NOT_EVALUATED,
        "## Licence",
        f"That of the base model: {facts.license}. The texts it was trained on have their own."
        if facts.license
        else "Not known here: that of the base model holds, and that of the texts above.",
        "## Versions",
        ", ".join(f"{name} {version}" for name, version in versions(VERSIONED).items()) + ".",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of Python and of the packages, where they are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def is_local(spec: str) -> bool:
    """Whether a spec names a file or folder rather than something on the Hub."""
    return spec.count("/") != 1 or spec.startswith((".", "/", "~")) or Path(spec).exists()


def public(spec: str) -> str:
    """A source's or model's name without the folders it lies in."""
    return Path(spec).expanduser().resolve().name if is_local(spec) else spec


def _prompt_format(prompt: str | None) -> str:
    """The words around a problem, in a block that none of them can end."""
    if prompt is None:
        return ""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", prompt)), default=0))
    return f"It was trained on prompts of this form:\n\n{fence}text\n{prompt}\n{fence}"


def _source(spec: str) -> str:
    name, at, commit = ("", "", "") if is_local(spec) else spec.partition("@")
    return f"`{name}`, commit `{commit}`" if at else f"`{public(spec)}`"


def _table(what: str, value: str, rows: Mapping[str, str]) -> str:
    if not rows:
        return ""
    lines = [(what, value), ("---", "---"), *rows.items()]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
