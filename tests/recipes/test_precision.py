"""Adapters learn in float32 on every path, and a step at the paper's rates changes all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parts.recipe_scripts import RECIPES, script
from parts.tiny_models import sums, tiny_model
from rpd_metric.errors import InputError

CONFIGS = RECIPES / "configs/tiny"
# As on a GPU: weights in bfloat16, and an optimizer step after each batch at the paper's rate.
LIKE_A_GPU = ["--dtype", "bfloat16", "--bf16", "true", "--disable_tqdm", "true"]
STEPS = ["--max_steps", "2", "--save_strategy", "steps", "--save_steps", "1"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision")
    tiny_model(folder / "qwen3", "qwen3")
    sums(folder / "sums.jsonl", 16)
    problems = [{"problem": f"{n} + 1", "answer": str(n + 1)} for n in range(8)]
    (folder / "problems.json").write_text(json.dumps(problems), encoding="utf-8")
    # An untrained model never solves anything: what is rewarded here differs between completions.
    (folder / "odd.py").write_text(
        "def check(answer, response):\n    return len(response) % 2 == 1\n", encoding="utf-8"
    )
    return folder


def changed_share(output: Path) -> float:
    """The share of an adapter's first matrices that the second step changed."""
    import torch
    from safetensors.torch import load_file

    before, after = (
        load_file(output / f"checkpoint-{n}/adapter_model.safetensors") for n in (1, 2)
    )
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    first = [name for name in after if "lora_A" in name]
    changed = sum(int((before[name] != after[name]).sum()) for name in first)
    return changed / sum(after[name].numel() for name in first)


def test_fine_tuning_in_4_bits_changes_every_weight_of_the_adapter(here: Path):
    line = ["--model_name_or_path", str(here / "qwen3"), "--data", str(here / "sums.jsonl")]
    line += ["--learning_rate", "5e-5", "--output_dir", str(here / "sft"), *LIKE_A_GPU, *STEPS]
    script("sft").main(["--config", str(CONFIGS / "sft.yaml"), *line])
    assert changed_share(here / "sft") > 0.95


@pytest.mark.parametrize("rollouts", ["generate", "continuous"])
def test_reinforcement_changes_every_weight_of_the_adapter(here: Path, rollouts: str):
    output = here / rollouts
    line = ["--model_name_or_path", str(here / "qwen3"), "--output_dir", str(output)]
    line += ["--problems", str(here / "problems.json"), "--grader", f"{here / 'odd.py'}:check"]
    line += ["--learning_rate", "2e-5", "--rollouts", rollouts, "--max_completion_length", "8"]
    line += ["--format_weight", "0", *LIKE_A_GPU, *STEPS]
    if rollouts == "continuous":
        # Left to itself it asks for half of the machine's memory, whatever others hold of it.
        sizes = {"num_blocks": 16, "max_batch_tokens": 256, "max_memory_percent": 0.9}
        line += ["--transformers_continuous_batching_config", json.dumps(sizes)]
    script("grpo").main(["--config", str(CONFIGS / "grpo.yaml"), *line])
    assert changed_share(output) > 0.95


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_fsdp_with_4_bits_is_refused_by_name(
    here: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    # What `accelerate launch --config_file recipes/accelerate/fsdp2.yaml` sets.
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    line = ["--config", str(CONFIGS / f"{name}.yaml"), "--load_in_4bit", "true"]
    line += ["--model_name_or_path", str(here / "qwen3"), "--output_dir", str(here / "fsdp")]
    with pytest.raises(InputError, match=r"ddp\.yaml"):
        script(name).main(line)
