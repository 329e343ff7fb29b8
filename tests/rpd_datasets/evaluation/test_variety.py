"""How differently models solve: exact averages over draws, and what `rpd compare` says."""

from __future__ import annotations

import json
from itertools import combinations, product

import numpy as np
import pytest

from benchmarks.interval_coverage import way_alarms
from parts.rows import write_rows
from rpd_datasets.cli import main
from rpd_datasets.evaluation.comparison import APART, compare
from rpd_datasets.evaluation.results import results_of
from rpd_datasets.evaluation.variety import Solved, figures

WAYS = {
    "sums": "Add the two numbers digit by digit and carry where it is needed. The answer is {}.",
    "lines": "Draw a number line, start at the first and hop to the right. The answer is {}.",
    "pairs": "Put counters into pairs, remove what cancels, count the rest. The answer is {}.",
}


def test_strategies_at_an_equal_number_are_the_mean_over_all_draws():
    solved = Solved("p", ["a"] * 5 + ["b"] * 3, np.zeros((8, 8)), list("xxyzzxyy"))
    found = figures(solved, "a", "b")
    ours, theirs = "xxyzz", "xyy"
    draws = [set(one) for one in combinations(ours, 3)]
    assert found.fewest == 3
    assert found.variety == pytest.approx((np.mean([len(one) for one in draws]), 2))
    shares = [len(one - set(theirs)) for one in draws]
    assert found.only[0] == pytest.approx(np.mean(shares) / found.variety[0])
    assert found.between == pytest.approx(np.mean([x != y for x, y in product(ours, theirs)]))
    within = [np.mean([x != y for x, y in combinations(one, 2)]) for one in (ours, theirs)]
    assert found.within == pytest.approx(np.mean(within))
    assert figures(Solved("p", ["a", "b", "b"], np.zeros((3, 3)), list("xxy")), "a", "b") is None


def test_models_that_go_other_ways_are_told_apart_and_equal_ones_are_not():
    rng, problems = np.random.default_rng(0), []
    for number in range(60):
        owners = ["same"] * 4 + ["again"] * 4 + ["other"] * 4
        labels = [*rng.choice(list("xyz"), 8), *rng.choice(list("uvw"), 4)]
        problems.append(Solved(f"{number}", owners, np.zeros((12, 12)), labels))
    marks = {f"{number}": [True] * 4 for number in range(60)}
    results = [results_of(name, "A", marks) for name in ("same", "again", "other")]
    found = {(one.other, one.measure): one for one in compare(results, {"A": problems})}
    assert "cannot tell that again and same go different ways" in found["again", APART].sentence
    apart = found["other", APART]
    assert "other and same go different ways: 1.000 between their right" in apart.sentence
    assert (apart.gaps[APART].low > 0, apart.gaps[APART].p < 0.01) == (True, True)
    # As varied, each in its own way.
    assert found["other", "strategies"].gaps["strategies"].p > 0.05


def test_equal_models_are_called_different_in_one_table_of_twenty():
    rates = way_alarms(problems=30, samples=(4, 16), strategies=3, named=True, repeats=60)
    assert rates["any"] <= 0.14  # three standard errors above 5 %


def rows(ways, *, wrong=0, names=False):
    for n in range(12):
        texts = [WAYS[way].format(n + 2) for way in ways]
        row = {"problem": f"What is {n} + 2, and why?", "solutions": texts + ["It is 99."] * wrong}
        row["correct"] = [True] * len(ways) + [False] * wrong
        if names:
            row["strategies"] = [*ways, *["guess"] * wrong]
        yield row


def test_compare_prints_markdown_json_and_a_page(tmp_path, capsys):
    one = write_rows(tmp_path / "one.jsonl", rows(["sums", "sums", "sums"], names=True))
    two = write_rows(tmp_path / "two.jsonl", rows(["sums", "lines"], wrong=2, names=True))
    page = tmp_path / "page.html"
    given = ["compare", str(one), f"<b>two={two}", "--output", str(page)]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "On the 12 problems of the files, <b>two is worse than one at pass@1" in out
    # Two of each count: of sums alone one strategy, of sums and lines two.
    assert "have more strategies than one's: 2.000 against 1.000." in out
    assert "| the files: <b>two, not one " in out
    text = page.read_text()
    assert WAYS["lines"].format(2) in text
    assert "&lt;b&gt;two: 2 of 4 right" in text
    assert "<b>two" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert main([*given[:3], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [gap["measure"] for gap in found["differences"]] == ["pass@k", "strategies", "apart"]
    assert found["differences"][1]["problems"][0]["only"] == [0, 0.5]


def test_without_names_a_distance_is_compared_and_without_marks_all_solutions(tmp_path, capsys):
    unmarked = [{k: v for k, v in row.items() if k != "correct"} for row in rows(["sums", "lines"])]
    for name in ("one", "two"):
        write_rows(tmp_path / f"{name}.jsonl", unmarked)
    write_rows(tmp_path / "part.jsonl", unmarked[:6])
    files = [str(tmp_path / f"{name}.jsonl") for name in ("one", "two", "part")]
    assert main(["compare", *files[:2], "--json", "--distance", "raw"]) == 0
    found = json.loads(capsys.readouterr().out)["differences"]
    assert [gap["measure"] for gap in found] == ["distance raw", "apart"]
    assert found[0]["gaps"]["distance raw"]["value"] == pytest.approx(0, abs=1e-5)
    # Copies of each other are nearer than two ways of one model.
    assert found[1]["gaps"]["apart"]["value"] < 0
    assert main(["compare", *files]) == 1
    assert "(--common)" in capsys.readouterr().err
    assert main(["compare", *files, "--common"]) == 0
    assert "The 6 problems of the files that both solve twice" in capsys.readouterr().out
    assert main(["compare", *files[:2], "--distance", "none"]) == 1
    assert "nothing can be compared" in capsys.readouterr().err
