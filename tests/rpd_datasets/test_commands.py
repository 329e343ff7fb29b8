"""How commands end: one line and a status, the same for `rpd` and for the recipes' scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rpd_datasets.commands import run_command
from rpd_metric.errors import InputError
from rpd_metric.models.failures import Interrupted

ROOT = Path(__file__).resolve().parents[2]


def ending(error: BaseException | None):
    def work() -> None:
        if error is not None:
            raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, 0, ""),
        (InputError("no such file; name another"), 1, "rpd x: no such file; name another\n"),
        (Interrupted("stopped"), 130, "rpd x: stopped\n"),
        (KeyboardInterrupt(), 130, "rpd x: interrupted; run it again\n"),
    ],
)
def test_a_command_ends_in_one_line_and_a_status(error, status, line, capsys):
    assert run_command("rpd x", ending(error), after_interrupt="run it again") == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", line)


def test_a_fault_of_our_own_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_command("rpd x", ending(ZeroDivisionError()))


def test_a_reader_that_goes_away_ends_the_command_quietly():
    code = (
        "import sys; from rpd_datasets.commands import run_command\n"
        "def work():\n    for _ in range(100000): print('line')\n"
        "sys.exit(run_command('x', work))"
    )
    piped = f'"{sys.executable}" -c "$CODE" | head -n 1; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", piped],
        env={"CODE": code, "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (141, "line\n", "")


@pytest.mark.parametrize("script", ["sft", "grpo", "merge", "passk"])
def test_the_recipes_scripts_end_that_way_too(script):
    source = (ROOT / "recipes" / f"{script}.py").read_text(encoding="utf-8")
    assert "run_command(" in source
