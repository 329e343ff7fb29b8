"""Runs of agents: their actions are what is compared, and nothing about them counts as measured."""

import json

import numpy as np
import pytest
from datasets import load_dataset

from parts.rows import write_rows
from rpd_datasets import CurationConfig, curate_dataset
from rpd_datasets.messages import parting
from rpd_datasets.problem import Problem
from rpd_metric.steps.actions import actions

TASK = "The test of add() fails. Repair it."
PATCH = "*** Begin Patch\n*** Update File: src/add.py\n@@\n-a\n+b\n*** End Patch\n"
SHELL = "cd /repo/a && sed -n '1,9p' src/add.py; uv run pytest -q tests 2>&1 | tail -3"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Bash", {"command": SHELL}, ["look src/add.py", "test pytest tests"]),
        ("Read", {"file_path": "/repo/a/src/add.py", "limit": 9}, ["look src/add.py"]),
        ("shell", {"command": ["bash", "-lc", "rg -n 'def add' src"]}, ["search def add in src"]),
        (
            "shell",
            {"command": ["bash", "-lc", f"apply_patch <<'E'\n{PATCH}E"]},
            ["edit src/add.py"],
        ),
        ("apply_patch", {"input": PATCH}, ["edit src/add.py"]),
        ("exec_command", {"cmd": "make test", "workdir": "/repo/a"}, ["test make test"]),
        ("str_replace_editor", {"command": "view", "path": "/repo/a/b"}, ["look b"]),
        ("text_editor", {"command": "create", "path": "/repo/a/b"}, ["edit b"]),
        ("execute_bash", {"command": "cat > /tmp/tmpab12cd34 <<'E'\na; b\nE"}, ["edit /tmp/tmp"]),
        ("web_search", {"query": "carry bit"}, ["search carry bit"]),
        ("python", {"code": "1 + 1"}, ["run 1 + 1"]),
        ("Bash", {"command": "echo 'not closed; kill 123456"}, []),
        ("deploy", {"to": "staging"}, ["deploy to=staging"]),
    ],
)
def test_a_call_is_an_action(name, arguments, expected):
    assert actions([(name, arguments)], "/repo/a") == expected


def session(folder: str, words: str, commands: list[str]) -> list[dict]:
    """A session of Claude Code that worked in a folder."""
    own = {"sessionId": folder, "cwd": folder}
    lines = [{"type": "user", "message": {"role": "user", "content": TASK}} | own]
    for number, command in enumerate(commands):
        use = {"type": "tool_use", "id": f"t{number}", "name": "Bash"}
        parts = [{"type": "text", "text": words}, use | {"input": {"command": command}}]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "done"}
        lines += [
            {"type": "assistant", "message": {"role": "assistant", "content": parts}} | own,
            {"type": "user", "message": {"role": "user", "content": [result]}} | own,
        ]
    end = {"role": "assistant", "content": f"{words} The test passes now."}
    return [*lines, {"type": "assistant", "message": end} | own]


def test_runs_of_the_same_actions_are_near_whatever_they_say(tmp_path):
    """By the packed encoder: the same actions in other words and folders, and other actions."""
    repair = "cat {0}/src/add.py; sed -i 's/-/+/' {0}/src/add.py && pytest {0}/tests"
    other = "grep -rn carry {0}/docs; git log; rm {0}/tests/test_add.py"
    ways = [("I will read the code first.", repair), ("Hmm, where is that bug?", repair)]
    for number, (words, way) in enumerate([*ways, ("I will read the code first.", other)]):
        folder = f"/repo/run{number}"
        lines = session(folder, words, way.format(folder).split("; "))
        write_rows(tmp_path / "runs" / f"{number}.jsonl", lines)
    config = CurationConfig(
        num_problems=1, num_solutions=2, problems="rpd", solutions="rpd", embedder="static"
    )
    curate_dataset(tmp_path / "runs", tmp_path / "out", config)
    (row,) = load_dataset(str(tmp_path / "out"), split="train")
    same, *others = np.array(row["rpd_matrix"])[[0, 0, 1], [1, 2, 2]]
    repaired = ["look src/add.py", "edit src/add.py", "test pytest tests"]
    assert row["steps"][:2] == [repaired, repaired]
    assert same == 0
    assert min(others) > 0.3
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "not measured" in manifest["outcome"]["distance"]["sees"]
    assert "not measured" in (tmp_path / "out" / "README.md").read_text()
    problem = Problem(row["problem"], tuple(row["solutions"]), row)
    ways = "look src/add.py: 0, 1; search carry in docs: 2"
    assert parting(problem, [0, 1, 2]) == f"After no equal actions, solutions continue with {ways}."
    assert parting(problem, [0, 1]) == "The runs have the same 3 actions."
