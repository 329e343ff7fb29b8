"""What commands print: it fits the window, and is plain where nobody watches."""

import re
import threading
from types import SimpleNamespace

import pytest

from rpd_datasets.cli import output
from rpd_datasets.cli.output import Progress, print_lines, print_scored, print_table, scoring
from rpd_datasets.commands import run_command
from rpd_metric.errors import InputError

LONG = "Find the smallest positive integer that leaves remainder four when divided by seven. " * 3


@pytest.fixture
def printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda: capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 140])
def test_tables_fit_the_window(monkeypatch, printed, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([{"what": LONG, "count": 12345, "share": None}, {"what": "b", "count": 1}])
    print_scored([(LONG, 0.5, ["solution 3: " + LONG]), ("short", None, [])])
    print_lines([("Difference", LONG)])
    print_scored([("[red]x[/red] [/]", 0.1, ["[bold]"])])  # markup is text
    lines = printed().splitlines()
    assert max(map(len, lines)) <= columns
    assert any("12,345" in line for line in lines)
    assert any(line.startswith("1  0.500  Find the smallest") for line in lines)
    assert lines[-2:] == ["1  0.100  [red]x[/red] [/]", "   [bold]"]


def test_texts_cannot_steer_the_terminal(printed, capsys):
    evil = "a\x1b]0;owned\x07\x1b[2J\x9b31m\rb"
    print_scored([(evil, 0.5, [evil])])
    print_lines([("Name", evil)])
    print_table([{"what": evil}])
    with Progress("Scoring") as line:
        line.write(evil)

    def fail() -> None:
        raise InputError(evil)

    assert run_command("rpd", fail) == 1
    said = capsys.readouterr()
    assert said.out.count("owned") == 4
    assert said.err.count("owned") == 2
    assert not set("\x1b\x07\x9b\r") & set(said.out + said.err)


def test_progress_on_a_terminal_shows_what_a_server_is_doing(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    flow = SimpleNamespace(tick=lambda: "4 in flight", stats=SimpleNamespace(summary=str))
    line = Progress("Scoring", 1)
    with scoring((flow,), line), line:
        line.advance()
        line._live.refresh()
    assert "4 in flight" in capsys.readouterr().err


def test_progress_in_a_pipe_says_what_each_stage_came_to(capsys):
    with Progress("Loading models") as line:
        line.stage("Scoring problems", 3)
        line.advance()
        line.write("a message")
        line.advance()
        line.stage("Writing")
    said = capsys.readouterr()
    assert said.out == ""
    # However long that took.
    lines = re.sub(r"in \d+ s", "in 0 s", said.err).splitlines()
    assert lines[:3] == ["Loading models ...", "Scoring problems ...", "a message"]
    assert lines[3:] == ["Scoring problems: 2 of 3 in 0 s", "Writing ..."]


def test_a_pipe_hears_now_and_then_what_a_server_is_doing(monkeypatch, capsys):
    monkeypatch.setattr(output, "SECONDS_BETWEEN_LINES", 0.001)
    said = threading.Event()
    flow = SimpleNamespace(
        tick=lambda: "0 done; 4 in flight", stats=SimpleNamespace(summary=lambda: "4 requests")
    )
    line = Progress("Scoring", 1)
    write = line.write
    monkeypatch.setattr(line, "write", lambda text: (write(text), said.set()))
    with scoring((flow,), line), line:
        assert said.wait(60)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "Scoring: 0 of 1; 0 done; 4 in flight"
    assert lines[-1] == "4 requests"
