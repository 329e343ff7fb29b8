"""`.ci/fresh` shows a command a machine on which nothing has run, and hides no failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "fresh"


def private_mounts() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not private_mounts(), reason="needs root and `unshare`")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout below the temporary folder, with `shared` beside it as a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data.txt").write_text("shared data")
    (tmp_path / "shared").symlink_to(tmp_path / "elsewhere")
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / ".ci" / "fresh")
    (folder / "committed.txt").write_text("committed")
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


def lines(*args: object, **variables: str) -> list[str]:
    run = fresh(*args, **variables)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_exit_status_is_the_commands(checkout):
    assert fresh(checkout, "sh", "-c", "exit 7").returncode == 7
    assert fresh(checkout, "true").returncode == 0
    assert fresh(checkout).returncode == 2


@needs_mounts
def test_the_temporary_folder_and_home_are_empty_and_stay_so_outside(checkout, tmp_path):
    home = tmp_path / "home"
    (home / ".cache" / "huggingface").mkdir(parents=True)
    command = 'ls -A "$HOME"; echo /tmp; ls -A /tmp; touch "$HOME/left" /tmp/left-by-a-command'
    seen = lines(checkout, "sh", "-c", command, HOME=str(home))
    # The home of this test and the checkout are below the temporary folder; nothing else is.
    assert seen[0] == "/tmp"
    assert set(seen[1:]) <= {tmp_path.parts[2]}
    assert [path.name for path in home.iterdir()] == [".cache"]
    assert not Path("/tmp/left-by-a-command").exists()


def test_the_checkout_and_shared_are_seen_wherever_they_lie(checkout):
    seen = lines(checkout, "sh", "-c", "pwd; cat uncommitted.txt; echo; cat ../shared/data.txt")
    assert seen == [str(checkout), "uncommitted", "shared data"]


@needs_mounts
def test_a_checkout_below_home_is_seen(checkout, tmp_path):
    (tmp_path / "private.txt").write_text("private")
    command = "cat committed.txt ../shared/data.txt; echo; ls -A .."
    seen = lines(checkout, "sh", "-c", command, HOME=str(tmp_path))
    assert seen[0] == "committedshared data"
    assert set(seen[1:]) == {"checkout", "elsewhere", "shared"}


def test_a_clone_holds_what_is_committed_and_is_removed_again(checkout):
    seen = lines(checkout, "--clone", "sh", "-c", "pwd; ls; cat ../shared/data.txt")
    assert seen[1:] == ["committed.txt", "shared data"]
    assert not Path(seen[0]).exists()


def test_of_the_environment_only_what_package_managers_read_is_kept(checkout, tmp_path):
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("certificate")
    seen = lines(
        checkout,
        "sh",
        "-c",
        'cat "$SSL_CERT_FILE"; echo; env',
        SSL_CERT_FILE=str(certificate),
        PIP_INDEX_URL="https://example.org/simple",
        PIP_CACHE_DIR=str(tmp_path),
        HF_HOME=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path),
        PYTHONPATH=str(tmp_path),
    )
    assert seen[0] == "certificate"
    names = {line.partition("=")[0] for line in seen[1:]}
    assert {"PIP_INDEX_URL", "SSL_CERT_FILE", "PATH", "HOME"} <= names
    assert not names & {"PIP_CACHE_DIR", "HF_HOME", "XDG_CACHE_HOME", "PYTHONPATH"}


def test_configuration_files_of_package_managers_are_copied(checkout, tmp_path):
    home = tmp_path / "home"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\n")
    seen = lines(checkout, "sh", "-c", 'cat "$HOME/.config/pip/pip.conf"', HOME=str(home))
    assert seen == ["[global]"]


@pytest.mark.parametrize("home", ["", "/", "/no/such/folder"])
def test_an_account_without_a_home_gets_an_empty_one(checkout, home):
    seen = lines(checkout, "sh", "-c", 'echo "$HOME"; ls -A "$HOME"; ls ../shared', HOME=home)
    assert seen[0].startswith("/var/tmp/rpd-fresh.")
    assert seen[1:] == ["data.txt"]
    assert not Path("/no").exists()


def test_without_a_namespace_it_says_so_and_goes_on(checkout, tmp_path):
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    run = fresh(
        checkout,
        "sh",
        "-c",
        'echo went on; ls -A "$HOME" "$TMPDIR"; exit 5',
        HOME=str(tmp_path),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
    )
    assert run.returncode == 5
    assert run.stderr.startswith(".ci/fresh: no private mount namespace")
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout.startswith("went on\n")
    assert "checkout" not in run.stdout
