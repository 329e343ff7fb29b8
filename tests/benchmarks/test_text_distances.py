"""The benchmarks behind docs/distances.md: on problems made here, with an encoder of words."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from rpd_metric.distance.calibration import calibration

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("factor the polynomial", "chase the angle", "count cases")


class Words:
    """An encoder whose dimensions are the words of METHODS; it counts what it is asked."""

    name = "words"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        words = " ".join(METHODS).split()
        counts = [[1.0, *(text.split().count(word) for word in words)] for text in texts]
        return np.array(counts, dtype=np.float32)


def row(number, groups):
    draw = random.Random(number)
    solutions = []
    for group in groups:
        words = METHODS[group].split() * 8 + ["therefore"] * draw.randint(0, 60)
        solutions.append(" ".join(draw.sample(words, len(words))))
    steps = [[METHODS[group], "conclude"] for group in groups]
    labels = {"strategy_a": groups, "correct": [True] * 3 + [False] * (len(groups) - 3)}
    return {"problem": f"Problem {number}?", "solutions": solutions, "steps": steps, **labels}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    groups = ([0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 2, 2], [1, 1, 1, 0], [2, 2, 2, 2])
    files = ("strategy_bench/dev.jsonl", "strategy_bench/train.jsonl", "long_cot/labelled.jsonl")
    for start, name in enumerate(files):
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


def test_a_text_is_encoded_once_ever(bench, tmp_path):
    kept = bench("labelled_sets").KeptVectors
    first, second = Words(), Words()
    path = tmp_path / "deep" / "vectors.sqlite"
    before = kept(first, path).encode(["the angle", "count", "the angle"])
    after = kept(second, path).encode(["count", "the angle", "new"])
    assert sorted(first.asked) == ["count", "the angle"]
    assert second.asked == ["new"]
    np.testing.assert_array_equal(before[[1, 0]], after[:2])


@pytest.mark.parametrize(
    ("name", "tables"), [("text_distances", 3), ("picks", 2), ("calibration_curves", 1)]
)
def test_each_script_of_make_distances_runs_from_its_command_line(
    bench, folder, tmp_path, monkeypatch, capsys, name, tables
):
    module = bench(name)
    monkeypatch.setattr(module, "load_embedder", lambda spec, **_: Words())
    vectors = str(tmp_path / "vectors.sqlite")
    line = [name, "--data", str(folder), "--vectors", vectors, "--num-bootstrap", "20"]
    curves = str(tmp_path / "curves.json")
    if name == "calibration_curves":
        line += ["--write-curves", curves]
    monkeypatch.setattr("sys.argv", line)
    module.main()
    printed = capsys.readouterr().out
    assert printed.count("\n| ---") == tables
    if name == "picks":
        # 3 of 5 problems have several strategies; of the 6 pairs of each 3, 5 and 3 differ.
        assert "| dev | `combined`, LLM steps | 0.600" in printed
        assert f"| dev | by chance | {11 / 30:.3f} " in printed
        assert "3 of 5 problems have several strategies; in 3 the choice of 3 matters" in printed
    if name == "calibration_curves":
        curve = calibration("strategy", "minilm", chat=True, path=curves)
        assert curve.chance(0) < 0.5 < curve.chance(1)
