r"""Fine-tuning speed and memory, this project's recipe against TRL's own script, as ratios.

    python benchmarks/training.py                       # a tiny model on the CPU, about a minute
    python benchmarks/training.py --shape qwen3-4b --tokens 14000 --steps 4      # one GPU, 24 GB

Both run as processes of their own on the same untrained weights, the same made-up samples and the
same settings (QLoRA of rank 16), one after the other and in alternation. Speed is the trainer's
own: tokens in batches by the seconds of its training loop, without loading. It needs the extra
`training`; the large shape needs a GPU with bfloat16, some 10 GB of disk for its weights, and
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHAPES: dict[str, dict[str, int]] = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 512,
    },
    "qwen3-4b": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
    },
}
# Runs a script as its command line would, then prints what the process needed.
MEASURE = """
import json, resource, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
import torch
gpu = torch.cuda.is_available()
peak = torch.cuda.max_memory_allocated() if gpu else 1024 * resource.getrusage(
    resource.RUSAGE_SELF).ru_maxrss
print("PEAK", peak, file=sys.stderr)
"""


def main() -> None:
    """Measure both and print a table."""
    args = _parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _make(folder, args.shape, args.tokens, args.steps * args.batch)
        found: dict[str, list[dict[str, float]]] = {"recipe": [], "trl": []}
        for turn in range(args.repeats):
            for name in found:
                found[name].append(_run(name, folder, args, turn))
                print(f"{name}: {found[name][-1]}", file=sys.stderr)
    speed = {n: statistics.median(run["tokens_per_second"] for run in r) for n, r in found.items()}
    peak = {n: statistics.median(run["peak_gb"] for run in r) for n, r in found.items()}
    print(f"{'':8} {'tokens/s':>12} {'peak GB':>9}")
    for name in found:
        print(f"{name:8} {speed[name]:12,.0f} {peak[name]:9.2f}")
    ratios = speed["recipe"] / speed["trl"], peak["recipe"] / peak["trl"]
    print(f"{'ratio':8} {ratios[0]:12.2f} {ratios[1]:9.2f}")


def _make(folder: Path, shape: str, tokens: int, samples: int) -> None:
    """Untrained weights, a tokenizer of whole words, and samples of about `tokens` tokens."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "user", "assistant", "unknown"]
    words = [f"w{n}" for n in range(400)]
    vocabulary = {word: n for n, word in enumerate([*special, *words])}
    bare = Tokenizer(models.WordLevel(vocabulary, unk_token="unknown"))
    bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=bare,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template="{% for m in messages %}<|im_start|> {{ m.role }} {{ m.content }} <|im_end|> "
        "{% endfor %}{% if add_generation_prompt %}<|im_start|> assistant {% endif %}",
    ).save_pretrained(folder / "model")
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    config = Qwen3Config(
        **SHAPES[shape], max_position_embeddings=2 * tokens, eos_token_id=2, pad_token_id=0
    )
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).to(dtype).save_pretrained(folder / "model")
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for sample in range(samples):
            text = " ".join(words[(sample * 7 + n * n) % len(words)] for n in range(tokens - 12))
            prompt = [{"role": "user", "content": words[sample % len(words)]}]
            completion = [{"role": "assistant", "content": text}]
            file.write(json.dumps({"prompt": prompt, "completion": completion}) + "\n")


def _run(name: str, folder: Path, args: argparse.Namespace, turn: int) -> dict[str, float]:
    import torch

    gpu = torch.cuda.is_available()
    options: dict[str, Any] = {
        "model_name_or_path": folder / "model",
        "output_dir": folder / f"{name}-{turn}",
        "dtype": "bfloat16" if gpu else "float32",
        "bf16": gpu,
        "use_cpu": not gpu,
        "use_peft": True,
        "load_in_4bit": True,
        "lora_r": 16,
        "lora_alpha": 32,
        "lora_target_modules": "all-linear",
        "max_length": 2 * args.tokens,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": args.batch,
        "max_steps": args.steps,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
    }
    if name == "recipe":
        script = ROOT / "recipes/sft.py"
        options["data"] = folder / "rows.jsonl"
    else:
        import trl

        script = Path(trl.__file__).parent / "scripts/sft.py"
        # TRL's script loads a folder of data files by its name.
        rows = folder / "rows"
        rows.mkdir(exist_ok=True)
        (rows / "train.jsonl").write_text((folder / "rows.jsonl").read_text("utf-8"), "utf-8")
        options["dataset_name"] = rows
    line = [sys.executable, "-c", MEASURE, str(script)]
    line += [part for option, value in options.items() for part in (f"--{option}", str(value))]
    done = subprocess.run(
        line,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    seconds = float(done.stdout.split("'train_runtime': '")[1].split("'")[0])
    tokens = float(done.stdout.split("'num_tokens': '")[-1].split("'")[0])
    peak = float(done.stderr.split("PEAK ")[1].split()[0])
    return {"tokens_per_second": tokens / seconds, "peak_gb": peak / 1e9}


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="tiny", help="the model")
    parser.add_argument("--tokens", type=int, default=256, help="length of a sample")
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=4, help="samples per step")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each, in alternation")
    return parser


if __name__ == "__main__":
    main()
