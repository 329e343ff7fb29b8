"""The docs work: the site builds, and the code, commands, links and names on the pages hold."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rpd_datasets.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
SKILL = ROOT / "rpd_datasets" / ".agents" / "skills" / "rpd" / "SKILL.md"
PAGES = sorted([README, SKILL, *(ROOT / "docs").glob("*.md")])
ALL_PAGES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", ROOT / "recipes" / "README.md"]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands of a page's bash blocks; those of text blocks need a server or a GPU."""
    lines = "".join(blocks(text, "bash")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.strip()]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_python_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    """In one folder: a later command may read what an earlier one wrote."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for command in commands(text):
        if command.startswith("rpd "):
            assert main(shlex.split(command)[1:]) == 0, f"{command}: {capsys.readouterr().err}"
    for code in blocks(text, "python"):
        exec(compile(code, page.name, "exec"), {"__name__": "page"})


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

    def site(name: str) -> str:
        return (tmp_path / name / "index.html").read_text(encoding="utf-8")

    assert "<code>--num-solutions N</code>" in site("commands")
    assert 'id="rpd-space"' in site("commands")
    assert "<code>copied_example</code>" in site("reasons")
    assert "select_samples" in site("tutorial")
    assert "tiny/qwen3" in site("train")
    assert "num_problems" in site("api")
    listed = re.findall(r"\]\((.+?)\): \S", (tmp_path / "llms.txt").read_text(encoding="utf-8"))
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in listed}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} == texts.keys()
    assert "--num-solutions N" in texts["commands.md"]
    assert "rpd_metric.compute_rpd(" in texts["api.md"]
    assert not [name for name, text in texts.items() if "<!--" in text or "\n::: " in text]
    external = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)="(?:https?:)?//')
    assert not [page for page in tmp_path.rglob("*.html") if external.search(page.read_text())]


def test_the_skill_fits_the_format_of_agent_skills():
    """agentskills.io: a name like its folder's, and when to use it."""
    _, front, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", about["name"])
    assert 0 < len(about["description"]) <= 1024
    assert "Use when" in about["description"]
    assert len(body.splitlines()) < 500
    assert all(command.startswith("rpd ") for command in commands(body))


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 180


def test_targets_of_make_and_extras_that_the_docs_name_are_there():
    makefile = (ROOT / "Makefile").read_text()
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    for page in ALL_PAGES:
        text = page.read_text(encoding="utf-8")
        for command in [*commands(text), *re.findall(r"`(make [a-z-]+)`", text)]:
            if command.startswith("make "):
                for target in command.split()[1:]:
                    assert re.search(rf"^{target}:", makefile, re.MULTILINE), command
        for group in re.findall(r"-e '\.\[([\w,]+)\]'", text):
            assert set(group.split(",")) <= set(setup["options.extras_require"])


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_a_page_imports_from_nowhere_deeper_than_the_two_packages(page):
    text = page.read_text(encoding="utf-8")
    deeper = re.findall(r"^(?:from|import) (rpd_(?:metric|datasets)\.[\w.]+)", text, re.M)
    assert set(deeper) <= {"rpd_datasets.rewards"}  # named by its path in trl grpo


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
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


def test_the_page_about_the_screen_shows_what_is_printed_and_explains_each_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "screen.md").read_text(encoding="utf-8")
    (command,) = commands(page)
    assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    (shown,) = blocks(page, "text")
    assert shown.strip() == printed[printed.index("Answers ") :].strip()
    outcome = json.loads((tmp_path / "pairs" / "manifest.json").read_text())["outcome"]
    groups = {name.replace("_", " ").capitalize() for name in outcome}
    named = {
        re.match(r"Next|(.+?)(?:  |$)", line)[0].strip()
        for line in shown.splitlines()
        if line[:1].strip()
    }
    explained = set(re.findall(r"\*\*(.+?)\*\*", page))
    assert groups - {"Median", "Warnings"} <= explained
    assert (
        named - {"Next", "Written to pairs: see README.md there, or load_dataset('pairs')"}
        <= explained
    )
