"""Adapters become whole models: merged into their base, or part of the way there.

An adapter trained on 4-bit weights has learnt to correct their rounding errors, too. It is
therefore merged into the 4-bit weights made exact again (dequantised), not into the original ones.
Between the base and the tuned model lies a path of models (WiSE-FT, arXiv 2504.10478): with the
weights `base + share * (tuned - base)`, where pass@k that fine-tuning has cost may come back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.publish.checks import RECORD
from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.record import base_license, read_record
from rpd_metric.errors import InputError, MissingExtraError, ModelError, OutputError, first_line


def merge(
    adapter: Path,
    output: Path,
    *,
    quantization: str = "auto",
    dtype: str = "bfloat16",
    base: str | None = None,
    shares: Sequence[float] = (),
) -> list[Path]:
    """Merge an adapter and save model, tokenizer, generation config and card.

    Args:
        adapter (`Path`): A folder with `adapter_config.json`.
        output (`Path`): The folder to make; it must not exist or be empty.
        quantization (`"auto"`, `"nf4"` or `"none"`): How the base was loaded when the adapter
            was trained; `"auto"` asks the record that `recipes/sft.py` leaves.
        dtype (`str`): Of the weights that are saved.
        base (`str`, *optional*): The base model, where the adapter's own record of it is stale.
        shares (`Sequence[float]`): How far to go from the base (0) to the tuned model (1); each
            share gives a folder `OUTPUT-SHARE`. Empty merges all of it into `output`.

    Returns:
        `list[Path]`: The folders that were made.

    Raises:
        [`InputError`]: The folder holds no adapter, nothing says how the base was loaded, or a
            share is not between 0 and 1.
        [`OutputError`]: An output exists.
        [`ModelError`]: The base cannot be loaded.
        [`MissingExtraError`]: PEFT is not installed.
    """
    if not (adapter / "adapter_config.json").is_file():
        raise InputError(f"{adapter} holds no adapter_config.json; name the folder of an adapter")
    targets = _targets(output, shares)
    record = read_record(adapter)
    four_bit = _four_bit(adapter, record, quantization)
    name = base or base_of(adapter)
    model = _load_base(adapter, name, record, four_bit=four_bit, dtype=dtype)
    before = {key: weight.clone() for key, weight in model.state_dict().items()} if targets else {}
    merged = _merge_into(model, adapter)
    after = {key: weight.clone() for key, weight in merged.state_dict().items()} if targets else {}
    for folder, share in (targets or {output: 1.0}).items():
        if targets:
            merged.load_state_dict(interpolated(before, after, share))
        _save(merged, adapter, folder)
        card = card_text(adapter, folder, name, {**record, "four_bit": four_bit}, share=share)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return list(targets or [output])


def interpolated(base: Mapping[str, Any], tuned: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The weights `share` of the way from one model to another, computed in float32.

    Args:
        base (`Mapping[str, torch.Tensor]`): Weights by name.
        tuned (`Mapping[str, torch.Tensor]`): The same names.
        share (`float`): 0 gives `base`, 1 gives `tuned`.
    """
    import torch

    mixed = {}
    for name, end in tuned.items():
        start = base[name]
        if not end.is_floating_point():
            mixed[name] = end
            continue
        mixed[name] = torch.lerp(start.float(), end.float(), share).to(end.dtype)
    return mixed


def mix_models(
    base: str, tuned: Path, output: Path, *, shares: Sequence[float], dtype: str = "bfloat16"
) -> list[Path]:
    """Save models on the way from a base to a whole tuned model, one without an adapter.

    Args:
        base (`str`): The base model, a folder or a Hub id.
        tuned (`Path`): The folder of the tuned model, with its tokenizer.
        output (`Path`): Each share gives a folder `OUTPUT-SHARE`.
        shares (`Sequence[float]`): How far to go from the base (0) to the tuned model (1).
        dtype (`str`): Of the weights that are saved.

    Returns:
        `list[Path]`: The folders that were made.

    Raises:
        [`InputError`]: A share is not between 0 and 1, or the two have other weights.
        [`OutputError`]: An output exists.
        [`ModelError`]: A model cannot be loaded.
    """
    targets = _targets(output, shares)
    start, end = (_load(name, getattr(_torch(), dtype)) for name in (base, str(tuned)))
    before, after = start.state_dict(), end.state_dict()
    after = {key: weight.clone() for key, weight in after.items()}
    if {k: w.shape for k, w in before.items()} != {k: w.shape for k, w in after.items()}:
        raise InputError(f"{base} and {tuned} have other weights; name the base it was tuned from")
    record = read_record(tuned)
    for folder, share in targets.items():
        end.load_state_dict(interpolated(before, after, share))
        _save(end, tuned, folder)
        card = card_text(tuned, folder, base, record, share=share, whole=True)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return list(targets)


def base_of(adapter: Path) -> str:
    """The base model that an adapter names."""
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    return str(config["base_model_name_or_path"])


def card_text(
    adapter: Path,
    output: Path,
    base: str,
    record: Mapping[str, Any],
    *,
    share: float = 1.0,
    results: str | None = None,
    whole: bool = False,
) -> str:
    """The card of a merged model, or of one between a base and a `whole` tuned model."""
    into = "the dequantised 4-bit weights of its base" if record.get("four_bit") else "its base"
    settings = record.get("settings", {})
    method = f"merging the adapter `{adapter.resolve().name}` into {into}"
    if whole:
        method = f"mixing `{adapter.resolve().name}` with its base"
    if share != 1:
        method += f", {share:g} of the way from the base to the tuned weights"
    return model_card(
        CardFacts(
            name=output.resolve().name,
            base_model=base,
            method=method,
            library="transformers",
            data=settings.get("data", ()),
            counts=record.get("counts", {}),
            settings=settings,
            license=record.get("base_license") or base_license(base),
            prompt=record.get("prompt_format"),
            tags=(record.get("method", "sft"),),
            results=results,
        )
    )


def _four_bit(adapter: Path, record: Mapping[str, Any], quantization: str) -> bool:
    if quantization != "auto":
        return quantization == "nf4"
    if "four_bit" not in record:
        raise InputError(
            f"{adapter} has no {RECORD} that says how its base was loaded; pass --quantization "
            "nf4 if it was in 4 bits, or --quantization none"
        )
    return bool(record["four_bit"])


def _load_base(
    adapter: Path, name: str, record: Mapping[str, Any], *, four_bit: bool, dtype: str
) -> Any:
    """The base as the adapter knows it: rounded to 4 bits and made exact again, or as it is."""
    number = getattr(_torch(), dtype)
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    options: dict[str, Any] = {}
    if four_bit:
        from transformers import BitsAndBytesConfig

        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=number,
            bnb_4bit_use_double_quant=bool(
                record.get("settings", {}).get("use_bnb_nested_quant", False)
            ),
        )
    model = _load(name, number, revision=config.get("revision"), **options)
    return model.dequantize().to(number) if four_bit else model


def _load(name: str, number: Any, **options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=number, **options)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the model {name}: {first_line(error)}. If a base lies elsewhere now, "
            "pass --base"
        ) from error


def _torch() -> Any:
    try:
        import torch
        import transformers  # noqa: F401 the same extra
    except ImportError as error:
        raise MissingExtraError(
            "merging models", extra="training", module=str(error.name)
        ) from error
    return torch


def _targets(output: Path, shares: Sequence[float]) -> dict[Path, float]:
    """The folder of each share; none for merging all of it into `output`."""
    if wrong := [share for share in shares if not 0 < share <= 1]:
        raise InputError(f"interpolate is {wrong[0]}; use shares above 0 and up to 1, e.g. 0.5")
    targets = {output.with_name(f"{output.name}-{share:g}"): share for share in shares}
    for folder in targets or (output,):
        if folder.exists() and any(folder.iterdir()):
            raise OutputError(f"{folder} exists and is not empty; choose another --output")
    return targets


def _merge_into(model: Any, adapter: Path) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("merging adapters", extra="training", module="peft") from error
    from transformers import AutoTokenizer, GenerationConfig

    merged = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    if (adapter / "generation_config.json").is_file():
        merged.generation_config = GenerationConfig.from_pretrained(adapter)
    tokenizer = AutoTokenizer.from_pretrained(adapter)
    merged.config.eos_token_id = tokenizer.eos_token_id
    merged.config.pad_token_id = tokenizer.pad_token_id
    return merged


def _save(merged: Any, adapter: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    merged.save_pretrained(folder)
    AutoTokenizer.from_pretrained(adapter).save_pretrained(folder)
