"""docs/extending.md works: its package is installed, and a whole curation uses all of its parts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parts.rows import write_rows

PAGE = (Path(__file__).resolve().parents[1] / "docs/extending.md").read_text(encoding="utf-8")

SOLUTIONS = (
    "Two and three make five. So the answer is $5$.",
    "Count on from two. After two come three, four and five. The answer is $5$.",
    "Put two coins beside three coins. Count them all. There are five, so the answer is $5$.",
    "Two is one and one. " * 20 + "The answer is $5$.",
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package as pip lays it out, in a folder of its own."""
    folder = tmp_path / "site"
    for name, text in re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.M | re.S):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (toml,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
    info = folder / "rpd_letters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rpd-letters\nVersion: 1.0\n")
    entries = re.sub(r'\[project\.entry-points\."(.+?)"\]', r"[\1]", toml.split("\n\n", 1)[1])
    (info / "entry_points.txt").write_text(entries.replace('"', ""))
    return folder


def rpd(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "rpd_datasets.cli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=package.parent)


def test_a_whole_curation_with_the_parts_of_another_package(package, tmp_path):
    rows = [
        {"problem": f"Problem {n}?", "solutions": [{"text": text} for text in SOLUTIONS]}
        for n in range(2)
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    command = (
        "curate rows.jsonl --num-problems 2 --num-solutions 2 --output curated --layout objects "
        "--embedder letters --summarizer sentences --problems length --solutions length "
        "--filter max_characters=400"
    )
    run = rpd(package, *command.split())
    assert run.returncode == 0, run.stderr
    card = (tmp_path / "curated" / "README.md").read_text(encoding="utf-8")
    assert "the difference in length of two solutions" in card
    (rejected, *_) = map(json.loads, (tmp_path / "curated" / "rejects.jsonl").open())
    assert (rejected["reason"], rejected["solution_index"]) == ("too_long", len(SOLUTIONS) - 1)
    manifest = json.loads((tmp_path / "curated" / "manifest.json").read_text())
    assert "sentences" in json.dumps(manifest)


def test_a_package_that_cannot_be_imported_is_named_in_one_line(package, tmp_path):
    (package / "rpd_letters" / "distance.py").write_text("import no_such_module\n")
    run = rpd(package, "curate", "sample", "--problems", "length", "--output", "curated")
    assert run.returncode != 0
    assert "rpd-letters" in run.stderr
    assert "no_such_module" in run.stderr
    assert "Traceback" not in run.stderr
