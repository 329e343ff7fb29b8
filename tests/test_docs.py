"""What the docs show works: README's code and commands, and every example in a docstring."""

from __future__ import annotations

import configparser
import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

import rpd_datasets
import rpd_metric
from rpd_datasets.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [
    line.split(" #")[0].strip()
    for language, code in BLOCKS
    if language == "bash"
    for line in code.replace("\\\n", " ").splitlines()
    if line.strip()
]
# Modules that are scripts of their own, or need a package that is not always installed.
NO_DOCTESTS = {
    "rpd_metric.metrics.rpd.rpd",
    "rpd_metric.metrics.pass_at_k.pass_at_k",
    "rpd_datasets.cli.__main__",
}
MODULES = sorted(
    module.name
    for package in (rpd_metric, rpd_datasets)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if module.name not in NO_DOCTESTS
)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_in_the_readme_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for all commands: a later one may read what an earlier one wrote."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("rpd ")])
def test_rpd_commands_in_the_readme_run(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err


def test_every_other_command_in_the_readme_is_there():
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE), command
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = set(setup["options.extras_require"])
    named = {e for c in COMMANDS for e in re.findall(r"\[([\w,]+)\]", c)}
    assert named
    assert {extra for group in named for extra in group.split(",")} <= extras


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_files_that_the_readme_names_are_there():
    for path in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / path).exists(), path


def test_extras_that_errors_name_exist():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = set(setup["options.extras_require"])
    for package in ("rpd_metric", "rpd_datasets"):
        for file in (ROOT / package).rglob("*.py"):
            for extra in re.findall(r'extra="(\w+)"', file.read_text(encoding="utf-8")):
                assert extra in extras, f"{file.name} names the extra {extra!r}"
