"""The benchmarks behind docs/distances.md: on problems made here, with an encoder of words."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from rpd_metric.distance.calibration import calibration
from rpd_metric.distance.distances import load_distance

ROOT = Path(__file__).resolve().parents[2]
METHODS = {"factor": "factor the polynomial", "angle": "chase the angle", "count": "count cases"}


class Words:
    """An encoder whose dimensions are the words of METHODS; it counts what it is asked."""

    name = "words"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        words = sorted({word for text in METHODS.values() for word in text.split()})
        return np.array(
            [[1.0, *(text.split().count(word) for word in words)] for text in texts],
            dtype=np.float32,
        )


def row(number, groups):
    names = list(METHODS)
    draw = random.Random(number)
    solutions = []
    for group in groups:
        words = METHODS[names[group]].split() * 8 + ["therefore"] * draw.randint(0, 60)
        solutions.append(" ".join(draw.sample(words, len(words))))
    steps = [[METHODS[names[group]], "conclude"] for group in groups]
    return {
        "problem": f"Problem {number}?",
        "solutions": solutions,
        "steps": steps,
        "strategy_a": groups,
        "correct": [True] * 3 + [False] * (len(groups) - 3),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    groups = ([0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 2, 2], [1, 1, 1, 0], [2, 2, 2, 2])
    files = ("strategy_bench/dev.jsonl", "strategy_bench/train.jsonl", "long_cot/labelled.jsonl")
    for start, name in enumerate((*files, "multi_solution/candidates.jsonl")):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        rows = [row(10 * start + number, found) for number, found in enumerate(groups)]
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return folder


@pytest.fixture
def bench(monkeypatch):
    """Imports a benchmark, as scripts of one folder import each other."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def sets(bench, folder, tmp_path):
    kept = bench("labelled_sets").KeptVectors(Words(), tmp_path / "vectors.sqlite")
    read = bench("labelled_sets").read_sets(folder, kept)
    return bench("text_distances").Sets(read, 50, 0), kept


def test_a_text_is_encoded_once_ever(bench, tmp_path):
    kept = bench("labelled_sets").KeptVectors
    first, second = Words(), Words()
    path = tmp_path / "deep" / "vectors.sqlite"
    before = kept(first, path).encode(["the angle", "count", "the angle"])
    after = kept(second, path).encode(["count", "the angle", "new"])
    assert sorted(first.asked) == ["count", "the angle"]
    assert second.asked == ["new"]
    np.testing.assert_array_equal(before[[1, 0]], after[:2])


def test_picks_print_their_tables(bench, sets, capsys):
    tried, _ = sets
    picks = bench("picks")
    problems = {"dev": picks.Problems(tried.cases["dev"], 50, 0)}
    picks.print_picks(problems)
    picks.print_ranking(problems)
    printed = capsys.readouterr().out
    # 3 of 5 problems have several strategies; of the 6 pairs of each 3, 5 and 3 differ.
    assert "| dev | `combined`, LLM steps | 0.600" in printed
    assert f"| dev | by chance | {11 / 30:.3f} " in printed
    assert "| dev | at best | 0.600 " in printed
    assert "3 of 5 problems have several strategies; in 3 the choice of 3 matters" in printed


def matrices_of(name, source, tried):
    return {
        of: [load_distance(name)(case.evidence[source]) for case in cases]
        for of, cases in tried.cases.items()
    }


def test_the_gain_over_chunks_is_paired_and_by_set(bench, sets, capsys):
    tried, kept = sets
    module = bench("text_distances")
    chunks = tried.aurocs(module.chunk_scores(tried, kept))
    truth = {name: [y.astype(float) for y in labels] for name, labels in tried.labels.items()}
    aurocs = {name: tried.aurocs(truth) for name in module.AGAINST_CHUNKS}
    module.print_gain_over_chunks(tried, aurocs | {module.CHUNKS: chunks})
    printed = capsys.readouterr().out
    for name in tried.cases:
        assert f"| `pieces` | {name} | {1 - chunks[name]['pooled'][0]:+.3f} [" in printed


def test_the_curves_are_what_curation_reads(bench, sets, tmp_path, capsys):
    tried, _ = sets
    calibrated = bench("calibration_curves")
    matrices = {("LLM", "strategy"): matrices_of("strategy", "LLM", tried)}
    (curve,) = calibrated.curves(tried.cases, matrices)
    assert (curve.distance, curve.embedder, curve.steps) == ("strategy", "minilm", "chat")
    assert curve.chance(0) < 0.5 < curve.chance(1)
    calibrated.write(tmp_path / "curves.json", [curve])
    path = str(tmp_path / "curves.json")
    assert calibration("strategy", "minilm", chat=True, path=path) == curve
    assert "| `strategy` | by a chat model |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("text_distances", 4),
        ("picks", 2),
        ("calibration_curves", 1),
    ],
)
def test_each_script_of_make_distances_runs_from_its_command_line(
    bench, folder, tmp_path, monkeypatch, capsys, name, tables
):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert name in makefile.partition("for script in ")[2].partition(";")[0].split()
    module = bench(name)
    if hasattr(module, "load_embedder"):  # what is timed is the packaged encoder itself
        monkeypatch.setattr(module, "load_embedder", lambda spec, **_: Words())
    rows = (folder / "long_cot/labelled.jsonl").read_text(encoding="utf-8")
    (folder / "long_cot/candidates.jsonl").write_text(rows, encoding="utf-8")
    kept = ["--data", str(folder), "--vectors", str(tmp_path / "vectors.sqlite")]
    few = ["--num-bootstrap", "20"]
    arguments = {
        "text_distances": [*kept, *few],
        "picks": [*kept, *few],
        "calibration_curves": kept,
    }[name]
    monkeypatch.setattr("sys.argv", [name, *arguments])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| ---", "|---")) for line in lines) == tables
