"""`rpd push` and `rpd space --push`, and what others then read from the Hub."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard

from parts.local_hub import LocalHub, Repo
from rpd_datasets.cli import main

# What a stranger does with the ids; one process, because imports take most of the time.
READER = """
import json
import datasets, evaluate

curated = datasets.load_dataset("ada/set", split="train")
sft = datasets.load_dataset("ada/set", "sft", split="train")
stream = datasets.load_dataset("ada/set", split="train", streaming=True)
rpd = evaluate.load("ada/rpd", module_type="metric")
groups = [[["Factor the product."], ["Draw the graph."]], [["Count."], ["Count."]]]
print(json.dumps({
    "curated": curated.to_list(), "sft": sft.to_list(),
    "streamed": len(list(stream)), "rpd": rpd.compute(predictions=groups)["rpd_per_problem"],
    "module": rpd.__module__,
}))
"""
# The first problem that was scored moves the branch; the chosen ones are read again after it.
MOVER = """
import json
from huggingface_hub import HfApi
from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.curation.run import Listener

class Mover(Listener):
    moved = False

    def advance(self):
        if not self.moved:
            self.moved = HfApi().upload_file(
                path_or_fileobj=b'{"problem": "Another?", "solutions": ["No."]}\\n',
                path_in_repo="data/train.jsonl", repo_id="ada/moving", repo_type="dataset",
            )

config = CurationConfig(num_problems=3, num_solutions=2)
curated = curate_dataset("ada/moving", "out", config, progress=Mover())
print(json.dumps({
    "fingerprint": curated.manifest["input"]["fingerprint"],
    "problems": list(curated.dataset["problem"]),
}))
"""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hub():
    with LocalHub() as local:
        yield local


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("push") / "set"
    asked = ["curate", "sample", "--num-problems", "3", "--num-solutions", "2", "--limit", "6"]
    terms = ["--license", "cc-by-4.0", "--language", "en"]
    assert main([*asked, *terms, "--output", str(folder)]) == 0
    return folder


def rpd(hub: LocalHub, cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return hub.run(cwd, "-m", "rpd_datasets.cli", *arguments, **env)


def test_what_is_pushed_can_be_loaded_by_datasets_and_evaluate(hub, folder, tmp_path):
    pushed = rpd(hub, tmp_path, "push", str(folder), "ada/set", "--json")
    assert pushed.returncode == 0, pushed.stderr
    result: dict[str, Any] = json.loads(pushed.stdout)
    assert (result["repo_id"], result["private"]) == ("ada/set", True)
    again = rpd(hub, tmp_path, "push", str(folder), "set")
    assert again.returncode == 0, again.stderr
    assert "Read it with load_dataset('ada/set', split='train')" in again.stdout
    space = rpd(hub, tmp_path, "space", "rpd", "--push", "--public", HOME=str(tmp_path))
    assert space.returncode == 0, space.stderr
    assert not hub.repos["spaces/ada/rpd"].private

    read = hub.run(tmp_path, "-c", READER)

    assert read.returncode == 0, read.stderr
    found = json.loads(read.stdout)
    assert len(found["curated"]) == found["streamed"] == 3
    assert {"problem", "solutions", "rpd_matrix", "selected"} <= set(found["curated"][0])
    chosen = [row["solutions"][index] for row in found["curated"] for index in row["selected"]]
    assert [row["completion"][0]["content"] for row in found["sft"]] == chosen
    assert found["rpd"][0] > 0.3
    assert found["rpd"][1] == pytest.approx(0, abs=1e-6)
    assert "ada--rpd" in found["module"], "another metric than the Space's was loaded"


def test_a_pushed_set_is_curated_again_by_streaming_and_its_commit_is_recorded(
    hub, folder, tmp_path
):
    assert rpd(hub, tmp_path, "push", str(folder), "ada/rows").returncode == 0
    repo = hub.repos["datasets/ada/rows"]
    commit = repo.branches["v1"] = repo.branches["main"]

    asked = ["ada/rows", "--revision", "v1", "--num-problems", "2", "--num-solutions", "2"]
    done = rpd(hub, tmp_path, "curate", *asked, "--output", "again")

    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "again/manifest.json").read_text())
    assert (manifest["options"]["input"], manifest["options"]["revision"]) == ("ada/rows", "v1")
    assert manifest["input"]["fingerprint"] == commit
    data = DatasetCard((tmp_path / "again/README.md").read_text()).data
    assert (data.license, data.language) == ("cc-by-4.0", "en"), "as the input's card says"
    assert data.source_datasets == ["extended|ada/rows"]
    cached = (tmp_path / "home").rglob("*.parquet")
    assert not list(cached), "it was downloaded, not streamed"


def test_a_branch_that_moves_between_the_two_passes_of_a_run_changes_nothing(hub, tmp_path):
    solutions = [f"We {word} it. The answer is even." for word in ("count", "draw", "guess")]
    rows = [{"problem": f"What is {n} + {n}?", "solutions": solutions} for n in range(4)]
    repo = hub.repos["datasets/ada/moving"] = Repo(private=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    commit = repo.commit("main", {"data/train.jsonl": lines}, "rows")

    done = hub.run(tmp_path, "-c", MOVER)

    assert done.returncode == 0, done.stderr
    assert len(repo.messages) == 2, "the branch did not move"
    found = json.loads(done.stdout)
    assert found["fingerprint"] == commit
    assert len(found["problems"]) == 3
    assert set(found["problems"]) <= {row["problem"] for row in rows}


def test_curating_and_publishing_at_once_asks_the_hub_before_the_work_begins(hub, tmp_path):
    asked = ["curate", "sample", "--limit", "4", "--num-problems", "2", "--output", "set"]
    done = rpd(hub, tmp_path, *asked, "--push-to-hub", "ada/once", HF_TOKEN="hf_wrong")
    assert done.returncode == 1
    assert "does not accept the token" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("set*"))

    done = rpd(hub, tmp_path, *asked, "--push-to-hub", "ada/once", "--message", "At once", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pushed"]["repo_id"] == "ada/once"
    assert "should publishing break: rpd push set ada/once" in done.stderr
    repo = hub.repos["datasets/ada/once"]
    assert (repo.private, repo.messages[-1]) == (True, "At once")
