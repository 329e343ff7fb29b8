r"""Merge an adapter into its base model: one folder that every server and trainer can load.

    python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s --output merged/rpd_1p3s

An adapter trained on 4-bit weights has learnt to correct their rounding errors, too. It is
therefore merged into the 4-bit weights made exact again (dequantised), and the result is saved
without quantization. Reinforcement learning (`recipes/grpo.py`) starts from it.
`--interpolate 0.3 0.5 0.7` makes models on the way from the base to the tuned one, in
`OUTPUT-0.3` and so on (WiSE-FT); `passk.py compare` shows them side by side. A model whose weights
were all tuned has no adapter: `--tuned FOLDER --base BASE --interpolate 0.5` does the same for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.commands import run_command
from rpd_datasets.training.merging import base_of, card_text, merge, mix_models, read_record
from rpd_metric.errors import InputError


def main(arguments: Sequence[str]) -> None:
    """Merge as the command line says; see the module's docstring."""
    args = _parser().parse_args(arguments)
    results = _results(args.results)
    if results is not None:
        if args.adapter is None:
            raise InputError("--results writes the card of a merged adapter; pass --adapter")
        if not (args.output / "config.json").is_file():
            raise InputError(f"{args.output} is no merged model yet; merge it without --results")
        record = read_record(args.adapter)
        base = args.base or base_of(args.adapter)
        card = card_text(args.adapter, args.output, base, record, results=results)
        (args.output / "README.md").write_text(card, encoding="utf-8")
        sys.stderr.write(f"wrote the card of {args.output}\n")
        return
    if args.tuned is not None:
        if args.base is None or not args.interpolate:
            raise InputError("--tuned needs --base and --interpolate, e.g. --interpolate 0.5")
        folders = mix_models(
            args.base, args.tuned, args.output, shares=args.interpolate, dtype=args.dtype
        )
    else:
        folders = merge(
            args.adapter,
            args.output,
            quantization=args.quantization,
            dtype=args.dtype,
            base=args.base,
            shares=args.interpolate,
        )
    for folder in folders:
        sys.stderr.write(f"saved {folder}\n")


def _results(files: Sequence[Path]) -> str | None:
    try:
        return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in files) or None
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recipes/merge.py",
        description="Merge an adapter into its base model, dequantised if trained in 4 bits.",
        epilog="Example: python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s "
        "--output merged/rpd_1p3s",
    )
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--adapter", type=Path, help="folder of the adapter")
    start.add_argument("--tuned", type=Path, help="folder of a model without an adapter")
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
    parser.add_argument(
        "--interpolate",
        type=float,
        nargs="+",
        default=[],
        metavar="SHARE",
        help="save models this far from the base (0) to the tuned one (1), in OUTPUT-SHARE",
    )
    parser.add_argument("--base", help="the base model, if it lies elsewhere now")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("recipes/merge.py", lambda: main(sys.argv[1:])))
