r"""Merge an adapter into its base model: one folder that every server and trainer can load.

    python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s --output merged/rpd_1p3s

An adapter trained on 4-bit weights has learnt to correct their rounding errors, too. It is
therefore merged into the 4-bit weights made exact again (dequantised), and the result is saved
without quantization. Reinforcement learning (`recipes/grpo.py`) starts from it.
`--interpolate 0.3 0.5 0.7` makes models on the way from the base to the tuned one, in
`OUTPUT-0.3` and so on (WiSE-FT); `passk.py compare` shows them side by side.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from rpd_datasets.commands import run_command
from rpd_datasets.training.merging import merge


def main(arguments: Sequence[str]) -> None:
    """Merge as the command line says; see the module's docstring."""
    args = _parser().parse_args(arguments)
    folders = merge(
        args.adapter,
        args.output,
        quantization=args.quantization,
        dtype=args.dtype,
        base=args.base,
        shares=args.interpolate,
        stop=args.stop,
    )
    for folder in folders:
        sys.stderr.write(
            f"saved {folder}\n"
            f"serve it: vllm serve {folder} --served-model-name {folder.name}\n"
            "measure it: python recipes/passk.py --benchmark aime24 "
            f"--model openai:http://localhost:8000/v1#{folder.name}\n"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="recipes/merge.py",
        description="Merge an adapter into its base model, dequantised if trained in 4 bits.",
        epilog="Example: python recipes/merge.py --adapter runs/qwen3-4b-base/rpd_1p3s "
        "--output merged/rpd_1p3s",
    )
    add = parser.add_argument
    add("--adapter", type=Path, required=True, help="folder of the adapter")
    add("--output", type=Path, required=True, help="folder to make")
    text = "how the base was loaded in training; auto reads it from the adapter's record"
    add("--quantization", choices=("auto", "nf4", "none"), default="auto", help=text)
    dtypes = ("bfloat16", "float16", "float32")
    add("--dtype", choices=dtypes, default="bfloat16", help="of the saved weights")
    text = "save models this far from the base (0) to the tuned one (1), in OUTPUT-SHARE"
    add("--interpolate", type=float, nargs="+", default=[], metavar="SHARE", help=text)
    text = "tokens that end an answer beside the tokenizer's own, e.g. '<|im_end|>'"
    add("--stop", nargs="+", default=[], metavar="TOKEN", help=text)
    add("--base", help="the base model, if it lies elsewhere now")
    return parser


if __name__ == "__main__":
    sys.exit(run_command("recipes/merge.py", lambda: main(sys.argv[1:])))
