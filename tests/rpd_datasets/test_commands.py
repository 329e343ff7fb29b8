"""How commands end: one line and a status, the same for `rpd` and for the recipes' scripts."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rpd_datasets.commands import run_command, stopped_by_signals
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


def test_a_program_keeps_its_own_handlers_and_may_run_commands_in_threads():
    def mine(number, frame):
        raise AssertionError("nobody sends a signal here")

    former = signal.signal(signal.SIGTERM, mine)
    try:
        assert run_command("rpd x", ending(None)) == 0
        assert signal.getsignal(signal.SIGTERM) is mine
        with ThreadPoolExecutor(max_workers=1) as thread:
            assert thread.submit(run_command, "rpd x", ending(KeyboardInterrupt())).result() == 130
    finally:
        signal.signal(signal.SIGTERM, former)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_drops_is_raised_again(stop):
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(stop)

    former = signal.getsignal(stop)
    with stopped_by_signals() as stop_if_interrupted:
        stop_if_interrupted()
        Dropped()
        with pytest.raises(KeyboardInterrupt):
            stop_if_interrupted()
    assert signal.getsignal(stop) is former


STOPPED = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from rpd_datasets.commands import run_command
def work():
    with ThreadPoolExecutor(1) as pool:
        if sys.argv[1] == "busy":
            pool.submit(time.sleep, 60)
        try:
            print("at work", flush=True)
            time.sleep(60)
        finally:
            print("stopping", flush=True)
sys.exit(run_command("x", work))
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("work", ["idle", "busy"])
def test_ctrl_c_and_sigterm_end_a_command_and_the_second_one_at_once(stop, work):
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, work],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "at work\n"
    process.send_signal(stop)
    assert process.stdout.readline() == "stopping\n"
    if work == "busy":  # a thread would hold the end up for a minute
        process.send_signal(stop)
    _, said = process.communicate(timeout=50)
    first = "x: interrupted; run the same command again to continue\n"
    second = "x: interrupted again, stopped at once; run the same command again to continue\n"
    assert (process.returncode, said) == (130, second if work == "busy" else first)


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
