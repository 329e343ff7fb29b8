"""Every recipe parses against the installed TRL and holds the paper's hyperparameters."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parts.recipe_scripts import RECIPES
from rpd_datasets.training.recipe import (
    Recipe,
    ReinforcementOptions,
    SupervisedOptions,
    parse_recipe,
    read_recipe,
)
from rpd_datasets.training.training_rows import supervised_steps
from rpd_metric.errors import InputError

CONFIGS = RECIPES / "configs"
SFT = [file for file in sorted(CONFIGS.glob("*/sft/*.yaml")) if file.stem != "base"]
GRPO = [file for file in sorted(CONFIGS.glob("*/grpo/*.yaml")) if file.stem != "base"]
# Sec. 4.2 and App. E of the paper: what all fine-tuning shares, and learning rate, epochs on 300
# samples and tokens of each model.
SUPERVISED = {
    **{"use_peft": True, "lora_r": 16, "lora_alpha": 32, "lora_target_modules": ["all-linear"]},
    **{"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bf16": True, "dtype": "bfloat16"},
    **{"optim": "adamw_torch", "lr_scheduler_type": "cosine", "effective_batch_size": 16},
    **{"completion_only_loss": True, "too_long": "refuse", "lora_dropout": 0},
}
MODELS = {
    "qwen3-4b-base": (5e-5, 12, "<|im_end|>", "<|endoftext|>"),
    "qwen2.5-3b": (4e-5, 15, "<|im_end|>", "<|endoftext|>"),
    "llama-3.1-8b-instruct": (5e-5, 24, "<|eot_id|>", "<|finetune_right_pad_id|>"),
}
# App. E.4.
REINFORCED = {
    **{"use_peft": True, "lora_r": 32, "lora_alpha": 16, "lora_target_modules": ["all-linear"]},
    **{"load_in_4bit": False, "bf16": True, "num_train_epochs": 3, "learning_rate": 2e-5},
    **{"beta": 0.001, "loss_type": "dapo", "num_generations": 8, "temperature": 0.7},
    **{"max_prompt_tokens": 3800, "max_completion_length": 10000, "diversity_weight": 0},
    **{"problems": "gneubig/aime-1983-2024", "mask_truncated_completions": True},
    # A ratio per token, cut: a product over 10,000 tokens would be masked nearly always.
    "vllm_importance_sampling_mode": "token_truncate",
}


def parse(file: Path, *more: str) -> Recipe:
    from trl import GRPOConfig, ModelConfig, SFTConfig

    reinforced = "grpo" in file.parts or file.stem == "grpo"
    own: Any = (ReinforcementOptions, GRPOConfig) if reinforced else (SupervisedOptions, SFTConfig)
    # A GPU is not needed to read a recipe that asks for bfloat16 on one.
    line = ["--config", str(file), "--use_cpu", "true", *more]
    return parse_recipe((*own, ModelConfig), line, prog="recipe.py")


def holds(recipe: Recipe, wanted: dict[str, Any]) -> None:
    assert {name: recipe.settings.get(name) for name in wanted} == wanted


def changed(file: Path, plain: Path) -> dict[str, Any]:
    """The options of a recipe that another one does not have, or has otherwise."""
    theirs, ours = parse(plain).settings, parse(file).settings
    names = (ours.keys() | theirs.keys()) - {"output_dir"}
    return {name: ours.get(name) for name in names if ours.get(name) != theirs.get(name)}


# Nor does a recipe name what is deprecated.
@pytest.mark.filterwarnings("error::FutureWarning")
@pytest.mark.parametrize("file", SFT, ids=lambda file: f"{file.parts[-3]}-{file.stem}")
def test_a_fine_tuning_recipe_has_the_papers_hyperparameters(file: Path):
    model = file.parts[-3]
    recipe = parse(file)
    rate, epochs, end, pad = MODELS[model]
    own_tokens = {"eos_token": end, "padding_token": pad}
    holds(recipe, {**SUPERVISED, "learning_rate": rate, **own_tokens})
    if recipe.settings["num_samples"] == 300:
        assert recipe.settings["num_train_epochs"] == epochs
    assert recipe.settings["output_dir"] == f"runs/{model}/{file.stem}"
    own = {"data", "num_samples", "num_train_epochs"}
    assert changed(file, file.with_stem("rpd_1p3s")).keys() <= own, "arms differ in data and size"


@pytest.mark.parametrize("arm", ["rpd_1p3s", "random_1p1s"])
def test_a_reinforcement_recipe_has_the_papers_hyperparameters(arm: str):
    recipe = parse(CONFIGS / f"qwen3-4b-base/grpo/{arm}.yaml")
    holds(recipe, {**REINFORCED, "model_name_or_path": f"merged/qwen3-4b-base/{arm}"})


@pytest.mark.filterwarnings("error::FutureWarning")
@pytest.mark.parametrize("file", GRPO, ids=lambda file: file.stem)
def test_an_arm_beyond_the_paper_differs_in_its_own_options_only(file: Path):
    own = {"model_name_or_path" if file.stem == "random_1p1s" else "mask_truncated_completions"}
    assert changed(file, file.with_stem("rpd_1p3s")).keys() <= own


def test_arms_that_the_paper_makes_equal_take_equally_many_steps():
    def steps(arm: str) -> int:
        options, training, _ = parse(CONFIGS / f"qwen3-4b-base/sft/{arm}.yaml").parts
        return supervised_steps(range(options.num_samples), training)

    of_300 = ("random_1p1s", "random_1p3s", "raw_1p3s", "summary_1p3s", "llm_1p3s", "rpd_1p3s")
    assert set(map(steps, of_300)) == {228}
    # 300 is no multiple of 16: each epoch ends in a step on 12 samples. The unfiltered arm sees
    # the same 3,600 samples in 225 full steps.
    assert steps("unfiltered_1p16s") == 225
    assert steps("random_1p1s_3000") == steps("rpd_1p3s_3000") == 188
    assert steps("random_1p1s_math_code") == steps("rpd_1p3s_math_code") == 380


def test_every_other_configuration_can_be_read():
    from accelerate.commands.config.config_args import load_config_from_file

    for name in ("sft", "grpo"):
        assert parse(CONFIGS / f"tiny/{name}.yaml").settings["use_cpu"] is True
    for file in (RECIPES / "accelerate").glob("*.yaml"):
        load_config_from_file(str(file))


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("learning_rat: 1.0e-4", "did you mean 'learning_rate'"),
        ("torch_dtype: bfloat16", "did you mean 'dtype'"),
        ("gradient_checkpointing: false", "did you mean 'activation_checkpointing'"),
        ("bf16: flase", "--bf16"),
        ("learning_rate: fast", "invalid float value"),
        ("too_long: cut", "invalid choice"),
    ],
)
def test_a_wrong_line_stops_with_one_line_that_names_the_fix(tmp_path: Path, line: str, named: str):
    with pytest.raises(InputError) as caught:
        parse(write(tmp_path, "r.yaml", line))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError) as again:
        parse(write(tmp_path, "r.yaml", "seed: 1"), *f"--{line}".split(": "))
    assert str(again.value) == str(caught.value), "the command line is read in the same way"


@dataclass
class OlderArguments:
    """What transformers before 5.23 calls the option."""

    per_device_train_batch_size: int = 1
    gradient_checkpointing: bool = False


def test_an_older_transformers_gets_its_own_name_of_an_option(tmp_path: Path):
    file = write(tmp_path, "r.yaml", "activation_checkpointing: true")
    (read,), settings = parse_recipe((OlderArguments,), ["--config", str(file)], prog="p")
    assert read.gradient_checkpointing
    assert settings == {"activation_checkpointing": True}
    line = ["--config", str(file), "--activation_checkpointing=false"]
    assert not parse_recipe((OlderArguments,), line, prog="p").parts[0].gradient_checkpointing
    with pytest.raises(InputError, match="did you mean 'activation_checkpointing'"):
        parse_recipe((OlderArguments,), ["--gradient_checkpointing=true"], prog="p")


def test_the_command_line_wins_over_a_file_and_a_file_over_its_base(tmp_path: Path):
    write(tmp_path, "a.yaml", "lora_r: 4\nlora_alpha: 8\nmax_length: 100\n")
    file = write(tmp_path, "b.yaml", "base: a.yaml\nlora_alpha: 9\nmax_length: null\n")
    _, training, weights = parse(file, "--lora_r", "5").parts
    assert (weights.lora_r, weights.lora_alpha, training.max_length) == (5, 9, None)


def test_what_a_recipe_cannot_mean_is_refused(tmp_path: Path):
    write(tmp_path, "a.yaml", "base: b.yaml\n")
    with pytest.raises(InputError, match="its own base"):
        read_recipe(write(tmp_path, "b.yaml", "base: a.yaml\n"))
    with pytest.raises(InputError, match="duplicate name 'seed'"):
        read_recipe(write(tmp_path, "r.yaml", "seed: 1\nlearning_rate: 0.1\nseed: 2\n"))
    odd = "effective_batch_size: 16\nper_device_train_batch_size: 5\n"
    with pytest.raises(InputError, match="effective_batch_size 16"):
        parse(write(tmp_path, "r.yaml", odd))


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_a_recipe_without_trl_names_the_extra(name):
    path = str(RECIPES / f"{name}.py")
    code = (
        f"import runpy, sys; sys.modules['trl'] = None; runpy.run_path({path!r}, None, '__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "pip install -c constraints.txt -e '.[training]'" in done.stderr.splitlines()[-1]
