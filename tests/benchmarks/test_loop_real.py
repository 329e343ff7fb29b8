"""The chain with a real model: its split, its stages, and what its page may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.loop_real.page import remark
from benchmarks.loop_real.run import Journal, Scale, claim
from benchmarks.loop_real.task import problems, split
from rpd_datasets.evaluation.results import Results
from rpd_metric.errors import InputError, RPDError

DATA = Path("../shared/data/benchmarks/gsm8k_example_model_solutions.jsonl")


@pytest.mark.skipif(not DATA.is_file(), reason="GSM8K's solutions are not at hand")
def test_training_and_test_problems_are_apart_and_solutions_are_right():
    rows = problems(DATA)
    size = {"pool": 300, "tests": 200, "calculations": 3, "test_calculations": 2}
    pool, tests = split(rows, **size, seed=0)
    assert (len(pool), len(tests)) == (300, 200)
    assert not {row["problem"] for row in pool} & {row["problem"] for row in tests}
    assert all(len(set(row["solutions"])) == len(row["solutions"]) >= 3 for row in pool)
    assert split(rows, **size, seed=0) == (pool, tests) != split(rows, **size, seed=1)


def test_a_finished_stage_is_not_run_again_and_none_begins_too_late(tmp_path: Path):
    path = tmp_path / "seconds.json"
    done: list[str] = []
    Journal(path).run("one", lambda: done.append("one"))
    Journal(path).run("one", lambda: done.append("again"))
    with pytest.raises(RPDError, match="stopped before two"):
        Journal(path, minutes=0).run("two", lambda: done.append("two"))
    assert done == ["one"]
    claim(tmp_path / "scale.json", Scale())
    with pytest.raises(InputError, match="another size"):
        claim(tmp_path / "scale.json", Scale(tests=17))


def results(name: str, right: int) -> Results:
    """16 problems, of which the first so many are always solved."""
    return Results(
        name=name,
        benchmark="own",
        settings={},
        problems=[str(n) for n in range(16)],
        of_problems=16,
        correct=["11111111"] * right + ["00000000"] * (16 - right),
        missing=0,
        runs=1,
        verdicts={},
        finish_reasons={},
        figures={},
    )


@pytest.mark.parametrize(
    ("base", "others", "said"),
    [(5, 5, "does not tell the models apart"), (0, 12, "one and base at pass@1")],
)
def test_the_page_tells_models_apart_only_where_intervals_do(base, others, said):
    arms = [results("one", others), results("two", others)]
    assert said in remark(results("base", base), arms)
