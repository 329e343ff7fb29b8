"""The whole loop: its task, its figures and its page, and a small real run from end to end."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from filelock import FileLock

from benchmarks.loop.arms import ArmResult, finished
from benchmarks.loop.catalogue import BUDGET, GROUPS, QUICK, QUICK_ARMS
from benchmarks.loop.measure import difference, figure, over_seeds
from benchmarks.loop.page import verdict
from benchmarks.loop.pipeline import curate
from benchmarks.loop.run import main
from benchmarks.loop.task import all_problems, attempts, candidates, check, pool_rows, strategy_of


def test_every_candidate_is_right_and_of_the_strategy_it_states():
    rng = random.Random(0)
    for problem in rng.sample(all_problems()["pool"], 50):
        texts = candidates(problem, 16, rng)
        assert len(texts) == 16
        assert all(check(problem.gold, text) for text in texts)
        known = {attempt.strategy for attempt in attempts(problem.numbers)[problem.target]}
        assert {strategy_of(text) for text in texts} <= known
    for wrong in ("24", " ( 3 + 3 ) * 4 ", " 3 ** 5 ", " __import__('os') "):
        assert not check("24 from 3 5 7 9 11", f"\\boxed{{{wrong}}}")


def test_base_pool_and_tests_share_no_problem():
    parts = [{problem.text for problem in part} for part in all_problems().values()]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]


def test_a_pool_is_of_its_seed_and_of_few_strategies_unevenly_often():
    rows = pool_rows(200, 16, seed=1)
    assert rows == pool_rows(200, 16, seed=1) != pool_rows(200, 16, seed=2)
    counts = {len(set(row["strategies"])) for row in rows}
    assert {1, 2, 3} <= counts <= {1, 2, 3, 4}


def result(seed: int, right: int) -> ArmResult:
    """Ten problems of which the first sample alone solves so many."""
    correct = ["1" + "0" * 15] * right + ["0" * 16] * (10 - right)
    return ArmResult("arm", seed, {}, correct, None, None, None, 0.0, {}, [], 0.0)


def test_figures_are_means_over_seeds_of_the_unbiased_estimator():
    arm = {seed: result(seed, right) for seed, right in enumerate((2, 4, 6))}
    assert figure(arm, 16).value == pytest.approx(0.4)
    assert figure(arm, 1).value == pytest.approx(0.4 / 16)
    # Student's t with two degrees of freedom: 4.303 standard errors of 0.2 / sqrt(3).
    assert figure(arm, 16).high == pytest.approx(0.4 + 4.3027 * 0.2 / 3**0.5, abs=1e-4)


def test_differences_are_paired_by_seed():
    ours = {seed: result(seed, right) for seed, right in enumerate((3, 5, 7))}
    theirs = {seed: result(seed, right) for seed, right in enumerate((2, 4, 6))}
    gap = difference(ours, theirs, 16)
    assert (gap.low, gap.high) == pytest.approx((0.1, 0.1))
    assert verdict(gap) == "**higher** (+10.0 [+10.0, +10.0])"
    assert "not told apart" in verdict(over_seeds([0.1, -0.1, 0.05]))
    assert verdict(over_seeds([0.1])) == "+10.0, one seed only"


def test_an_unknown_arm_and_a_second_run_are_one_line_and_status_1(tmp_path, capsys):
    assert main(["--only", "rpd", "--output", str(tmp_path)]) == 1
    assert "there is no arm or group 'rpd'" in capsys.readouterr().err
    with FileLock(tmp_path / "lock"):
        assert main(["--quick", "--output", str(tmp_path)]) == 1
    assert "another run is at work" in capsys.readouterr().err


@pytest.mark.slow
def test_the_loop_closes_and_goes_on_where_it_was(tmp_path, capsys):
    page = tmp_path / "docs/loop.md"
    line = ["--quick", "--workers", "1", "--output", str(tmp_path / "run"), "--page", str(page)]
    assert main(line) == 0, capsys.readouterr().err
    arms = {arm.name: arm for group in GROUPS.values() for arm in group}
    found = {}
    for name in QUICK_ARMS:
        found[name] = finished(tmp_path / "run/seed-0" / name, arms[name], QUICK)
        # A missing sample is not a wrong one: all are there and judged.
        assert [len(text) for text in found[name].correct] == [16] * QUICK.tests
    for name in ("random_1p1s", "rpd_1p3s"):
        training = found[name].training
        assert training["samples"] == QUICK.samples
        assert training["last_loss"] < training["first_loss"]
    assert found["rpd_1p3s"].training["problems"] == QUICK.samples // 3
    assert found["rpd_1p3s"].training["strategies_per_problem"] > 1
    rewards = found["grpo_rpd_1p3s_diverse"].rewards
    assert len(rewards) == 2
    assert all(0 <= row["rewards/diversity/mean"] <= 1 for row in rewards)
    text = page.read_text(encoding="utf-8")
    assert "| RPD 1P3S | 1 | 6 |" in text
    assert str(tmp_path) not in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()

    (tmp_path / "run/seed-0/random_1p1s/result.json").unlink()
    assert main(line) == 0
    assert "1 of 4 arms to run" in capsys.readouterr().err


def test_the_budget_arm_takes_every_problem_once_and_then_what_adds_most(tmp_path):
    (arm,) = BUDGET
    made = curate(replace(arm, pool=6), 0, QUICK, tmp_path / "data", tmp_path / "vectors.sqlite")
    assert (made["problems"], made["samples"]) == (6, 18)
    assert made["strategies_per_problem"] > 1
