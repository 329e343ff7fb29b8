"""Every recipe is what the paper's tables say, and parses against the installed TRL."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from parts.recipe_scripts import RECIPES
from rpd_datasets.training.recipe import (
    Recipe,
    ReinforcementOptions,
    SupervisedOptions,
    parse_recipe,
    read_recipe,
)
from rpd_datasets.training.token_rows import optimizer_steps
from rpd_metric.errors import InputError

CONFIGS = RECIPES / "configs"

# Model: Hub id, learning rate, epochs on 300 samples (Sec. 4.2, App. E), its end and padding token.
MODELS = {
    "qwen3-4b-base": ("Qwen/Qwen3-4B-Base", 5e-5, 12, "<|im_end|>", "<|endoftext|>"),
    "qwen2.5-3b": ("Qwen/Qwen2.5-3B", 4e-5, 15, "<|im_end|>", "<|endoftext|>"),
    "llama-3.1-8b-instruct": (
        "meta-llama/Llama-3.1-8B-Instruct",
        5e-5,
        24,
        "<|eot_id|>",
        "<|finetune_right_pad_id|>",
    ),
}
MAIN = ["random_1p1s", "random_1p3s", "raw_1p3s", "summary_1p3s", "llm_1p3s", "rpd_1p3s"]
# Model and arm: samples, and epochs where they are not the model's.
ARMS: dict[tuple[str, str], tuple[int, int | None]] = {
    **{("qwen3-4b-base", arm): (300, None) for arm in MAIN},
    ("qwen3-4b-base", "unfiltered_1p16s"): (3600, 1),
    **{("qwen3-4b-base", f"rpd_1p{n}s"): (300, None) for n in (2, 4, 5)},
    ("qwen3-4b-base", "rpd_q_random_a"): (300, None),
    ("qwen3-4b-base", "random_q_rpd_a"): (300, None),
    ("qwen3-4b-base", "random_1p1s_3000"): (3000, 1),
    ("qwen3-4b-base", "rpd_1p3s_3000"): (3000, 1),
    ("qwen3-4b-base", "random_1p1s_math_code"): (600, 10),
    ("qwen3-4b-base", "rpd_1p3s_math_code"): (600, 10),
    ("qwen3-4b-base", "rpd_1p3s_summarizer_7b"): (300, None),
    **{("qwen2.5-3b", arm): (300, None) for arm in MAIN},
    ("qwen2.5-3b", "unfiltered_1p16s"): (3600, 1),
    ("llama-3.1-8b-instruct", "random_1p1s"): (300, None),
    ("llama-3.1-8b-instruct", "rpd_1p3s"): (300, None),
}


# Arms of reinforcement learning that are not the paper's, and what is theirs.
BEYOND: dict[str, dict[str, object]] = {
    "bonus": {"diversity_weight": 0.1, "diversity_as": "bonus"},
    "rarity": {"diversity_weight": 0.1, "diversity_as": "rarity"},
    "entropy": {"entropy_coef": 0.001},
}


def parse_sft(file: Path, *more: str) -> Recipe:
    from trl import ModelConfig, SFTConfig

    # A GPU is not needed to read a recipe that asks for bfloat16 on one.
    line = ["--config", str(file), "--use_cpu", "true", *more]
    return parse_recipe((SupervisedOptions, SFTConfig, ModelConfig), line, prog="sft.py")


def parse_grpo(file: Path) -> Recipe:
    from trl import GRPOConfig, ModelConfig

    kinds = (ReinforcementOptions, GRPOConfig, ModelConfig)
    return parse_recipe(kinds, ["--config", str(file), "--use_cpu", "true"], prog="grpo.py")


def arms(kind: str) -> set[tuple[str, str]]:
    return {
        (file.parents[1].name, file.stem)
        for file in CONFIGS.glob(f"*/{kind}/*.yaml")
        if file.stem != "base"
    }


def test_every_arm_of_the_papers_tables_has_a_recipe_and_there_is_no_other():
    assert arms("sft") == set(ARMS)
    papers = {("qwen3-4b-base", "rpd_1p3s"), ("qwen3-4b-base", "random_1p1s")}
    assert arms("grpo") == papers | {("qwen3-4b-base", f"rpd_1p3s_{name}") for name in BEYOND}


@pytest.mark.parametrize("name", BEYOND)
def test_an_arm_beyond_the_paper_differs_from_the_papers_in_its_own_options_only(name: str):
    folder = CONFIGS / "qwen3-4b-base/grpo"
    plain = parse_grpo(folder / "rpd_1p3s.yaml").settings
    other = parse_grpo(folder / f"rpd_1p3s_{name}.yaml").settings
    changed = {key: other.get(key) for key in plain.keys() | other.keys()}
    changed = {key: value for key, value in changed.items() if value != plain.get(key)}
    assert changed == {**BEYOND[name], "output_dir": f"runs/qwen3-4b-base/grpo_rpd_1p3s_{name}"}


@pytest.mark.parametrize(("model", "arm"), sorted(ARMS))
def test_a_fine_tuning_recipe_has_the_papers_hyperparameters(model: str, arm: str):
    recipe = parse_sft(CONFIGS / model / "sft" / f"{arm}.yaml")
    data, training, weights = recipe.parts
    hub_id, rate, epochs, end, pad = MODELS[model]
    samples, own_epochs = ARMS[model, arm]
    assert weights.model_name_or_path == hub_id
    assert training.learning_rate == rate
    assert training.num_train_epochs == (own_epochs or epochs)
    assert data.num_samples == samples
    assert (training.eos_token, data.padding_token) == (end, pad)
    assert (weights.use_peft, weights.lora_r, weights.lora_alpha) == (True, 16, 32)
    assert weights.lora_target_modules == "all-linear"
    assert (weights.load_in_4bit, weights.bnb_4bit_quant_type) == (True, "nf4")
    assert (training.bf16, weights.dtype) == (True, "bfloat16")
    assert training.optim == "adamw_torch"
    assert training.lr_scheduler_type == "cosine"
    assert training.per_device_train_batch_size * training.gradient_accumulation_steps == 16
    assert training.completion_only_loss
    assert weights.lora_dropout == 0
    assert data.too_long == "refuse"
    assert training.report_to == []
    assert training.output_dir == f"runs/{model}/{arm}"
    own = {"data", "output_dir", "num_samples", "num_train_epochs"}
    plain = parse_sft(CONFIGS / model / "sft/rpd_1p3s.yaml").settings
    changed = {key for key, value in recipe.settings.items() if value != plain.get(key)}
    assert changed <= own, "arms of a model differ in data and size only"


@pytest.mark.parametrize("arm", ["rpd_1p3s", "random_1p1s"])
def test_a_reinforcement_recipe_has_the_papers_hyperparameters(arm: str):
    options, training, weights = parse_grpo(
        CONFIGS / "qwen3-4b-base" / "grpo" / f"{arm}.yaml"
    ).parts
    assert weights.model_name_or_path == f"merged/qwen3-4b-base/{arm}"
    assert (training.num_train_epochs, training.learning_rate) == (3, 2e-5)
    assert (training.beta, training.use_bias_correction_kl) == (0.001, False)
    assert (training.loss_type, training.scale_rewards) == ("dapo", "group")
    assert (weights.lora_r, weights.lora_alpha) == (32, 16)
    assert weights.lora_target_modules == "all-linear"
    assert not weights.load_in_4bit
    assert options.max_prompt_tokens == 3800
    assert (training.max_completion_length, training.vllm_max_model_length) == (10000, 13800)
    assert (training.num_generations, training.temperature) == (8, 0.7)
    assert options.diversity_weight == 0
    assert options.problems == "gneubig/aime-1983-2024"
    # A ratio per token, cut: a product over 10,000 tokens would be masked nearly always.
    assert training.vllm_importance_sampling_mode == "token_truncate"
    assert training.vllm_importance_sampling_clip_max == 3
    assert training.lr_scheduler_type == "constant"
    assert training.mask_truncated_completions
    assert weights.lora_dropout == 0


def test_the_extra_for_vllm_names_the_versions_that_trl_supports():
    import inspect

    from packaging.requirements import Requirement
    from trl.import_utils import is_vllm_available

    setup = ConfigParser()
    setup.read(RECIPES.parent / "setup.cfg", encoding="utf-8")
    extra = setup["options.extras_require"]["vllm"].split("\n")
    (wanted,) = [Requirement(line) for line in extra if line.startswith("vllm")]
    found = re.findall(r'Version\("([\d.]+)"\)', inspect.getsource(is_vllm_available))
    lowest, highest = found[:2]
    assert lowest in wanted.specifier
    assert highest in wanted.specifier
    assert "0.21.9" not in wanted.specifier
    assert "0.32.0" not in wanted.specifier


def test_arms_that_the_paper_makes_equal_take_equally_many_steps():
    def steps(samples: int, epochs: int) -> int:
        return optimizer_steps(samples, per_device=1, processes=1, accumulation=16, epochs=epochs)

    by_arm = {
        arm: steps(samples, epochs or 12)
        for (model, arm), (samples, epochs) in ARMS.items()
        if model == "qwen3-4b-base"
    }
    assert {by_arm[arm] for arm in MAIN} == {228}
    # 300 is no multiple of 16: each epoch ends in a step on 12 samples. The unfiltered arm sees
    # the same 3,600 samples in 225 full steps.
    assert by_arm["unfiltered_1p16s"] == 225
    assert by_arm["random_1p1s_3000"] == by_arm["rpd_1p3s_3000"] == 188
    assert by_arm["random_1p1s_math_code"] == by_arm["rpd_1p3s_math_code"] == 380


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_the_tiny_recipes_parse(name: str):
    file = CONFIGS / "tiny" / f"{name}.yaml"
    assert (parse_sft if name == "sft" else parse_grpo)(file).settings["use_cpu"] is True


@pytest.mark.parametrize(
    "file", sorted((RECIPES / "accelerate").glob("*.yaml")), ids=lambda f: f.stem
)
def test_every_accelerate_configuration_is_one_that_accelerate_reads(file: Path):
    from accelerate.commands.config.config_args import load_config_from_file

    kinds = {
        "one_gpu": "NO",
        "ddp": "MULTI_GPU",
        "fsdp2": "FSDP",
        "zero3": "DEEPSPEED",
        "cpu": "NO",
    }
    assert load_config_from_file(str(file)).distributed_type == kinds[file.stem]


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("learning_rat: 1.0e-4", "did you mean 'learning_rate'"),
        ("max_seq_length: 4096", "did you mean 'max_length'"),
        ("warmup_ratio: 0.1", "did you mean 'warmup_steps'"),
        ("torch_dtype: bfloat16", "did you mean 'dtype'"),
        ("bf16: flase", "--bf16"),
        ("learning_rate: fast", "invalid float value"),
        ("too_long: cut", "invalid choice"),
    ],
)
def test_a_wrong_line_stops_with_one_line_that_names_the_fix(tmp_path: Path, line: str, named: str):
    with pytest.raises(InputError) as caught:
        parse_sft(write(tmp_path, "r.yaml", line))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError) as again:
        parse_sft(write(tmp_path, "r.yaml", "seed: 1"), *f"--{line}".split(": "))
    assert str(again.value) == str(caught.value), "the command line is read in the same way"


def test_the_command_line_wins_over_a_file_and_a_file_over_its_base(tmp_path: Path):
    write(tmp_path, "a.yaml", "lora_r: 4\nlora_alpha: 8\nmax_length: 100\n")
    file = write(tmp_path, "b.yaml", "base: a.yaml\nlora_alpha: 9\nmax_length: null\n")
    _, training, weights = parse_sft(file, "--lora_r", "5").parts
    assert (weights.lora_r, weights.lora_alpha, training.max_length) == (5, 9, None)


def test_a_recipe_for_a_gpu_can_be_looked_at_without_one():
    from trl import ModelConfig, SFTConfig

    file = CONFIGS / "qwen3-4b-base/sft/rpd_1p3s.yaml"
    kinds = (SupervisedOptions, SFTConfig, ModelConfig)
    recipe = parse_recipe(kinds, ["--config", str(file), "--dry_run"], prog="sft.py")
    assert recipe.parts[1].bf16
    assert "use_cpu" not in recipe.settings


def test_a_recipe_based_on_itself_or_with_a_name_twice_is_refused(tmp_path: Path):
    write(tmp_path, "a.yaml", "base: b.yaml\n")
    with pytest.raises(InputError, match="its own base"):
        read_recipe(write(tmp_path, "b.yaml", "base: a.yaml\n"))
    with pytest.raises(InputError, match="'seed' stands there twice"):
        read_recipe(write(tmp_path, "r.yaml", "seed: 1\nlearning_rate: 0.1\nseed: 2\n"))


def test_a_batch_that_does_not_divide_is_refused(tmp_path: Path):
    file = write(tmp_path, "r.yaml", "effective_batch_size: 16\nper_device_train_batch_size: 5\n")
    with pytest.raises(InputError, match="effective_batch_size 16"):
        parse_sft(file)
