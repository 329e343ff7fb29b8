"""When diversity pays: the task, exact chances, what is begun and kept, and what the page says."""

import json
import os
import random
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from benchmarks.loop_strategies.arms import CORNERS, Scale
from benchmarks.loop_strategies.gate import correlation, mixtures, solved
from benchmarks.loop_strategies.page import answer, gate_sections, interval, shared, write_page
from benchmarks.loop_strategies.run import OutOfTime, Runner, main, warming_samples, write_result
from benchmarks.loop_strategies.task import (
    SKEWS,
    STRATEGIES,
    by_strategy,
    drawn,
    factors,
    fitting,
    split,
    story,
    strategy_of,
    texts,
)
from parts import smollm2
from rpd_metric.errors import InputError
from rpd_metric.statistics.intervals import Interval

ROOT = Path(__file__).parents[2]
SIZE = {"pool": 12, "samples": 6, "little": 8, "tests": 2, "checked": 1, "practice": 8}


@pytest.mark.parametrize("task", STRATEGIES)
def test_every_listed_text_is_right_and_of_its_strategy(task: str):
    parts = split(task, 0)
    ids = [id_ for part in parts.values() for id_ in part]
    assert len({*ids}) == len(ids) > 1000
    assert split(task, 1)["tests"] == parts["tests"]
    assert split(task, 1)["pool"] != parts["pool"]
    signs = {"*": int.__mul__, "+": int.__add__, "-": int.__sub__}
    for id_ in parts["pool"]:
        a, b = factors(id_)
        for name in fitting(task, a, b):
            for text in texts(task, id_, name):
                _, *lines, answer = text.splitlines()
                for line in lines:
                    left, _, value = line.partition("=")
                    (sign,) = {*left} & {*signs}
                    assert signs[sign](*map(int, left.split(sign))) == int(value)
                assert answer.endswith(f"\\boxed{{{a * b}}}")
                assert strategy_of(task, id_, text) == name
            assert strategy_of(task, id_, text.replace("=", "=1", 1)) is None


def test_strategies_fit_all_problems_of_one_task_and_different_ones_of_the_other():
    counts = {
        task: [len(fitting(task, *factors(id_))) for id_ in split(task, 0)["tests"]]
        for task in STRATEGIES
    }
    assert {*counts["same"]} == {4}
    assert {*counts["different"]} == {2, 3}
    problems = split("different", 0)["warm"]
    by_problem = {story(id_): id_ for id_ in problems}
    names = [
        strategy_of("different", by_problem[problem], text)
        for problem, text in warming_samples(CORNERS["all-different"], problems, 400)
    ]
    assert names.count("round") > names.count("factors") > names.count("doubling") > 40
    assert None not in names
    assert len(warming_samples(CORNERS["some-different"], problems, 40)) == 40


def test_sets_of_true_strategies_are_made_by_what_the_task_knows():
    shares = dict(zip(STRATEGIES["different"], SKEWS["steep"], strict=True))
    pool = drawn("different", split("different", 0)["pool"][:60], 16, shares, seed=0)
    assert drawn("different", split("different", 0)["pool"][:60], 16, shares, seed=0) == pool
    different, same = (by_strategy(pool, 10, 3, different=which) for which in (True, False))
    assert len(different) == len(same) == 10
    for rows, least, most in ((different, 2, 3), (same, 1, 1)):
        for row in rows:
            names = {strategy_of("different", row["id"], text) for text in row["solutions"]}
            assert len({*row["solutions"]}) == 3
            assert least <= len(names) <= most


def result(arm: str, seed: int, chances: list[dict], corner: str = "all-different") -> dict:
    problems = {f"{place}x1": chance for place, chance in enumerate(chances)}
    known = {"strategies": 1.5, "shares": {"places": 0.9}}
    values = {"corner": corner, "arm": arm, "seed": seed, "chances": problems, "set": known}
    values |= {"start": corner, "rate": 1e-3, "epochs": 2.0, "tuned": False}
    return values | {"sampled": {"0x1": [12, 1]}}


def test_the_gate_computes_mixtures_from_a_starts_own_chances():
    # A strategy that fails where the other one works: begun, and right at the end.
    chances = [
        {"places": [[0.9, 0.09], [1, 1]], "round": [[0.1, 0.1], [1, 1]]},
        {"places": [[0.9, 0.9], [1, 1]], "round": [[0.1, 0.01], [1, 1]]},
        {"places": [[0.9, 0.45], [1, 1]], "round": [[0.1, 0.05], [1, 1]]},
    ]
    start = result("start", 0, chances)
    mixed = mixtures(start, 1)
    assert mixed["natural"] == pytest.approx((0.19 + 0.91 + 0.5) / 3)
    assert mixed["even"] == pytest.approx((0.55 + 0.55 + 0.5) / 3)
    assert mixed["single"] == pytest.approx((0.1 + 1 + 0.5) / 3)
    assert correlation(start) == pytest.approx(-0.99, abs=0.01)
    text = re.sub(" +", " ", "\n".join(gate_sections({"all-different": {"start": {0: start}}})))
    assert "| all-different | round | 3 | 10.0 | 53.3 |" in text
    assert "| all-different | +0.0 | -0.99 | +1.1 | 12 of 12, 1 |" in text


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.021, 0.09, "Yes"),
        (-0.01, 0.02, "No difference"),
        (-0.01, 0.03, "Undecided"),
        (-0.09, -0.03, "No: it is lower"),
    ],
)
def test_the_question_is_answered_by_where_the_interval_is(low: float, high: float, expected: str):
    assert answer(Interval((low + high) / 2, low, high)) == expected


def test_an_interval_covers_other_problems_and_other_seeds():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        # Problems differ by 0.3, seeds by 0.05: the mean of four seeds on 50 problems.
        table = rng.normal(0, 0.3, 50)[None] + rng.normal(0, 0.05, 4)[:, None]
        gap = interval([table + rng.normal(0, 0.1, (4, 50))])
        covered += gap.low <= 0 <= gap.high
    assert covered >= 0.93 * 200
    twice = interval([np.full((1, 4), 0.5), np.full((1, 9), 0.2)])
    assert (twice.value, twice.low, twice.high) == pytest.approx((0.3, 0.3, 0.3))


@pytest.mark.parametrize(("better", "expected"), [(0.0, "**No difference**"), (0.4, "**Yes**")])
def test_the_page_answers_from_results(tmp_path: Path, better: float, expected: str):
    write_page(tmp_path / "page.md", Scale(), [])
    text = (tmp_path / "page.md").read_text()
    assert "**No arm has been run yet.**" in text
    assert "**Not measured yet.**" in text
    rng, results = random.Random(0), []
    for corner, more in (("all-different", better), ("little-same", 0.0)):
        for name, plus in (("start", 0.0), ("random_1p1s", 0.0), ("rpd_1p3s", more)):
            for seed in range(1 if name == "start" else 2):
                values = [rng.choice([0.001, 0.002]) + plus for _ in range(100)]
                chances = [{"places": [[1.0, value], [1.0, value]]} for value in values]
                results.append(result(name, seed, chances, corner))
    tuned = result("random_1p1s", 0, [{"places": [[1.0, 0.25], [1.0, 0.25]]}])
    results.append(tuned | {"tuned": True, "rate": 3e-4})
    write_page(tmp_path / "page.md", Scale(), results)
    text = (tmp_path / "page.md").read_text()
    assert expected in text
    assert "RPD 1P3S − random 1P1S" in text
    assert f"{100 * solved([0.0015 + better], 1)[0]:.1f}" in text
    assert "| all-different |        0.0003 |      2 | 25.0 | 99.0 | 100.0 |" in text
    first_seeds = [result for result in results if result["seed"] == 0]
    write_page(tmp_path / "page.md", Scale(), first_seeds)
    assert "**One seed is no answer yet**" in (tmp_path / "page.md").read_text()
    # Arms that go on from two starts are not compared.
    arms = {
        arm_result["arm"]: {0: arm_result} for arm_result in results[:-1] if arm_result["seed"] == 0
    }
    assert shared(arms, "rpd_1p3s", "random_1p1s") == [0]
    arms["rpd_1p3s"] = {0: {**arms["rpd_1p3s"][0], "start": "another"}}
    assert shared(arms, "rpd_1p3s", "random_1p1s") == []


def test_nothing_is_begun_too_late_and_results_of_two_sizes_are_not_mixed(tmp_path: Path):
    output, results, corner = tmp_path / "out", tmp_path / "results", CORNERS["little-same"]
    (output / "model").mkdir(parents=True)
    (output / "little-same/start").mkdir(parents=True)
    runner = Runner(Scale(), output, results, "cpu", 0)
    with pytest.raises(OutOfTime, match="random_1p1s: curate"):
        runner.measure(corner, "random_1p1s", 0)
    write_result(results / "little-same/random_1p1s-0.json", {"scale": vars(Scale(tests=3))})
    with pytest.raises(InputError, match="another size"):
        runner.measure(corner, "random_1p1s", 0)
    assert [*results.rglob("*.partial")] == []


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
def test_chances_are_those_that_the_model_gives_text_by_text(tmp_path: Path, monkeypatch):
    import torch
    from transformers import AutoTokenizer

    from benchmarks.loop_strategies import exact
    from benchmarks.loop_strategies.task import OPENINGS, story
    from benchmarks.loop_strategies.training import fine_tune, load, prompt_tokens, solution_tokens

    base, id_ = smollm2.smollm2(), "27x6"
    samples = [(story(id_), text) for text in texts("same", id_, "round")] * 3
    fine_tune(base, samples, tmp_path / "adapter", rate=1e-3, epochs=1, seed=0, device="cpu")
    network, tokenizer = (
        load(base, "cpu", tmp_path / "adapter"),
        AutoTokenizer.from_pretrained(base),
    )
    monkeypatch.setattr(exact, "PRODUCTS", torch.float32)  # which is no mixed precision
    computed = exact.chances(network, tokenizer, "same", id_)["round"]

    def chance(tokens: list[int], temperature: float) -> float:
        prompt = prompt_tokens(tokenizer, story(id_))
        with torch.inference_mode():
            logits = network(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        logs = (logits / temperature).log_softmax(-1)
        return float(logs[range(len(tokens)), tokens].sum().exp())

    for temperature, (begun, ended) in zip((1.0, 0.6), computed, strict=True):
        lines = [tokenizer(f"{line}\n")["input_ids"] for line in OPENINGS["round"]]
        listed = [solution_tokens(tokenizer, text) for text in texts("same", id_, "round")]
        assert begun == pytest.approx(
            sum(chance(tokens_, temperature) for tokens_ in lines), rel=0.01
        )
        assert ended == pytest.approx(
            sum(chance(tokens_, temperature) for tokens_ in listed), rel=0.01
        )


@pytest.mark.slow
@pytest.mark.skipif(smollm2.missing() is not None, reason=f"SmolLM2 {smollm2.missing()}")
def test_arms_are_made_and_measured_and_not_made_again(tmp_path: Path, capsys):
    (tmp_path / "output").mkdir()
    (tmp_path / "output/model").symlink_to(smollm2.smollm2())
    options = [f"--{name}={number}" for name, number in SIZE.items()]
    options += ["--output", f"{tmp_path / 'output'}", "--results", f"{tmp_path / 'results'}"]
    options += ["--page", f"{tmp_path / 'page.md'}", "--corners", "little-same", "--arms"]
    assert main([*options, "half"]) == 0
    measured = json.loads((tmp_path / "results/little-same/half-0.json").read_text())
    assert len(measured["chances"]) == 2
    assert measured["set"]["samples"] == 6
    assert main([*options, "half", "rpd_1p3s"]) == 0
    # The start, two settings on problems for validation, and the arm that both go on from.
    assert capsys.readouterr().err.count(": train on") == 4
    assert "halfway to RPD 1P3S (WiSE-FT) − RPD 1P3S" in (tmp_path / "page.md").read_text()
