"""The scripts for Hugging Face Jobs: they say what they need, and run here as what they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rpd_metric.inference.chat import ChatReply, ChatRequest
from rpd_metric.inference.store import ReplyStore

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


def test_a_job_goes_on_from_the_store_on_its_volume_and_leaves_it_there(tmp_path: Path) -> None:
    volume = tmp_path / "bucket"
    volume.mkdir()
    request = ChatRequest(({"role": "user", "content": "asked by an earlier job"},))
    with ReplyStore(tmp_path / "earlier.sqlite") as store:
        store.put("m", request, ChatReply("kept", "stop"))
        store.copy(volume / "replies.sqlite")
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "recipes" / "jobs" / "curate.py", "sample"),
            *("--summarizer", "extractive", "--limit", "3", "--num-problems", "2"),
            *("--volume", volume, "--work", tmp_path / "work"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "curated" / "README.md").exists()
    assert not list(volume.glob("*.partial"))
    with ReplyStore(volume / "replies.sqlite") as store:
        found = store.get("m", request)
    assert found is not None
    assert found.text == "kept"
