"""What is decided before training: attention, who samples, and what cannot be asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from parts.recipe_scripts import RECIPES, script
from parts.tiny_models import sums, tiny_model
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_datasets.training.reinforcement import check_reinforcement
from rpd_datasets.training.session import choose_attention
from rpd_datasets.training.trainers import sampling_exactly
from rpd_metric.errors import InputError

NAME = "sampling/importance_sampling_ratio/limited"
SFT = ["--config", str(RECIPES / "configs/tiny/sft.yaml"), "--disable_tqdm", "true"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    tiny_model(folder / "qwen3", "qwen3")
    sums(folder / "sums.jsonl", 20)
    return folder


def train(here: Path, *more: str, output: str = "out") -> Path:
    line = ["--model_name_or_path", str(here / "qwen3"), "--data", str(here / "sums.jsonl")]
    script("sft").main([*SFT, *line, "--output_dir", str(here / output), *more])
    return here / output


def test_flash_attention_is_chosen_where_it_is_installed(monkeypatch: pytest.MonkeyPatch):
    model = SimpleNamespace(attn_implementation=None, dtype="bfloat16")
    for installed, expected in ((True, "flash_attention_2"), (False, None)):
        monkeypatch.setattr(
            "transformers.utils.is_flash_attn_2_available", lambda found=installed: found
        )
        assert choose_attention(model, on_cpu=False) == expected
        assert choose_attention(model, on_cpu=True) is None
        exact = SimpleNamespace(attn_implementation=None, dtype="float32")
        assert choose_attention(exact, on_cpu=False) is None
        asked = SimpleNamespace(attn_implementation="eager", dtype="bfloat16")
        assert choose_attention(asked, on_cpu=False) == "eager"


def test_a_dry_run_says_what_attention_it_will_be(here: Path, capsys: pytest.CaptureFixture[str]):
    train(here, "--dry_run")
    assert "attention: sdpa\n" in capsys.readouterr().err
    train(here, "--dry_run", "--attn_implementation", "eager")
    assert "attention: eager\n" in capsys.readouterr().err


def test_eval_strategy_without_held_out_problems_is_refused_in_one_line(here: Path):
    with pytest.raises(InputError, match=r"--validation 0\.02") as caught:
        train(here, "--eval_strategy", "epoch")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
# Training after an evaluation must not go on without the gradients of its 4-bit weights.
@pytest.mark.filterwarnings("error:bitsandbytes..gemv_4bit. an autograd kernel was not registered")
def test_held_out_problems_have_a_loss_of_their_own(here: Path, capsys: pytest.CaptureFixture[str]):
    train(here, "--validation", "0.2", "--num_train_epochs", "2", output="held")
    captured = capsys.readouterr()
    assert "samples: 16\n" in captured.err
    assert "held-out samples: 4\n" in captured.err
    assert captured.out.count("'eval_loss'") == 2


@pytest.mark.slow
def test_a_smoke_run_takes_two_steps_on_the_longest_samples_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
):
    output = train(here, "--smoke", output="smoke")
    captured = capsys.readouterr()
    assert captured.out.count("'loss'") == 2
    assert "peak memory of 2 steps: " in captured.err
    assert not output.exists()


@pytest.mark.slow
def test_without_a_network_a_dry_run_does_not_wait_for_retries(here: Path, tmp_path: Path):
    line = [sys.executable, str(RECIPES / "sft.py"), *SFT, "--dry_run", "--output_dir", "unused"]
    line += ["--model_name_or_path", "nobody/at-all", "--data", str(here / "sums.jsonl")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(RECIPES.parent),
        # Nothing listens there; as without a network, every request fails at once.
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path),
    }
    done = subprocess.run(line, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "Retrying" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "recipes/sft.py: cannot load the tokenizer of nobody/at-all: "
    )


def test_the_share_of_limited_ratios_is_logged_where_vllm_samples():
    class Sampled:
        """What TRL's trainer returns after vLLM has sampled."""

        args = SimpleNamespace(
            vllm_importance_sampling_clip_min=None, vllm_importance_sampling_clip_max=3.0
        )
        accelerator = SimpleNamespace(gather=lambda share: share.reshape(1))
        model = SimpleNamespace(training=True)

        def __init__(self, ratio: torch.Tensor | None) -> None:
            self.ratio = ratio
            self._metrics: Any = {"train": {NAME: []}}

        def _generate_and_score_completions(self, _: Any) -> dict[str, Any]:
            ratio = self.ratio
            return {"completion_mask": torch.ones(1, 4), "importance_sampling_ratio": ratio}

    for ratio, logged in ((torch.tensor([[1.0, 3.0, 0.9, 1.1]]), [0.25]), (None, [])):
        trainer = sampling_exactly(Sampled)(ratio)
        trainer._generate_and_score_completions([])
        assert trainer._metrics["train"][NAME] == logged


def test_a_diversity_reward_on_groups_that_are_split_over_processes_is_refused():
    model = SimpleNamespace(model_name_or_path="model", load_in_4bit=False)
    # Two processes of four completions each, where a problem has eight.
    sizes = {"generation_batch_size": 8, "world_size": 2, "num_generations": 8}
    training = SimpleNamespace(reward_weights=None, eval_strategy="no", **sizes)
    check_reinforcement(ReinforcementOptions(), training, model)
    with pytest.raises(InputError, match="measured among what one process sees"):
        check_reinforcement(ReinforcementOptions(diversity_weight=0.1), training, model)
    training.generation_batch_size = 16
    check_reinforcement(ReinforcementOptions(diversity_weight=0.1), training, model)
