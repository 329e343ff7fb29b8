"""Datasets on the Hub, read through the real client from a small Hub on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from parts.local_hub import LocalHub, Repo

ROWS = [
    {"problem": "What is 1 + 1?", "solutions": ["2", "It is two."]},
    {"problem": "What is 2 + 2?", "solutions": ["4"]},
]
README = b"---\nlicense: apache-2.0\n---\n"
TRAIN = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
# Reads a dataset per set of options and prints what came of it, one JSON object a line.
CLIENT = """
import json, sys
from rpd_datasets.inputs.hub_rows import HubRows
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_metric.errors import InputError

for options in json.loads(sys.argv[1]):
    repo = options.pop("repo")
    try:
        rows = HubRows(repo, **options) if options else open_rows(repo, InputSpec())
        found = [[row.place, row.values["problem"], row.values["solutions"]] for row in rows]
        answer = {"rows": found, "commit": rows.fingerprint()}
    except InputError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def hub():
    with LocalHub() as hub:
        for name, content in (("rows", TRAIN), ("broken", TRAIN + b"{broken\n")):
            repo = hub.repos[f"datasets/ada/{name}"] = Repo()
            repo.commit("main", {"README.md": README, "data/train.jsonl": content}, "rows")
        yield hub


def ask(hub: LocalHub, home: Path, *questions: dict[str, Any], **env: str) -> list[dict[str, Any]]:
    done = hub.run(home, "-c", CLIENT, json.dumps(questions), **env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_a_hub_dataset_is_read_by_id_and_pinned_to_its_commit(hub, tmp_path):
    download = {"repo": "ada/rows", "streaming": False}
    expected = {
        "rows": [[f"ada/rows:{n}", *row.values()] for n, row in enumerate(ROWS, start=1)],
        "commit": hub.repos["datasets/ada/rows"].at("main")[0],
    }
    assert ask(hub, tmp_path, {"repo": "ada/rows"}, download) == [expected] * 2
    # Offline afterwards: the download serves, a stream cannot.
    cached, stream = ask(hub, tmp_path, download, {"repo": "ada/rows"}, HF_HUB_OFFLINE="1")
    assert cached == expected
    assert "offline mode is enabled" in stream["error"]


@pytest.mark.slow
def test_what_the_hub_does_not_have_is_one_clear_line(hub, tmp_path):
    cases = [
        ({"repo": "ada/elsewhere"}, "neither a local file or folder nor a dataset on the Hub"),
        ({"repo": "ada/rows", "split": "test"}, "Available splits: ['train']"),
        ({"repo": "ada/rows", "config": "hard"}, "'hard' not found. Available: ['default']"),
        ({"repo": "ada/rows", "revision": "v9"}, "'ada/rows' has no revision 'v9'"),
        ({"repo": "ada/broken"}, "Reading 'ada/broken' stopped after"),
    ]
    answers = ask(hub, tmp_path, *(question for question, _ in cases))
    answers += ask(hub, tmp_path, {"repo": "ada/rows"}, HF_ENDPOINT="http://127.0.0.1:9")
    says = [*(text for _, text in cases), "the Hub cannot be reached"]
    for answer, text in zip(answers, says, strict=True):
        assert text in answer["error"]
        assert "\n" not in answer["error"]
