"""The workflows run what was reviewed: actions by commit, tools of the release by version."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_to_commits(file):
    used = re.findall(r"uses: (.+)", file.read_text(encoding="utf-8"))
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert used
    assert [line for line in used if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_what_pip_installs_is_pinned_to_versions(file):
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for line in re.findall(r"pip install (.+)", file.read_text(encoding="utf-8")):
        names = [
            word for word in line.replace("-c constraints.txt", "").split() if "==" not in word
        ]
        assert all(re.search(rf"^{name}==", constraints, re.M) for name in names), line
        assert not names or "-c constraints.txt" in line
