"""`.ci/fresh` shows a command a machine on which nothing has run, and hides no failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "fresh"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout below the temporary folder, with `shared` beside it as a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data.txt").write_text("shared data")
    (tmp_path / "shared").symlink_to(tmp_path / "elsewhere")
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / ".ci" / "fresh")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], check=True)
    (folder / "uncommitted.txt").write_text("uncommitted")
    return folder


def fresh(checkout: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # Those of this run of the tests stand in the way of a HOME of the test's own.
    here = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return subprocess.run(
        [str(checkout / ".ci" / "fresh"), *command],
        env=here | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_exit_status_is_the_commands(checkout):
    assert fresh(checkout, "sh", "-c", "exit 7").returncode == 7
    assert fresh(checkout, "true").returncode == 0


def test_home_is_empty_and_stays_so_outside(checkout, tmp_path):
    home = tmp_path / "home"
    (home / ".cache" / "huggingface").mkdir(parents=True)
    run = fresh(checkout, "sh", "-c", 'ls -A "$HOME"; touch "$HOME/left"', HOME=str(home))
    assert (run.returncode, run.stdout) == (0, "")
    assert [path.name for path in home.iterdir()] == [".cache"]


def test_a_clone_holds_what_is_committed_and_is_removed_again(checkout):
    run = fresh(checkout, "--clone", "sh", "-c", "pwd; ls -A; cat ../shared/data.txt")
    folder, *seen = run.stdout.splitlines()
    assert seen == [".ci", ".git", "shared data"]
    assert not Path(folder).exists()


def test_of_the_environment_only_what_package_managers_read_is_kept(checkout, tmp_path):
    variables = {
        "PIP_INDEX_URL": "https://example.org/simple",
        "PIP_CACHE_DIR": str(tmp_path),
        "HF_HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
    }
    names = {line.partition("=")[0] for line in fresh(checkout, "env", **variables).stdout.split()}
    assert {"PIP_INDEX_URL", "PATH", "HOME"} <= names
    assert not names & {"PIP_CACHE_DIR", "HF_HOME", "PYTHONPATH"}
