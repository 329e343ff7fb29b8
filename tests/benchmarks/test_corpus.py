"""The benchmarks of curation and of embedding: a tiny run of each, and what they stand on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """The benchmarks import each other by name, as scripts of one folder do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["openthoughts", "grouped"])
def figures(request, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("corpus")
    arguments = ["--sizes", "20", "--num-problems", "5", "--characters", "600", "--json"]
    printed = run("corpus.py", *arguments, "--scratch", str(scratch), "--layout", request.param)
    assert list(scratch.iterdir()) == []
    return json.loads(printed)


def test_seven_scripts_choose_the_same_problems_and_solutions(figures):
    assert figures["sizes"]["20"]["naive"]["differences"] == []


def test_all_problems_go_through_and_all_processor_time_is_accounted_for(figures):
    ours = figures["sizes"]["20"]["curate"]

    assert ours["problems"] == 20
    assert 20 * 14 < ours["usable"] <= 20 * 16
    assert sum(ours["stages"].values()) == pytest.approx(ours["cpu"])
    assert min(ours["stages"].values()) > 0
    assert figures["sizes"]["20"]["score"]["problems"] == 20


def test_a_difference_from_the_seven_scripts_is_told(benchmarks, tmp_path):
    import naive
    import synthetic

    corpus = synthetic.Corpus(6, characters=300)
    corpus.write(tmp_path / "corpus.parquet", "grouped")
    best = naive.curate_naively(
        tmp_path / "corpus.parquet", tmp_path, synthetic.InstantChat(corpus), 3, 3
    )
    rows = [{"problem": row["problem"], "selected": row["selected"]} for row in best]
    nearest = min(range(16), key=lambda i: best[0]["matrix"][rows[0]["selected"][0]][i])
    rows[0] = rows[0] | {"selected": [rows[0]["selected"][0], nearest]}
    data = tmp_path / "curated" / "data"
    data.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), data / "train.parquet")

    (difference,) = naive.differences(best, tmp_path / "curated")

    assert str(rows[0]["selected"]) in difference


def test_the_corpus_is_a_function_of_its_numbers(benchmarks, tmp_path):
    import synthetic

    small, large = synthetic.Corpus(3, characters=400), synthetic.Corpus(9, characters=400)
    small.write(tmp_path / "flat.parquet")
    rows = pq.read_table(tmp_path / "flat.parquet").to_pylist()
    texts = {row["conversations"][1]["value"] for row in rows}

    assert texts == {large.solution(number, index) for number in range(3) for index in range(16)}
    assert len(texts) == 3 * 16


def test_the_chat_knows_the_steps_of_the_solution_it_is_shown(benchmarks):
    import synthetic

    from rpd_metric.steps.replies import parse_steps

    corpus = synthetic.Corpus(3, characters=400)
    reply = synthetic.InstantChat(corpus).reply(f"Summarise this: {corpus.solution(2, 7)}")

    assert list(parse_steps(reply)) == corpus.steps(2, 7)


def test_a_clock_gives_the_inner_stage_its_own_time_only_where_it_is_apart(benchmarks):
    from stage_clock import StageClock

    class Work:
        @staticmethod
        def outer() -> int:
            return Work.inner() + Work.apart()

        @staticmethod
        def inner() -> int:
            return sum(range(300_000))

        @staticmethod
        def apart() -> int:
            return sum(range(300_000))

    clock = StageClock()
    clock.wrap(Work, "inner", "inner")
    clock.wrap(Work, "apart", "apart", apart=True)
    clock.wrap(Work, "outer", "outer")

    assert Work.outer() == 2 * sum(range(300_000))
    assert set(clock.seconds) == {"outer", "apart"}
    assert clock.seconds["outer"] > 0
    assert clock.seconds["apart"] > 0


def test_embedding_compares_three_ways_on_the_same_texts(tmp_path):
    rows = [
        {
            "problem": "Find $x$.",
            "solutions": ["We factor the quadratic. So $x = 2$.", "We complete the square."],
            "steps": [["Factor it.", "Read off the root."], ["Complete it.", "Read off the root."]],
        }
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    found = json.loads(run("embedding.py", str(path), "--quick", "--json"))

    by_model, extractive = found["rows"]
    assert (by_model["texts"], by_model["duplicates"]) == (4, 0.25)
    assert extractive["steps"] == "extractive"
    assert all(speed > 0 for speed in by_model["texts_per_second"].values())


def test_a_file_that_is_not_there_ends_in_one_line():
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "embedding.py"), "nowhere.jsonl"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 2
    assert done.stderr.splitlines() == ["nowhere.jsonl is not a file; pass JSONL, or nothing"]
