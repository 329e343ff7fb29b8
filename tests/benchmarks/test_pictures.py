"""The pictures of the docs show what the demo prints today."""

import re
import subprocess

from benchmarks.pictures import DOCS, run_demo, terminal_page, words_of


def test_the_words_of_the_picture_are_those_of_the_demo(tmp_path):
    printed = run_demo(tmp_path / "set")
    recorded = (DOCS / "demo.txt").read_text(encoding="utf-8")
    assert words_of(printed) == recorded, "docs/demo.png is stale: make pictures"
    assert str(tmp_path) not in terminal_page(printed)


def test_what_the_demo_shows_is_convincing():
    recorded = (DOCS / "demo.txt").read_text(encoding="utf-8")
    problems = re.split(r"^\d  ", recorded.partition("\nAnswers ")[0], flags=re.MULTILINE)[1:]
    assert len(problems) == 6
    for problem in problems:
        strategies = re.findall(r"solution \d: (.+)", problem)
        assert len(set(strategies)) == 3, problem
    assert re.search(r"^Better than random +yes, in 6", recorded, re.MULTILINE)


def test_the_demo_installs_what_it_needs_and_shows_how_it_goes(tmp_path):
    command = ["make", "--dry-run", "demo", f"VENV={tmp_path}/new"]
    said = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=True)
    installed = [line for line in said.stdout.splitlines() if " pip install " in line]
    assert [line.split()[-1] for line in installed] == ["torch", "'.[offline]'"]
    assert "--quiet" not in said.stdout
