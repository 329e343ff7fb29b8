"""From a pushed dataset to a pushed model: recipes read from the Hub, rpd push publishes there."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi, ModelCard, constants

from parts.local_hub import TOKEN, LocalHub
from parts.recipe_scripts import RECIPES
from parts.tiny_models import tiny_model
from rpd_datasets.cli import main
from rpd_datasets.publish.publishable import publishable
from rpd_datasets.publish.pushing import push_folder
from rpd_metric.errors import InputError

SFT = [str(RECIPES / "sft.py"), "--config", str(RECIPES / "configs/tiny/sft.yaml")]
# What somebody else does with the model; the base is found by the adapter's own record of it.
READER = """
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer

model = AutoPeftModelForCausalLM.from_pretrained("ada/tuned")
ids = AutoTokenizer.from_pretrained("ada/tuned")("3 + 4", return_tensors="pt")
print(model.peft_config["default"].base_model_name_or_path, model(**ids).logits.dim())
"""


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub() as local:
        yield local


def push(hub: LocalHub, here: Path, patch: pytest.MonkeyPatch, *names: str) -> None:
    with patch.context() as online:
        online.setattr(constants, "HF_HUB_OFFLINE", False)
        online.setattr(constants, "HF_HUB_DISABLE_XET", True)
        for name in names:
            push_folder(here / name, f"ada/{name}", api=HfApi(hub.url, token=TOKEN))


def fill(hub: LocalHub, here: Path, patch: pytest.MonkeyPatch) -> None:
    """Push a curated dataset and a tiny base model, both private."""
    asked = ["curate", "sample", "--num-problems", "3", "--num-solutions", "2", "--limit", "6"]
    assert main([*asked, "--output", str(here / "set")]) == 0
    base = tiny_model(here / "tiny", "qwen3")
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\nUntrained.\n")
    push(hub, here, patch, "set", "tiny")


def sft(hub: LocalHub, cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = ["--model_name_or_path", "ada/tiny", "--data", "ada/set", "--num_train_epochs", "1"]
    return hub.run(cwd, *SFT, *line, "--output_dir", "tuned", *more, **env)


@pytest.mark.slow
def test_a_recipe_trains_on_a_pushed_set_and_its_model_is_pushed_for_others_to_load(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(hub, tmp_path, monkeypatch)
    done = sft(hub, tmp_path, "--num_samples", "6")
    assert done.returncode == 0, done.stderr[-3000:]
    push(hub, tmp_path, monkeypatch, "tuned")
    assert hub.repos["models/ada/tuned"].private
    files = hub.files("models/ada/tuned")
    assert {"adapter_model.safetensors", "tokenizer.json", "recipe.json", "README.md"} <= set(files)
    assert not [name for name in files if "checkpoint" in name or name.endswith(".bin")]
    commit = hub.repos["datasets/ada/set"].branches["main"]
    card = ModelCard(files["README.md"].decode())
    data = card.data
    assert (data.datasets, data.base_model, data.license) == (["ada/set"], "ada/tiny", "apache-2.0")
    assert 'from_pretrained("ada/tuned"' in card.text
    assert f"- `ada/set`, commit `{commit}`" in card.text
    assert json.loads(files["recipe.json"])["settings"]["data"] == [f"ada/set@{commit}"]
    everything = b"".join(data for name, data in files.items() if name.endswith((".json", ".md")))
    assert TOKEN.encode() not in everything
    assert str(tmp_path).encode() not in everything

    read = hub.run(tmp_path, "-c", READER)
    assert read.returncode == 0, read.stderr[-3000:]
    assert read.stdout.split() == ["ada/tiny", "3"]

    # A branch that has moved is another training set: the run does not go on with it unsaid.
    moved = hub.repos["datasets/ada/set"]
    moved.commit("main", {**hub.files("datasets/ada/set"), "NOTES.md": b"later"}, "later")
    again = sft(hub, tmp_path, "--num_samples", "6")
    assert again.returncode == 1
    assert "holds a run with other settings (data" in again.stderr
    pinned = sft(hub, tmp_path, "--data", f"ada/set@{commit}", "--num_samples", "6", "--dry_run")
    assert pinned.returncode == 0, pinned.stderr[-3000:]
    assert f"data: ['ada/set@{commit}']" in pinned.stderr


def test_an_adapter_that_nobody_else_could_load_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    config = {"base_model_name_or_path": str(tmp_path)}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="publish the merged model"):
        publishable(tmp_path)
