"""Adapters become whole models: merged into their base, or part of the way there.

An adapter trained on 4-bit weights has learnt to correct their rounding errors, too. It is
therefore merged into the dequantised 4-bit weights, not into the original ones. Interpolated models
(WiSE-FT, arXiv 2504.10478) have the weights `base + share * (tuned - base)`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rpd_datasets.destination import check_output
from rpd_datasets.publish.publishable import ADAPTER_CONFIG, RECORD
from rpd_datasets.training.record import base_license, read_record, write_card
from rpd_datasets.training.tokenizer import keep_ends_only
from rpd_metric.errors import InputError, ModelError, first_line, needs_extra


def merge(
    tuned: Path,
    output: Path,
    *,
    quantization: str = "auto",
    dtype: str = "bfloat16",
    base: str | None = None,
    shares: Sequence[float] = (),
    stop: Sequence[str] = (),
) -> list[Path]:
    """Merge an adapter into its base, or part of the way; returns the folders that it saves.

    Args:
        tuned (`Path`): The folder of an adapter.
        output (`Path`): The folder to make; it must not exist or be empty.
        quantization (`"auto"`, `"nf4"` or `"none"`): How the base was loaded in training;
            `"auto"` reads the record of `recipes/sft.py`.
        dtype (`str`): Of the saved weights.
        base (`str`, *optional*): The base model, if not the one in the adapter's config.
        shares (`Sequence[float]`): Interpolate from the base (0) to the tuned model (1), each into
            a folder `OUTPUT-SHARE`; empty merges into `output`.
        stop (`Sequence[str]`): Tokens that end an answer beside the tokenizer's own.
    """
    with needs_extra("merging models", "training"):
        import peft
        from transformers import AutoTokenizer, GenerationConfig

    targets = {output.with_name(f"{output.name}-{share:g}"): share for share in shares}
    targets = targets or {output: 1.0}
    if wrong := [share for share in shares if not 0 < share <= 1]:
        raise InputError(f"interpolate is {wrong[0]}; use shares above 0 and up to 1, e.g. 0.5")
    if not (tuned / ADAPTER_CONFIG).is_file():
        raise InputError(f"{tuned} has no {ADAPTER_CONFIG}; name the folder of an adapter")
    for folder in targets:
        check_output(folder)
    config = peft.PeftConfig.from_pretrained(str(tuned))
    base = base or str(config.base_model_name_or_path)
    record = read_record(tuned)
    record = {**record, "four_bit": _four_bit(tuned, record, quantization)}
    model = _load_base(base, config.revision, record, dtype)
    before = _copied(model) if shares else {}
    model = peft.PeftModel.from_pretrained(model, tuned).merge_and_unload()
    if (tuned / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(tuned)
    tokenizer = AutoTokenizer.from_pretrained(tuned)
    keep_ends_only(model, tokenizer, stop)
    after = _copied(model) if shares else {}
    for folder, share in targets.items():
        if shares:
            model.load_state_dict(_between(before, after, share))
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write_card(
            folder,
            record,
            base_model=base,
            method=_method(tuned, record, share),
            library="transformers",
            data=record.get("settings", {}).get("data", ()),
            license=record.get("base_license") or base_license(base),
        )
    return list(targets)


def _between(base: Mapping[str, Any], tuned: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The weights `share` of the way from one model to another, computed in float32."""
    mixed = dict(tuned)
    for name, end in tuned.items():
        if end.is_floating_point():
            mixed[name] = base[name].float().lerp(end.float(), share).to(end.dtype)
    return mixed


def _method(tuned: Path, record: Mapping[str, Any], share: float) -> str:
    """How a merged model, or one on the way to it, was made."""
    into = "the dequantised 4-bit weights of its base" if record.get("four_bit") else "its base"
    method = f"merging the adapter `{tuned.resolve().name}` into {into}"
    if share != 1:
        method += f", {share:g} of the way from the base to the tuned weights"
    return method


def _four_bit(adapter: Path, record: Mapping[str, Any], quantization: str) -> bool:
    if quantization != "auto":
        return quantization == "nf4"
    if "four_bit" not in record:
        raise InputError(
            f"{adapter} has no {RECORD} that says how its base was loaded; pass --quantization "
            "nf4 if it was in 4 bits, or --quantization none"
        )
    return bool(record["four_bit"])


def _load_base(name: str, revision: str | None, record: Mapping[str, Any], dtype: str) -> Any:
    """The base that the adapter was trained on: dequantised from 4 bits, or as it is."""
    if not record["four_bit"]:
        return _load(name, dtype, revision=revision)
    from transformers import BitsAndBytesConfig

    nested = bool(record.get("settings", {}).get("use_bnb_nested_quant", False))
    nf4 = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=nested,
    )
    model = _load(name, dtype, revision=revision, quantization_config=nf4)
    return model.dequantize().to(nf4.bnb_4bit_compute_dtype)


def _load(name: str, dtype: str, **options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **options)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the model {name}: {first_line(error)}. If a base lies elsewhere now, "
            "pass --base"
        ) from error


def _copied(model: Any) -> dict[str, Any]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}
