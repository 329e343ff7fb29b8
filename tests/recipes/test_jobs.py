"""The scripts for Hugging Face Jobs: they say what they need, and run here as what they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from parts.fake_tgi import FakeTGI
from parts.tiny_models import sums, tiny_model
from rpd_metric.models.chat import ChatReply, ChatRequest
from rpd_metric.models.store import ReplyStore

ROOT = Path(__file__).parents[2]
JOBS = sorted((ROOT / "recipes" / "jobs").glob("*.py"))


@pytest.mark.parametrize("script", JOBS, ids=lambda path: path.stem)
def test_a_script_names_what_uv_has_to_install_and_the_line_that_starts_it(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    block = re.match(r"# /// script\n((?:# .*\n)+)# ///\n", text)
    assert block is not None
    metadata = tomllib.loads(re.sub(r"^# ", "", block[1], flags=re.MULTILINE))
    assert metadata["requires-python"] == ">=3.11"
    assert any(need.startswith("rpd-metric") for need in metadata["dependencies"])
    assert "hf jobs uv run --flavor" in text
    assert "Not run on Jobs" in text


def run_job(name: str, folder: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script from its own folder's repository, as on any machine."""
    return subprocess.run(
        [sys.executable, ROOT / "recipes" / "jobs" / f"{name}.py", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_job_goes_on_from_the_store_on_its_volume_and_leaves_it_there(tmp_path: Path) -> None:
    volume = tmp_path / "bucket"
    volume.mkdir()
    request = ChatRequest(({"role": "user", "content": "asked by an earlier job"},))
    with ReplyStore(tmp_path / "earlier.sqlite") as store:
        store.put("m", request, ChatReply("kept", "stop"))
        store.copy(volume / "replies.sqlite")
    done = run_job(
        *("curate", tmp_path, "sample", "--summarizer", "extractive", "--limit", "3"),
        *("--num-problems", "2", "--volume", volume, "--work", tmp_path / "work"),
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "curated" / "README.md").exists()
    assert not list(volume.glob("*.partial"))
    with ReplyStore(volume / "replies.sqlite") as store:
        found = store.get("m", request)
    assert found is not None
    assert found.text == "kept"


@pytest.mark.slow
def test_a_training_job_goes_on_from_the_checkpoint_on_its_volume(tmp_path: Path) -> None:
    tiny_model(tmp_path / "model", "qwen3")
    sums(tmp_path / "sums.jsonl")
    volume = tmp_path / "bucket"
    options = [
        *("tiny/sft.yaml", "--run", "tuned", "--volume", volume),
        *("--data", tmp_path / "sums.jsonl", "--model_name_or_path", tmp_path / "model"),
        *("--max_steps", "4", "--save_steps", "2", "--disable_tqdm", "true"),
    ]
    done = run_job("sft", tmp_path, *options, "--work", tmp_path / "one")
    assert done.returncode == 0, done.stderr[-2000:]
    kept = volume / "tuned"
    assert [path.name for path in kept.glob("checkpoint-*")] == ["checkpoint-4"]
    assert (kept / "adapter_model.safetensors").is_file()
    # As a job leaves it that was killed between its two checkpoints.
    shutil.rmtree(kept)
    kept.mkdir()
    shutil.copytree(tmp_path / "one" / "tuned" / "checkpoint-2", kept / "checkpoint-2")
    shutil.copyfile(tmp_path / "one" / "tuned" / "recipe.json", kept / "recipe.json")
    again = run_job("sft", tmp_path, *options, "--work", tmp_path / "two")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "checkpoint-2" in again.stderr
    for folder in ("one", "two"):
        state = json.loads(
            (tmp_path / folder / "tuned" / "checkpoint-4" / "trainer_state.json").read_text()
        )
        assert state["global_step"] == 4
    assert [path.name for path in kept.glob("checkpoint-*")] == ["checkpoint-4"]


def test_a_job_for_pass_at_k_pays_for_no_sample_twice(tmp_path: Path) -> None:
    rows = ({"ID": str(n), "Problem": f"What is {n} + 3?", "Answer": n + 3} for n in range(30))
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = ("runs=1", "samples=2", "limit=2", "diversity=false", "max_tokens=50")
    with FakeTGI(reply=lambda _: "It is \\boxed{3}.") as server:
        for folder in ("one", "two"):
            done = run_job(
                *("passk", tmp_path, "qwen3-4b-base/passk/aime24.yaml", "--run", "base"),
                *("--spec", f"tgi:{server.url}", "--data", tmp_path / "tasks.jsonl"),
                *(part for setting in small for part in ("--set", setting)),
                *("--volume", tmp_path / "bucket", "--work", tmp_path / folder),
            )
            assert done.returncode == 0, done.stderr[-2000:]
        assert len(server.requests) == 4
    results = json.loads((tmp_path / "bucket" / "base" / "aime24" / "results.json").read_text())
    assert results["name"] == "base"


@pytest.mark.parametrize("name", ["sft", "passk"])
def test_a_script_alone_says_that_it_needs_the_repository(name: str, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    copy = shutil.copyfile(ROOT / "recipes" / "jobs" / f"{name}.py", tmp_path / "alone" / "job.py")
    done = subprocess.run(
        [sys.executable, copy, "x.yaml", "--run", "r"]
        + (["--spec", "hf:m"] if name == "passk" else []),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"{name}.py: name the repository of the recipes with --repository URL\n"


def test_a_script_alone_takes_the_recipes_from_the_repository(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    (origin / "recipes").mkdir(parents=True)
    (origin / "recipes" / "passk.py").write_text("import sys\nprint(*sys.argv[1:])\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(origin))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "recipes"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "alone").mkdir()
    copy = shutil.copyfile(ROOT / "recipes" / "jobs" / "passk.py", tmp_path / "alone" / "job.py")
    command = [sys.executable, copy, "x.yaml", "--run", "r", "--spec", "hf:m", "--volume", "kept"]
    done = subprocess.run(
        [*command, "--repository", origin.as_uri(), "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("run --config x.yaml --model hf:m --name r --store ")
    assert done.stdout.endswith(" --json\n")
