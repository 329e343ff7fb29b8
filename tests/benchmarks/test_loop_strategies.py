"""The chain with a pretrained model: its task, what is begun and kept, and what its page says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from benchmarks.loop_strategies.arms import ARMS, Scale
from benchmarks.loop_strategies.page import over_seeds, verdict, write_page
from benchmarks.loop_strategies.run import OutOfTime, Runner, main
from benchmarks.loop_strategies.task import by_strategy, factors, rows, split, strategy_of
from parts import smollm2
from rpd_metric.errors import InputError

ROOT = Path(__file__).parents[2]
SIZE = {"pool": 12, "samples": 6, "warm": 8, "tests": 2, "attempts": 2, "practice": 8}


def test_every_solution_is_of_its_strategy_and_a_false_line_of_none():
    warm, pool, tests = split(0)
    assert len({*warm, *pool, *tests}) == len(warm) + len(pool) + len(tests) == 553
    assert split(1)[1] != pool
    for one in (found := rows(pool, 8, seed=0)):
        a, b = factors(one["id"])
        assert [strategy_of(a, b, text) for text in one["solutions"]] == one["strategies"]
        assert len(set(one["solutions"])) == 8
        text, digit = one["solutions"][0], str(random.Random(one["id"]).randrange(1, 9))
        # Any digit of a result changed is a false line.
        for place in [n for n, sign in enumerate(text) if sign == "="]:
            wrong = text[: place + 2] + digit + text[place + 2 :]
            assert strategy_of(a, b, wrong) is None
    assert all(len(one["solutions"]) >= 3 for one in by_strategy(found, 3, different=True))
    for one in by_strategy(found, 3, different=False):
        assert len({strategy_of(*factors(one["id"]), text) for text in one["solutions"]}) == 1


def test_nothing_is_begun_too_late_and_a_folder_holds_one_size(tmp_path: Path):
    with pytest.raises(OutOfTime, match="start: model"):
        Runner(Scale(), tmp_path, False, 0, []).measure("random_1p1s", 0)
    with pytest.raises(InputError, match="another size"):
        Runner(Scale(tests=17), tmp_path, False, None, [])


@pytest.mark.parametrize(
    ("better", "said"), [(0, "none of these arms"), (60, "(**higher** (+60.0")]
)
def test_the_page_tells_arms_apart_only_where_bands_do(tmp_path: Path, better: int, said: str):
    def result(arm: str, seed: int, right: int) -> dict[str, object]:
        samples = {f"{n}": ["tens", None] if n < right else [None, None] for n in range(100)}
        return {"arm": arm, "seed": seed, "samples": samples, "seconds": {"train": 60}}

    write_page(tmp_path / "page.md", Scale(), [])
    assert "No arm has been run yet" in (tmp_path / "page.md").read_text()
    arms = {"rpd_1p3s": 20 + better, "random_1p3s": 20}
    found = [result(name, seed, right) for name, right in arms.items() for seed in (0, 1)]
    found.append(result("grpo", 0, 20) | {"counts": {"problems": 160}})  # and no samples
    write_page(tmp_path / "page.md", Scale(), found)
    text = (tmp_path / "page.md").read_text()
    assert said in text
    assert f"| RPD 1P3S        |     2 |   {10 + better / 2:.1f} |   {20 + better:.1f} |" in text
    assert "RPD 1P3S + GRPO − RPD 1P3S" in text


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        # Student's t with two degrees of freedom: 4.303 standard errors of 0.2 / sqrt(3).
        ([0.4, 0.6, 0.8], "**higher** (+60.0 [+10.3, +109.7])"),
        ([0.1, -0.1, 0.0], "not told apart (+0.0 [-24.8, +24.8])"),
        ([-0.1, -0.1], "**lower** (-10.0 [-10.0, -10.0])"),
        ([0.0, 0.0], "equal in every seed"),
        ([0.1], "+10.0, one seed only"),
    ],
)
def test_a_difference_is_told_by_students_t_over_seeds(gaps: list[float], said: str):
    assert verdict(over_seeds(gaps)) == said


def test_the_kit_waits_until_all_its_parts_have_come(tmp_path: Path):
    kit, home = tmp_path / "kit", tmp_path / "home"
    kit.mkdir()
    sums = [f"{sha256(name.encode()).hexdigest()}  part-{name}\n" for name in ("00", "01")]
    (kit / "parts.sha256").write_text("".join(sums))
    command = ["benchmarks/loop_strategies/kit.sh", "run", str(kit), str(tmp_path / "out")]
    for name in ("00", "01"):
        (kit / f"part-{name}").write_text(name)
        env = os.environ | {"KIT_HOME": str(home), "PYTHON": "false"}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        (kit / f"part-{name}").unlink()  # the next call carries another one
        assert (done.returncode == 4) == (name == "00")
        assert ("carry them in the next call" in done.stdout) == (name == "00")
    # All are there; that they are no archive is what stops it now.
    assert "tar" in done.stderr


@pytest.mark.slow
def test_the_kit_tests_the_machine_before_it_trains():
    command = ["benchmarks/loop_strategies/kit.sh", "self-test"]
    env = os.environ | {"PYTHON": sys.executable, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "self-test on" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(smollm2.missing() is not None, reason=f"SmolLM2 {smollm2.missing()}")
def test_arms_are_made_and_measured_and_not_made_again(tmp_path: Path, capsys):
    (tmp_path / "model").symlink_to(smollm2.smollm2())
    options = [f"--{name}={number}" for name, number in SIZE.items()]
    options += ["--training", "--max_steps 1", "--output", f"{tmp_path}"]
    options += ["--page", f"{tmp_path / 'page.md'}", "--arms"]
    assert main([*options, "half"]) == 0
    (one,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert {name: len(marks) for name, marks in one["samples"].items()} == {"69x7": 2, "34x7": 2}
    assert main([*options, "half", "rpd_1p3s"]) == 0
    assert capsys.readouterr().err.count(": train") == 2
    text = (tmp_path / "page.md").read_text()
    assert f"{ARMS['half'].title} − RPD 1P3S" in text
