"""From a pushed dataset to a pushed model: recipes read from the Hub and publish there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi, ModelCard, constants

from parts.local_hub import TOKEN, LocalHub
from parts.recipe_scripts import RECIPES
from parts.tiny_models import tiny_model
from rpd_datasets.cli import main
from rpd_datasets.publish.publishable import publishable
from rpd_datasets.publish.pushing import push_folder
from rpd_datasets.training.session import take_push
from rpd_metric.errors import InputError, OutputError

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


def fill(hub: LocalHub, here: Path, patch: pytest.MonkeyPatch) -> None:
    """Push a curated dataset and a tiny base model, both private."""
    asked = ["curate", "sample", "--num-problems", "3", "--num-solutions", "2", "--limit", "6"]
    assert main([*asked, "--output", str(here / "set")]) == 0
    base = tiny_model(here / "tiny", "qwen3")
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\nUntrained.\n")
    with patch.context() as online:
        online.setattr(constants, "HF_HUB_OFFLINE", False)
        online.setattr(constants, "HF_HUB_DISABLE_XET", True)
        for name in ("set", "tiny"):
            push_folder(here / name, f"ada/{name}", api=HfApi(hub.url, token=TOKEN))


def sft(hub: LocalHub, cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = ["--model_name_or_path", "ada/tiny", "--data", "ada/set", "--num_train_epochs", "1"]
    return hub.run(cwd, *SFT, *line, "--output_dir", "tuned", *more, **env)


@pytest.mark.slow
def test_a_recipe_trains_on_a_pushed_set_and_pushes_a_model_that_others_load(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(hub, tmp_path, monkeypatch)
    done = sft(hub, tmp_path, "--push_to_hub", "true", "--hub_token", TOKEN, "--num_samples", "6")
    assert done.returncode == 0, done.stderr[-3000:]

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
    assert TOKEN not in (tmp_path / "tuned/recipe.json").read_text()

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


def training(**options: Any) -> Any:
    known = {"push_to_hub": True, "hub_always_push": False, "output_dir": "runs/tuned"}
    unset = dict.fromkeys(("hub_model_id", "hub_private_repo", "hub_token", "hub_revision"))
    return SimpleNamespace(**known | unset | {"process_index": 1} | options)


BASE = SimpleNamespace(model_name_or_path="Qwen/Qwen3-4B-Base", use_peft=True)


def test_trls_options_about_the_hub_mean_one_private_push_at_the_end() -> None:
    given = training(hub_revision="v2", hub_token="secret")
    settings = {"hub_token": "secret", "push_to_hub": True, "hub_strategy": "end"}
    push = take_push(given, BASE, settings)
    assert push is not None
    assert push.pop("api").token == "secret"
    assert push == {"repo_id": "tuned", "private": True, "revision": "v2"}
    assert (given.push_to_hub, given.hub_token) == (False, None), "TRL would push as well"
    assert "hub_token" not in settings
    public = training(hub_model_id="me/m", hub_private_repo=False)
    assert (take_push(public, BASE, {}) or {})["private"] is False
    assert take_push(training(push_to_hub=False), BASE, {}) is None


@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        ({}, {"hub_strategy": "every_save"}, "leave hub_strategy and"),
        ({"hub_always_push": True}, {}, "hub_always_push out"),
        ({"push_to_hub": False, "hub_private_repo": True}, {}, "hub_private_repo does nothing"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: Any, settings: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        take_push(training(**options), BASE, settings)


def test_an_adapter_that_nobody_else_could_load_is_refused_before_and_after(tmp_path: Path) -> None:
    base = SimpleNamespace(model_name_or_path=str(tmp_path), use_peft=True)
    with pytest.raises(InputError, match="others cannot load an adapter"):
        take_push(training(), base, {})
    (tmp_path / "README.md").touch()
    config = {"base_model_name_or_path": str(tmp_path)}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="publish the merged model"):
        publishable(tmp_path)


def test_a_push_that_cannot_work_is_said_before_training(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    first = {"process_index": 0, "hub_model_id": "ada/new"}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OutputError, match="unset HF_HUB_OFFLINE"):
        take_push(training(**first, hub_token=TOKEN), BASE, {})
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(OutputError, match=r"does not accept the token.* Nothing was sent"):
        take_push(training(**first, hub_token="hf_wrong"), BASE, {})
    assert take_push(training(**first, hub_token=TOKEN), BASE, {}) is not None
    assert "models/ada/new" not in hub.repos
