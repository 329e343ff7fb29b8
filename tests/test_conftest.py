"""The rules of conftest.py: what a test leaves behind fails the run, and files can be shuffled."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CONFTEST = (TESTS / "conftest.py").read_text(encoding="utf-8")
pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs test files under a copy of this folder's conftest, as a run of its own."""
    monkeypatch.delenv("RPD_TESTS_WORLD", raising=False)
    pytester.makeconftest(CONFTEST)

    def run_files(*arguments: str, **files: str):
        pytester.makepyfile(**files)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run_files


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_a_test_leaves_in_home_or_the_temporary_folder_fails_the_run(run, workers):
    result = run(
        *workers,
        test_leaves="""
            import tempfile
            from pathlib import Path

            def test_passes():
                Path.home().joinpath("a-file").touch()
                tempfile.mkdtemp(prefix="a-folder-")
        """,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["ERROR a test left a-file in HOME", "ERROR a test left a-folder-* in TMPDIR", "*1 passed*"]
    )


def test_a_run_that_leaves_nothing_passes_and_its_folders_are_removed(run):
    result = run(
        "-s",
        test_clean="""
            import os, tempfile
            from pathlib import Path

            def test_passes(tmp_path):
                with tempfile.TemporaryDirectory() as folder:
                    assert Path(folder).is_relative_to(os.environ["TMPDIR"])
                tmp_path.joinpath("a-file").touch()
                print("HOME", Path.home())
        """,
    )
    assert result.ret == 0
    (home,) = (line.split()[-1] for line in result.outlines if line.find("HOME") >= 0)
    assert "rpd-tests-" in home
    assert not Path(home).parent.exists()


def test_a_seed_shuffles_files_and_keeps_the_order_within_each(run, pytester):
    names = [f"test_{letter}" for letter in "abcdef"]
    files = dict.fromkeys(names, "def test_2(): pass\ndef test_1(): pass\n")

    def order(*arguments: str) -> list[str]:
        lines = run("-v", *arguments, **files).outlines
        return [line.split()[0] for line in lines if "PASSED" in line]

    plain, shuffled = order(), order("--shuffle-files", "7")
    assert plain == [f"{name}.py::{test}" for name in names for test in ("test_2", "test_1")]
    assert order("--shuffle-files", "7") == shuffled != plain
    assert sorted(shuffled[::2]) == plain[::2]
    assert [one.replace("_2", "_1") for one in shuffled[::2]] == shuffled[1::2]


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_ctrl_c_reaches_what_a_test_starts_even_where_the_run_itself_ignores_it(run, workers):
    # As a shell starts what it puts in the background.
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = run(
            *workers,
            test_interrupts="""
                import signal, subprocess, sys

                def test_passes():
                    line = "import time; print('ready', flush=True); time.sleep(60)"
                    child = subprocess.Popen([sys.executable, "-c", line], stdout=-1, stderr=-3)
                    child.stdout.readline()
                    child.send_signal(signal.SIGINT)
                    assert child.wait(30) == -signal.SIGINT
            """,
        )
    finally:
        signal.signal(signal.SIGINT, former)
    assert result.ret == 0


def test_the_longest_files_begin_first_and_are_there(run, pytester):
    files = dict.fromkeys(["test_a", "test_b"], "def test(): pass\n")
    pytester.makeconftest(CONFTEST.replace("LONGEST = (", 'LONGEST = ("test_b.py",', 1))
    pytester.makepyfile(**files)
    lines = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider").outlines
    assert [line.split("::")[0] for line in lines if "PASSED" in line] == ["test_b.py", "test_a.py"]
    listed = re.search(r"^LONGEST = \((.*?)\)", CONFTEST, re.MULTILINE | re.DOTALL)
    assert listed is not None
    names = re.findall(r'"(.+?)"', listed[1])
    assert names
    assert [name for name in names if not (TESTS / name).is_file()] == []


def test_what_a_test_puts_in_place_of_the_environment_is_gone_after_it(run):
    result = run(
        test_replaces="""
            import os
            from copy import deepcopy

            looked_up = os.environ

            def test_replaces():
                os.environ = deepcopy(os.environ)

            def test_reaches_libraries(monkeypatch):
                monkeypatch.setenv("COLOUR", "1")
                assert looked_up["COLOUR"] == "1"
        """,
    )
    result.assert_outcomes(passed=2)
