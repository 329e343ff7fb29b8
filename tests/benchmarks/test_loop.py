"""The whole loop: its task, its figures and its page, and a small real run from end to end."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from benchmarks.loop.arms import BASE_ARM, Arm, ArmResult, finished, settings_of
from benchmarks.loop.catalogue import (
    BUDGET,
    COMPARISONS,
    CORE,
    FULL,
    GROUPS,
    MAP,
    QUICK,
    QUICK_ARMS,
)
from benchmarks.loop.measure import difference, figure, over_seeds
from benchmarks.loop.page import verdict
from benchmarks.loop.pipeline import curate
from benchmarks.loop.run import main
from benchmarks.loop.steps import StatedSteps
from benchmarks.loop.task import (
    TOKEN,
    all_problems,
    attempts,
    base_rows,
    candidates,
    check,
    pool_rows,
    strategy_of,
)
from rpd_metric.models.concurrency import run


def test_every_candidate_is_right_and_of_the_strategy_it_states():
    rng = random.Random(0)
    for problem in rng.sample(all_problems()["pool"], 50):
        texts = candidates(problem, 16, rng)
        assert len(texts) == 16
        assert all(check(problem.gold, text) for text in texts)
        known = {attempt.strategy for attempt in attempts(problem.numbers)[problem.target]}
        assert {strategy_of(text) for text in texts} <= known


@pytest.mark.parametrize(
    ("response", "right"),
    [
        (r"\boxed{ ( 3 * 5 ) + 9 }", True),
        (r"\boxed{9+5*3}", True),
        (r"\boxed{24}", False),
        (r"\boxed{ ( 3 + 3 ) * 4 }", False),
        (r"\boxed{ 3 * 5 + 9", False),
        (r"\boxed{ 3 ** 5 }", False),
        (r"\boxed{ 3 / ( 5 - 5 ) }", False),
        (r"\boxed{ __import__('os') }", False),
        ("", False),
    ],
)
def test_only_an_expression_of_the_given_numbers_counts(response: str, right: bool):
    assert check("24 from 3 5 7 9 11", response) is right


def test_base_pool_and_tests_share_no_problem():
    parts = [{problem.text for problem in part} for part in all_problems().values()]
    assert not parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2]
    assert all(len(part) > 600 for part in parts)


def test_a_seed_gives_the_same_pool_again_and_another_one_another():
    assert pool_rows(5, 16, seed=1) == pool_rows(5, 16, seed=1) != pool_rows(5, 16, seed=2)


def test_candidates_are_of_few_strategies_unevenly_often():
    rows = pool_rows(200, 16, seed=0)
    counts = [len(set(row["strategies"])) for row in rows]
    assert set(counts) >= {1, 2, 3}
    assert max(counts) <= 4


def test_a_share_of_what_the_base_learns_from_misses_the_target():
    rows = base_rows(400, 0.5, seed=0)
    right = np.mean([check(problem.removeprefix("Make "), text) for problem, text in rows])
    assert 0.4 < right < 0.6
    assert all("".join(TOKEN.findall(text)) == text for _, text in rows)


def test_the_lines_before_the_answer_are_the_steps():
    texts = [
        "Add 3 and 4 to get 7.\nAdd 7 and 9 to get 16.\n\\boxed{ ( 3 + 4 ) + 9 }",
        "\\boxed{7}",
    ]
    found = run(StatedSteps().summarize(None, texts))
    assert found[0].steps == ("Add 3 and 4 to get 7.", "Add 7 and 9 to get 16.")
    assert not found[1].ok


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


def test_arms_of_equal_size_have_equal_samples():
    for arm in (*CORE, *GROUPS["numbers"], *GROUPS["choices"]):
        samples = FULL.num_problems(arm) * arm.per_problem * arm.repeat
        assert abs(samples - FULL.samples) <= arm.per_problem // 2, arm.name
    names = [arm.name for group in (*GROUPS.values(), MAP) for arm in group]
    assert len(set(names)) == len(names)


def test_what_concerns_only_reinforcement_learning_leaves_other_results_valid():
    arm, reinforced = CORE[1], GROUPS["grpo"][0]
    assert "practice" not in settings_of(arm, FULL)["plan"]
    assert settings_of(reinforced, FULL)["plan"]["practice"] == FULL.practice
    assert settings_of(arm, FULL) != settings_of(Arm("other", "other"), FULL)


def test_an_unknown_arm_is_one_line_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["--only", "rpd", "--output", str(tmp_path)]) == 1
    assert "there is no arm or group 'rpd'" in capsys.readouterr().err


def test_two_runs_do_not_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with FileLock(tmp_path / "lock"):
        assert main(["--quick", "--output", str(tmp_path)]) == 1
    assert "another run is at work" in capsys.readouterr().err


@pytest.mark.slow
def test_the_loop_closes_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "docs/loop.md"
    line = ["--quick", "--workers", "1", "--output", str(tmp_path / "run"), "--page", str(page)]
    assert main(line) == 0, capsys.readouterr().err
    arms = {arm.name: arm for group in GROUPS.values() for arm in group}
    found = {}
    for name in QUICK_ARMS:
        folder = tmp_path / "run/seed-0" / name
        done = finished(folder, arms[name], QUICK)
        assert done is not None
        found[name] = done
        # A missing sample is not a wrong one: all are there and judged.
        assert [len(text) for text in done.correct] == [16] * QUICK.tests
        verdicts = (folder / "evaluation/verdicts.jsonl").read_text().splitlines()
        assert len(verdicts) == 16 * QUICK.tests
    base = json.loads((tmp_path / "run/base/base.json").read_text())
    assert base["loss"] < 3
    for name in ("random_1p1s", "rpd_1p3s"):
        training = found[name].training
        assert training["samples"] == QUICK.samples
        assert training["last_loss"] < training["first_loss"]
    assert found["rpd_1p3s"].training["problems"] == QUICK.samples // 3
    assert (
        found["rpd_1p3s"].training["strategies_per_problem"]
        > found["random_1p1s"].training["strategies_per_problem"]
        == 1
    )
    rewards = found["grpo_rpd_1p3s_diverse"].rewards
    assert len(rewards) == 2
    assert all(0 <= row["rewards/accuracy/mean"] <= 1 for row in rewards)
    assert all(0 <= row["rewards/diversity/mean"] <= 1 for row in rewards)
    # The card of a model that learnt from other problems does not speak of the AIME.
    card = tmp_path / "run/seed-0/grpo_rpd_1p3s_diverse/model/README.md"
    assert "GRPO" in card.read_text(encoding="utf-8")
    assert "AIME" not in card.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert "| RPD 1P3S | 1 | 6 |" in text
    assert "50% of the way from the base to RPD 1P3S, against the base: " in text
    assert "pass@16" in text
    assert str(tmp_path) not in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()

    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")}
    (tmp_path / "run/seed-0/random_1p1s/result.json").unlink()
    page.unlink()
    assert main(line) == 0
    assert "1 of 5 arms to run" in capsys.readouterr().err
    assert page.is_file()
    again = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("result.json")}
    kept = [file for file in written if file.parent.name != "random_1p1s"]
    assert again.keys() == written.keys()
    assert all(again[file] == written[file] for file in kept)


ROOT = Path(__file__).resolve().parents[2]
# Rows of the README's table, by the comparison that docs/loop.md makes under another name.
SUMMARY = {
    "problems and solutions chosen by RPD against both at random, 100 x 3": "Choosing by RPD",
    "RPD against random choice of three solutions, same problems": "Choosing only the solutions",
    "three different solutions (RPD) against one three times": "Three different solutions against",
    "problems chosen by RPD, too, against random problems": "Choosing the problems by RPD, too",
    "RPD, 100 problems x 3, against random, 300 x 1": "Depth against breadth at equal samples",
    "a budget of 300 spent by RPD against random, 300 x 1": "A budget spent by RPD against breadth",
    "after fine-tuning (RPD 1P3S) against the base before it": "After fine-tuning against before",
    "half of the way from the base to it (WiSE-FT) against all of it": (
        "50% of the way from the base to RPD 1P3S, against all of it"
    ),
    "GRPO after RPD 1P3S": "GRPO after RPD 1P3S",
    "the diversity reward in it": "The diversity reward, after RPD 1P3S",
}


def numbers(text: str) -> list[str]:
    return re.findall(r"[+-]\d+\.\d", text.replace("\N{MINUS SIGN}", "-"))


def test_the_readme_says_what_the_page_says_and_what_falls():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/loop.md").read_text(encoding="utf-8")
    for row, sentence in SUMMARY.items():
        (shown,) = re.findall(rf"^\| {re.escape(row)} \|(.*)$", readme, re.MULTILINE)
        (measured,) = re.findall(rf"^- {re.escape(sentence)}.*$", page, re.MULTILINE)
        assert numbers(shown) == numbers(measured), row
    # The arm that the row about fine-tuning is labelled with.
    compared = next(c for c in COMPARISONS if c[2] == "after fine-tuning against before")
    assert compared[:2] == ("rpd_1p3s", BASE_ARM)
    table = dict(re.findall(r"^\| ([^|]+) \| 5 \|(?:[^|]*\|){6} ([\d.]+) \[", page, re.MULTILINE))
    falls = readme.partition("What falls: ")[2].partition("\n\n")[0]
    for arm in ("base model", "RPD 1P3S", "unfiltered 1P16S", "random 1P1S"):
        assert table[arm] in falls, arm
    for arm in ("RPD 1P3S + GRPO", "50% of the way from the base to RPD 1P3S"):
        assert table[arm] in falls, arm
    first = page.partition("## Training sets of equal size")[2].partition("##")[0]
    others = [float(one) for one in re.findall(r"\| ([\d.]+) \[[\d., ]+\] \| 0\.", first)]
    assert others[0] == max(others) == float(table["base model"])


def test_the_budget_arm_takes_every_problem_once_and_then_what_adds_most(tmp_path):
    (arm,) = BUDGET
    for name in ("wide", "deep"):
        (tmp_path / name).mkdir()
    wide = curate(arm, 0, QUICK, tmp_path / "wide" / "data", tmp_path / "vectors.sqlite")
    assert (wide["problems"], wide["samples"]) == (18, 18)
    scarce = replace(arm, pool=6)
    deep = curate(scarce, 0, QUICK, tmp_path / "deep" / "data", tmp_path / "vectors.sqlite")
    assert (deep["problems"], deep["samples"]) == (6, 18)
    assert deep["strategies_per_problem"] > wide["strategies_per_problem"] == 1
    assert {arm.name for arm in MAP} >= {"map_scarce_rpd_budget", "map_wide_rpd_budget"}
