"""What is decided before training, and what cannot be asked."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from parts.recipe_scripts import RECIPES, fine_tune, script
from parts.tiny_models import sums, tiny_model
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_datasets.training.record import check_resumable, record_settings
from rpd_datasets.training.reinforcement import check_reinforcement
from rpd_metric.errors import InputError, OutputError


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    tiny_model(folder / "qwen3", "qwen3")
    sums(folder / "sums.jsonl", 20)
    return folder


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("eval_strategy", "epoch", "--measure_every and --measure_problems"),
        ("push_to_hub", "true", r"leave push_to_hub out: rpd push \S+ NAME publishes"),
        ("hub_token", "secret", "leave hub_token out"),
    ],
)
def test_what_a_recipe_leaves_to_other_commands_is_refused_in_one_line(
    here: Path, option: str, value: str, says: str
):
    with pytest.raises(InputError, match=says) as caught:
        fine_tune(here, "qwen3", "out", f"--{option}", value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_smoke_run_takes_two_steps_on_the_longest_samples_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
):
    output = fine_tune(here, "qwen3", "smoke", "--smoke")
    captured = capsys.readouterr()
    assert captured.out.count("'loss'") == 2
    assert "peak memory of 2 steps: " in captured.err
    assert re.search(r" s a step, with which 8 steps take \S+ hours\n", captured.err)
    assert not output.exists()


def test_a_run_goes_on_with_another_split_of_its_batch_and_says_what_changed(tmp_path: Path):
    settings = {"learning_rate": 1e-4, "seed": 0, "effective_batch_size": 16}
    split = {"per_device_train_batch_size": 1, "project": "one"}
    record_settings(tmp_path, settings | split, {})
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3/trainer_state.json").touch()
    said: list[str] = []
    split = {"per_device_train_batch_size": 2, "project": "two"}
    assert check_resumable(tmp_path, settings | split, said.append) == tmp_path / "checkpoint-3"
    assert said == [
        f"continuing from {tmp_path / 'checkpoint-3'}; per_device_train_batch_size was 1 and is 2; "
        "project was 'one' and is 'two'"
    ]
    for name in settings:
        with pytest.raises(OutputError, match=f"other settings .{name}; {name} was"):
            check_resumable(tmp_path, settings | split | {name: 7}, said.append)


def test_packing_and_sharded_4_bit_weights_are_not_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    # What `accelerate launch --config_file recipes/accelerate/fsdp2.yaml` sets.
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    fine_tune(here, "qwen3", "out", "--dry_run", "--packing", "true", "--max_length", "256")
    assert "load_in_4bit: True\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "folder"), [("merged/a/b", "runs/a/b"), ("merged/b", "runs/b"), ("x/y/z", "x/y/z")]
)
def test_a_model_that_was_not_merged_yet_is_said_in_plain_words(name: str, folder: str):
    line = ["--config", str(RECIPES / "configs/tiny/grpo.yaml"), "--model_name_or_path", name]
    with pytest.raises(InputError, match=f"python recipes/merge.py --adapter {folder} --output"):
        script("grpo").main([*line, "--output_dir", "unused"])


def test_a_diversity_reward_on_groups_that_are_split_over_processes_is_refused():
    model = SimpleNamespace(model_name_or_path="model", load_in_4bit=False)
    # Two processes of four completions each, where a problem has eight.
    sizes = {"generation_batch_size": 8, "world_size": 2, "num_generations": 8}
    training = SimpleNamespace(reward_weights=None, **sizes)
    check_reinforcement(ReinforcementOptions(), training, model)
    with pytest.raises(InputError, match="measured within a process"):
        check_reinforcement(ReinforcementOptions(diversity_weight=0.1), training, model)
    training.generation_batch_size = 16
    check_reinforcement(ReinforcementOptions(diversity_weight=0.1), training, model)
