"""What the docs show works: README's code and commands, and the commands of the pages."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import pytest

from rpd_datasets.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").glob("*.md"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands of a page's bash blocks; those of text blocks need a server or a GPU."""
    lines = "".join(blocks(text, "bash")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.strip()]


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks(README, "python"))
def test_python_in_the_readme_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_rpd_commands_run(page, tmp_path, monkeypatch, capsys):
    """In one folder: a later command may read what an earlier one wrote."""
    monkeypatch.chdir(tmp_path)
    for command in commands(page.read_text(encoding="utf-8")):
        if command.startswith("rpd "):
            assert main(shlex.split(command)[1:]) == 0, f"{command}: {capsys.readouterr().err}"


def test_targets_of_make_and_extras_that_the_docs_name_are_there():
    makefile = (ROOT / "Makefile").read_text()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES):
        text = page.read_text(encoding="utf-8")
        for command in commands(text):
            if command.startswith("make "):
                for target in command.split()[1:]:
                    assert re.search(rf"^{target}:", makefile, re.MULTILINE), command
        for group in re.findall(r"-e '\.\[([\w,]+)\]'", text):
            assert set(group.split(",")) <= set(setup["options.extras_require"])


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=str)
def test_files_that_a_page_links_to_are_there(page):
    for path in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / path).exists(), path


def test_extras_that_errors_name_exist():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for package in ("rpd_metric", "rpd_datasets"):
        for file in (ROOT / package).rglob("*.py"):
            for extra in re.findall(r'extra="(\w+)"', file.read_text(encoding="utf-8")):
                assert extra in setup["options.extras_require"], f"{file.name} names {extra!r}"
