"""GRPO with a real vLLM in its process: does vLLM get what was learnt, and is the base left alone?

    make grpo-vllm

Runs `recipes/grpo.py` on a CPU with a small model in bfloat16, a reward for replies of an even
length, which any model gets now and then, and a high learning rate. Prints for each step by how
much the log-probabilities of the sampled tokens differ between vLLM and the trainer, and the drift
that was avoided, as a share of what the adapter adds; then how many tensors of the base still equal
the file's. `--sync trl` makes TRL's own weight syncs: the base has to change. `--sync none` leaves
them out: the difference has to grow.

vLLM's CPU backend packs weights so that they cannot be loaded again. Packing and compilation are
off here; nothing else of vLLM is changed.
"""

import argparse
import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROBLEMS = ("7 + 5", "12 - 4", "6 * 3", "18 / 2")
CHECK = "def check(answer, response):\n    return len(response) % 2 == 0\n"
SHOWN = ("sampling/sampling_logp_difference/mean", "sampling/avoided_drift")
OPTIONS = {
    "config": ROOT / "recipes/configs/tiny/grpo.yaml",
    "padding_token": "<|endoftext|>",
    "dtype": "bfloat16",
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_enable_sleep_mode": False,
    "vllm_max_model_length": 512,
    "vllm_gpu_memory_utilization": 0.1,
    "max_completion_length": 32,
    "effective_batch_size": 8,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 2,
    "learning_rate": 1e-3,
    "format_weight": 0,
}


def main() -> None:
    """Run the recipe, and print what it logged and left."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of a model with safetensors")
    parser.add_argument("--sync", choices=("ours", "trl", "none"), default="ours")
    args = parser.parse_args()
    os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"}

    import torch
    import vllm
    import vllm.model_executor.layers.utils as layers
    from safetensors.torch import load_file
    from trl.generation.vllm_generation import VLLMGeneration

    from rpd_datasets.training import trainers

    start, synced = vllm.LLM.__init__, VLLMGeneration.sync_weights
    seen: list[Any] = []

    def eager(self: Any, *given: Any, **options: Any) -> None:
        start(self, *given, **options, enforce_eager=True)

    def sync(self: Any) -> None:
        seen.append(self.model)
        if args.sync != "none":
            synced(self)

    if args.sync == "trl":
        trainers.keep_base_exact = lambda *_: None
    vllm.LLM.__init__ = eager
    VLLMGeneration.sync_weights = sync
    layers.dispatch_cpu_unquantized_gemm = lambda layer, **_: setattr(
        layer, "cpu_linear", torch.nn.functional.linear
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [json.dumps({"problem": problem, "answer": "1"}) for problem in PROBLEMS]
        (folder / "problems.jsonl").write_text("\n".join(rows))
        (folder / "checks.py").write_text(CHECK)
        options = OPTIONS | {"problems": folder / "problems.jsonl", "output_dir": folder / "out"}
        options |= {"grader": f"{folder}/checks.py:check", "model_name_or_path": args.model}
        line = [str(part) for key, value in options.items() for part in (f"--{key}", value)]
        sys.path.insert(0, str(ROOT / "recipes"))
        sys.argv = [str(ROOT / "recipes/grpo.py"), *line]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as error:
            if error.code:
                raise
        states = folder.glob("out/checkpoint-*/trainer_state.json")
        newest = max(states, key=lambda path: path.stat().st_mtime)
        log = json.loads(newest.read_text())["log_history"]
    for step in log:
        print(f"step {step['step']}:", *(f"{name} {step.get(name, 0):.4f}" for name in SHOWN))
    disk = load_file(args.model / "model.safetensors")
    base = {
        name.removeprefix("base_model.model.").replace(".base_layer", ""): weight
        for name, weight in seen[0].named_parameters()
        if "lora_" not in name
    }
    same = sum(torch.equal(base[name].data, disk[name].to(base[name].dtype)) for name in base)
    print(f"{same} of {len(base)} tensors of the base equal the file's ({args.sync})")


if __name__ == "__main__":
    main()
