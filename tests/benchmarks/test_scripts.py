"""Scripts of benchmarks, small: distances with an encoder of words, curation, the report's page."""

import importlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from parts.browser import chromium_paths
from parts.rows import write_rows
from parts.scripted import WordCounts
from rpd_datasets.report import read_curated, write_report
from rpd_metric.distance.measured import EvidenceTable

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("factor the polynomial", "chase the angle", "count cases")


def row(number, groups):
    draw = random.Random(number)
    solutions = []
    for group in groups:
        words = METHODS[group].split() * 8 + ["therefore"] * draw.randint(0, 60)
        solutions.append(" ".join(draw.sample(words, len(words))))
    steps = [[METHODS[group], "conclude"] for group in groups]
    labels = {"strategy_a": groups, "correct": [True] * 3 + [False] * (len(groups) - 3)}
    texts = {"problem": f"Problem {number}?", "solutions": solutions, "steps": steps}
    return {"problem_id": str(number), **texts, **labels}


@pytest.fixture
def bench(monkeypatch):
    """Imports a script, as those of one folder import each other."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    groups = ([0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 2, 2], [1, 1, 1, 0], [2, 2, 2, 2])
    sets = ("strategy_bench/controlled", "strategy_bench/dev", "strategy_bench/train")
    replies = []
    for start, name in enumerate((*sets, "long_cot/labelled")):
        rows = [row(10 * start + number, found) for number, found in enumerate(groups)]
        write_rows(folder / f"{name}.jsonl", rows)
        if name in sets:
            said = {"order": [3, 2, 1, 0], "names": dict(zip("012", METHODS, strict=True))}
            replies += [
                {"problem_id": one["problem_id"], "groups": one["strategy_a"][::-1], **said}
                for one in rows
            ]
    write_rows(folder / "strategy_bench" / "group_replies.jsonl", replies)
    written = [row(100 + number, found) for number, found in enumerate(3 * groups)]
    write_rows(folder / "strategy_bench" / "controlled_train.jsonl", written)
    programs = [entry | {"languages": ["python", "python", "java", "java"]} for entry in written]
    write_rows(folder / "code_approaches" / "dev.jsonl", programs)
    return folder


def test_the_script_of_make_distances_runs_from_its_command_line(
    bench, folder, tmp_path, monkeypatch, capsys
):
    module = bench("strategies")
    encoder = WordCounts(" ".join(METHODS).split())
    monkeypatch.setattr(module, "load_embedder", lambda spec, **_: encoder)
    curves = str(tmp_path / "curves.json")
    line = ["strategies", "--data", str(folder), "--num-bootstrap", "20", "--write-curves", curves]
    monkeypatch.setattr("sys.argv", line)
    module.main()
    printed = re.sub(" +", " ", capsys.readouterr().out)  # without a table's padding
    assert printed.count("\n|---") == 12
    # 3 of 5 problems have several strategies, and the recorded reader sees them all.
    assert "dev: 3 of 5 problems have several strategies; in 3 the choice of 3 matters" in printed
    perfect = "1.000 [1.000, 1.000]"
    assert f"| groups | {' | '.join([perfect] * 8)} | - | - |" in printed
    assert f"| groups | {' | '.join([perfect] * 4)} | - |" in printed
    curve = EvidenceTable.of(json.loads(Path(curves).read_text())).curve("strategy")
    assert curve.chance(0) < 0.5 < curve.chance(1)


@pytest.mark.slow
def test_all_problems_go_through(tmp_path):
    command = [sys.executable, "benchmarks/corpus.py", "--sizes", "20", "--characters", "600"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    usable = re.search(r"^\| 20 +\| (\d+) of 320 +\| ", done.stdout, re.MULTILINE)
    assert usable is not None, done.stdout
    assert 20 * 14 < int(usable[1]) <= 320


def test_a_small_page_is_timed_from_the_navigation_to_the_last_search(bench, tmp_path):
    chromium_paths()
    script = bench("report")
    folder = read_curated(script.make_folder(tmp_path / "curated", 12, 4), 12)
    page = write_report(folder, tmp_path / "report.html").page
    seen = script.watch(page, tmp_path / "profile")
    assert 0 < seen["list"] <= seen["texts"]
    assert 0 < seen["search"] <= seen["slowest search"]
    assert seen["open"] > 0
