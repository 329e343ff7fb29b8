"""CONTRIBUTING.md works: each of its blocks is a file, and its entry makes the project use it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rpd_datasets.cli import main
from rpd_datasets.evaluation import benchmarks
from rpd_datasets.filters import pipeline
from rpd_datasets.inputs import known_layouts as layouts
from rpd_datasets.inputs.source import open_source
from rpd_datasets.inputs.spec import InputSpec
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.tokens import token_counter
from rpd_metric.distance import distances
from rpd_metric.distance.evidence import Evidence
from rpd_metric.models import kinds as models
from rpd_metric.models.spec import Kind
from rpd_metric.steps import summarizers

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {
    title.split()[-1]: text
    for title, text in re.findall(
        r"^## (An? [^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
}


def code(section: str) -> tuple[str, str]:
    """The file that a section shows: its module's name, and its text."""
    (block,) = re.findall(r"^```python\n# (\S+)\.py.*?\n(.*?)^```", SECTIONS[section], re.M | re.S)
    return block[0].replace("/", "."), block[1]


@pytest.fixture
def module(monkeypatch):
    """Makes the file that a section shows importable under the name that it gives."""

    def make(section: str) -> dict[str, Any]:
        name, text = code(section)
        made = ModuleType(name)
        exec(compile(text, name, "exec"), vars(made))
        monkeypatch.setitem(sys.modules, name, made)
        return vars(made)

    return make


def entry(section: str, names: dict[str, Any]) -> Any:
    """What the section enters into a registry."""
    (text,) = re.findall(r"^Entry: `(.+?)` in `", SECTIONS[section], re.MULTILINE)
    return eval(f"{{{text}}}" if text.startswith('"') else text, names)


def test_everything_that_can_be_added_is_shown_in_about_ten_lines():
    assert set(SECTIONS) == {"embedder", "summarizer", "distance", "filter", "layout", "benchmark"}
    for section in SECTIONS:
        lines = [line for line in code(section)[1].splitlines() if line.strip()]
        assert 0 < len(lines) <= 10, section


def test_an_embedder_and_a_summarizer_are_used_by_the_command_line(module, monkeypatch, capsys):
    module("embedder")
    module("summarizer")
    for name, kind in entry("embedder", {"Kind": Kind}).items():
        monkeypatch.setitem(models.EMBEDDERS, name, kind)
    for name, kind in entry("summarizer", {"Kind": Kind}).items():
        monkeypatch.setitem(summarizers.WITHOUT_CHAT, name, kind)
        monkeypatch.setitem(summarizers.SUMMARIZERS, name, kind)
    names = ["--summarizer", "sentences", "--embedder", "letters"]
    assert main(["score", "sample", "--limit", "2", "--json", *names]) == 0
    assert json.loads(capsys.readouterr().out)["summarizer"] == "sentences"
    (summary,) = asyncio.run(
        summarizers.load_summarizer("sentences").summarize(None, ["One. Two. Three. Four."])
    )
    assert len(summary.steps) == 3


def test_a_distance(module, monkeypatch):
    names = {**module("distance"), "Distance": distances.Distance}
    made = entry("distance", names)
    monkeypatch.setattr(distances, "DISTANCES", {**distances.DISTANCES, made.name: made})
    evidence = Evidence("p", 3, {"text": [["aa"], ["aaaa"], ["aa"]]}, {})
    matrix = distances.load_distance("length")(evidence)
    np.testing.assert_allclose(matrix, [[0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0]])


def test_a_filter(module, monkeypatch):
    names = {**module("filter"), "Filter": pipeline.Filter}
    monkeypatch.setattr(pipeline, "FILTERS", (*pipeline.FILTERS, entry("filter", names)))
    # As if FilterConfig had the field, which the page shows with its type and default.
    (field, default) = re.findall(r"`(\w+): int \| None = (None)`", SECTIONS["filter"])[0]
    config_class = make_dataclass(
        "Config",
        [(field, int | None, eval(default))],
        bases=(pipeline.FilterConfig,),
        frozen=True,
    )
    problem = Problem("2 + 2?", ("It is $4$, as one sees by counting.", "So it is $4$."))
    for limit, kept in ((None, (0, 1)), (20, (1,))):
        config = config_class(min_solutions=1, max_characters=limit)
        filtered = pipeline.filter_problem(problem, config, token_counter("estimate"))
        assert filtered.kept == kept


def test_a_layout(module, monkeypatch, tmp_path):
    names = {**module("layout"), "RowLayout": layouts.RowLayout}
    for name, layout in entry("layout", names).items():
        monkeypatch.setitem(layouts.LAYOUTS, name, layout)
    row = {"problem": "2 + 2?", "solutions": [{"text": "It is 4."}, {"text": None}]}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    rejects: list[Rejected] = []
    spec = InputSpec(layout="objects")
    (problem,) = open_source(file, spec, scratch=tmp_path, on_reject=rejects.append)
    assert problem.solutions == ("It is 4.",)
    assert [one.reason for one in rejects] == ["null_solution"]


def test_a_benchmark(module, monkeypatch, tmp_path):
    made = module("benchmark")["ENTRY"]
    monkeypatch.setitem(benchmarks.BENCHMARKS, made.name, made)
    (count,) = made.sizes
    file = tmp_path / "rows.jsonl"
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = benchmarks.load_benchmark(made.name, file)
    assert [task.gold for task in tasks] == [row["answer"] for row in rows]
