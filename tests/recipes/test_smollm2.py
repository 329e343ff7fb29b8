"""The recipes with a real model: SmolLM2-135M-Instruct, two steps each, and its real template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.loop_real.model import PADDING
from parts.recipe_scripts import RECIPES, history, launch, script
from parts.smollm2 import missing, smollm2
from parts.tiny_models import sums

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=f"SmolLM2 {missing()}"),
]
CPU = ["--use_cpu", "true", "--bf16", "true", "--gradient_checkpointing", "false"]
CPU += ["--disable_tqdm", "true", "--max_steps", "2", "--padding_token", PADDING]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smollm2")
    (folder / "model").symlink_to(smollm2())
    sums(folder / "rows.jsonl", 4)
    problems = [{"problem": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(4)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    return folder


def accelerate(name: str, *line: object) -> None:
    script = ("--config_file", RECIPES / "accelerate/cpu.yaml", RECIPES / f"{name}.py")
    launch("-m", "accelerate.commands.accelerate_cli", "launch", *script, *line, *CPU)


def reply(model: Path) -> str:
    """What a model says through its own template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 2 + 2?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    network = AutoModelForCausalLM.from_pretrained(model)
    ids = network.generate(**inputs, max_new_tokens=24, do_sample=False)
    return str(tokenizer.decode(ids[0][inputs["input_ids"].shape[1] :]))


def test_fine_tuning_merging_and_reinforcement_of_a_real_model(here: Path):
    accelerate(
        "sft",
        *("--config", RECIPES.parent / "benchmarks/loop_real/sft.yaml"),
        *("--model_name_or_path", here / "model", "--data", here / "rows.jsonl"),
        *("--effective_batch_size", 2, "--per_device_train_batch_size", 2),
        *("--save_strategy", "steps", "--save_steps", 2, "--output_dir", here / "tuned"),
    )
    assert len(history(here / "tuned", "loss")) == 2
    script("merge").main(["--adapter", str(here / "tuned"), "--output", str(here / "merged")])
    text = reply(here / "merged")
    assert "4" in text, text

    accelerate(
        "grpo",
        *("--config", RECIPES.parent / "benchmarks/loop_real/grpo.yaml"),
        *("--model_name_or_path", here / "merged", "--problems", here / "problems.jsonl"),
        *("--effective_batch_size", 4, "--per_device_train_batch_size", 4),
        *("--num_generations", 4, "--max_completion_length", 16, "--rollouts", "generate"),
        *("--output_dir", here / "rewarded", "--save_steps", 2),
    )
    rows = history(here / "rewarded", "reward")
    assert len(rows) == 2
    assert all(row["completions/mean_length"] > 0 for row in rows)
