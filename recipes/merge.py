r"""Merge an adapter into its base model: one folder that every server and trainer can load.

    python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s --output merged/rpd_1p3s

An adapter trained on 4-bit weights has learnt to mend their rounding errors, too. It is therefore
merged into the 4-bit weights made exact again (dequantised), not into the original ones, and the
result is saved without quantization. Reinforcement learning (`recipes/grpo.py`) starts from it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.publish.checks import RECORD
from rpd_datasets.publish.model_card import CardFacts, model_card
from rpd_datasets.training.recipe import run_script
from rpd_metric.errors import InputError, MissingExtraError, ModelError, OutputError, first_line


def main(arguments: Sequence[str]) -> None:
    """Merge as the command line says; see the module's docstring."""
    args = _parser().parse_args(arguments)
    results = _results(args.results)
    if results is not None:
        if not (args.output / "config.json").is_file():
            raise InputError(f"{args.output} is no merged model yet; merge it without --results")
        record = _record(args.adapter)
        config = json.loads((args.adapter / "adapter_config.json").read_text(encoding="utf-8"))
        base = args.base or config["base_model_name_or_path"]
        card = _card(args.adapter, args.output, base, record, results)
        (args.output / "README.md").write_text(card, encoding="utf-8")
        print(f"wrote the card of {args.output}", file=sys.stderr)
        return
    merge(
        args.adapter,
        args.output,
        quantization=args.quantization,
        dtype=args.dtype,
        base=args.base,
    )
    print(f"saved {args.output}", file=sys.stderr)


def merge(
    adapter: Path,
    output: Path,
    *,
    quantization: str = "auto",
    dtype: str = "bfloat16",
    base: str | None = None,
) -> None:
    """Merge an adapter and save model, tokenizer, generation config and card.

    Args:
        adapter (`Path`): A folder with `adapter_config.json`.
        output (`Path`): The folder to make; it must not exist or be empty.
        quantization (`"auto"`, `"nf4"` or `"none"`): How the base was loaded when the adapter
            was trained; `"auto"` asks the record that `recipes/sft.py` leaves.
        dtype (`str`): Of the weights that are saved.
        base (`str`, *optional*): The base model, where the adapter's own record of it is stale.

    Raises:
        [`InputError`]: The folder holds no adapter, or nothing says how the base was loaded.
        [`OutputError`]: The output exists.
        [`ModelError`]: The base cannot be loaded.
        [`MissingExtraError`]: PEFT is not installed.
    """
    if not (adapter / "adapter_config.json").is_file():
        raise InputError(f"{adapter} holds no adapter_config.json; name the folder of an adapter")
    if output.exists() and any(output.iterdir()):
        raise OutputError(f"{output} exists and is not empty; choose another --output")
    record = _record(adapter)
    if quantization == "auto":
        if "four_bit" not in record:
            raise InputError(
                f"{adapter} has no {RECORD} that says how its base was loaded; pass --quantization "
                "nf4 if it was in 4 bits, or --quantization none"
            )
        quantization = "nf4" if record["four_bit"] else "none"
    try:
        import peft
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
    except ImportError as error:
        raise MissingExtraError(
            "merging adapters", extra="training", module=str(error.name)
        ) from error

    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    name = base or config["base_model_name_or_path"]
    revision = config.get("revision")
    number = getattr(torch, dtype)
    options: dict[str, Any] = {}
    if quantization == "nf4":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=number,
            bnb_4bit_use_double_quant=bool(
                record.get("settings", {}).get("use_bnb_nested_quant", False)
            ),
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            name, revision=revision, dtype=number, **options
        )
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the base model {name}: {first_line(error)}. If it lies elsewhere "
            "now, pass --base"
        ) from error
    if quantization == "nf4":
        model = model.dequantize().to(number)
    merged = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    if (adapter / "generation_config.json").is_file():
        from transformers import GenerationConfig

        merged.generation_config = GenerationConfig.from_pretrained(adapter)
    tokenizer = AutoTokenizer.from_pretrained(adapter)
    merged.config.eos_token_id = tokenizer.eos_token_id
    merged.config.pad_token_id = tokenizer.pad_token_id
    output.mkdir(parents=True, exist_ok=True)
    merged.save_pretrained(output)
    tokenizer.save_pretrained(output)
    card = _card(adapter, output, name, {**record, "four_bit": quantization == "nf4"}, None)
    (output / "README.md").write_text(card, encoding="utf-8")


def _record(adapter: Path) -> dict[str, Any]:
    path = adapter / RECORD
    if not path.is_file():
        return {}
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _results(files: Sequence[Path]) -> str | None:
    try:
        return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in files) or None
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from error


def _card(
    adapter: Path, output: Path, base: str, record: dict[str, Any], results: str | None
) -> str:
    into = "the dequantised 4-bit weights of its base" if record.get("four_bit") else "its base"
    settings = record.get("settings", {})
    return model_card(
        CardFacts(
            name=output.resolve().name,
            base_model=base,
            method=f"merging the adapter `{adapter.resolve().name}` into {into}",
            library="transformers",
            data=settings.get("data", ()),
            counts=record.get("counts", {}),
            settings=settings,
            tags=(record.get("method", "sft"),),
            results=results,
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recipes/merge.py",
        description="Merge an adapter into its base model, dequantised if trained in 4 bits.",
        epilog="Example: python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s "
        "--output merged/rpd_1p3s",
    )
    parser.add_argument("--adapter", type=Path, required=True, help="folder of the adapter")
    parser.add_argument("--output", type=Path, required=True, help="folder to make")
    parser.add_argument(
        "--quantization",
        choices=("auto", "nf4", "none"),
        default="auto",
        help="how the base was loaded in training; auto reads it from the adapter's record",
    )
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float16", "float32"),
        default="bfloat16",
        help="of the saved weights",
    )
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        default=[],
        help="report.md files of recipes/passk.py: write them into the card of an --output that "
        "was merged before, and do nothing else",
    )
    parser.add_argument("--base", help="the base model, if it lies elsewhere now")
    return parser


if __name__ == "__main__":
    sys.exit(run_script("recipes/merge.py", main))
