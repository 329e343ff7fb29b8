"""docs/extending.md works: its package is installed, and a whole curation uses all of its parts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parts.rows import write_rows

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")

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
    env = os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "rpd_datasets.cli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=package.parent)


def curate(
    package: Path, folder: Path, choices: str = "--problems length --solutions length"
) -> subprocess.CompletedProcess[str]:
    """Curate three problems with all parts of the page's package."""
    rows = [
        {"problem": f"Problem {n}?", "solutions": [{"text": text} for text in SOLUTIONS]}
        for n in range(3)
    ]
    rows[1]["solutions"] = [{"text": f"An odd one. {text}"} for text in SOLUTIONS]
    write_rows(folder / "rows.jsonl", rows)
    command = (
        "curate rows.jsonl --num-problems 2 --num-solutions 2 --output curated --layout objects "
        f"--embedder letters --summarizer sentences --filter max_characters=400 {choices}"
    )
    return rpd(package, *command.split())


def test_a_whole_curation_with_the_parts_of_another_package(package, tmp_path):
    run = curate(package, tmp_path)
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


# Faults that show on one of three problems: the file of the page's package, the line after which
# the fault is put in, the fault, and what the rejects say of it.
IN_DISTANCE = ("distance.py", '"""How much two solutions differ in length, from 0 to 1."""')
ON_ONE = 'if "1?" in evidence.problem: '
FAULTS = {
    "negative": (*IN_DISTANCE, f"{ON_ONE}return -np.ones((3, 3))", "the negative value -1"),
    "shape": (*IN_DISTANCE, f"{ON_ONE}return [1.0, 2.0]", "the shape (2,), not (3, 3)"),
    "one-sided": (*IN_DISTANCE, f"{ON_ONE}return np.triu(np.ones((3, 3)), 1)", "is not symmetric"),
    "nan": (*IN_DISTANCE, f"{ON_ONE}return np.full((3, 3), np.nan)", "values that are not finite"),
    "error": (*IN_DISTANCE, f'{ON_ONE}raise KeyError("size")', "'length' failed: KeyError: 'size'"),
    "embedder": (
        "embedder.py",
        "def encode(self, texts):",
        'if any("odd" in text for text in texts): return np.zeros((1, 5))',
        "the embedder 'letters' returned the shape (1, 5) for",
    ),
    "embedder's error": (
        "embedder.py",
        "def encode(self, texts):",
        'if any("odd" in text for text in texts): raise KeyError("size")',
        "the embedder 'letters' failed: KeyError: 'size'",
    ),
    "ragged": (*IN_DISTANCE, f"{ON_ONE}return [[0, 1], [1]]", "that is not an array of numbers"),
    "steps": (
        "summarizer.py",
        "async def summarize(self, problem, solutions):",
        'if "1?" in problem: return [Summary("one step") for _ in solutions]',
        "it must return Summary((step, ...))",
    ),
    "reason": (
        "filter.py",
        '"""Drop solutions of more than so many characters."""',
        'if "1?" in candidates.problem.problem: return {0: ("long", 5)}',
        "the filter 'max_characters=400' returned 0: ('long', 5)",
    ),
    "texts": (
        "layout.py",
        '"""A row whose solutions are objects such as {"text": "...", "model": "..."}."""',
        'if "1?" in row.values["problem"]: return [__import__("rpd_datasets").Problem("P", (1,))]',
        "returned a Problem with other than texts",
    ),
    "summarizer": (
        "summarizer.py",
        "async def summarize(self, problem, solutions):",
        'if "1?" in problem: return []',
        "the summarizer 'sentences' returned 0 summaries for 3 texts",
    ),
    "filter": (
        "filter.py",
        '"""Drop solutions of more than so many characters."""',
        'if "1?" in candidates.problem.problem: return {9: "long"}',
        "the filter 'max_characters=400' returned 9: 'long'",
    ),
    "layout": (
        "layout.py",
        '"""A row whose solutions are objects such as {"text": "...", "model": "..."}."""',
        'if "1?" in row.values["problem"]: row.values["answers"]',
        "failed: KeyError: 'answers'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_part_costs_one_problem_and_names_the_part(package, tmp_path, fault):
    file, line, inserted, detail = FAULTS[fault]
    source = (package / "rpd_letters" / file).read_text()
    (at,) = [text for text in source.splitlines() if text.strip() == line]
    indent = " " * (len(at) - len(at.lstrip()) + 4 * line.startswith(("def", "async")))
    (package / "rpd_letters" / file).write_text(source.replace(at, f"{at}\n{indent}{inserted}"))
    distance = "rpd" if file == "summarizer.py" else "length"
    run = curate(package, tmp_path, f"--problems {distance} --solutions {distance}")
    assert run.returncode == 0, run.stderr
    manifest = json.loads((tmp_path / "curated" / "manifest.json").read_text())
    assert manifest["counts"]["problems_chosen"] == 2
    rejects = [json.loads(text) for text in (tmp_path / "curated" / "rejects.jsonl").open()]
    (reject,) = [reject for reject in rejects if reject["reason"] == "plugin_failed"]
    assert detail in reject["detail"]
    assert reject["where"] == "rows.jsonl:2"
