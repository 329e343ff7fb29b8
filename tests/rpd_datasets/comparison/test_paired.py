"""Comparing models: what is said, for the whole table, and what is not compared."""

import json
import random
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.interval_coverage import way_alarms
from parts.fake_tgi import FakeTGI
from parts.recorded_groups import SHARED, RecordedGroups
from parts.rows import read_lines, write_rows
from rpd_datasets.cli import main
from rpd_datasets.comparison.paired import (
    APART,
    COUNTS,
    STRATEGIES,
    TEXTS,
    Solved,
    by_benchmark,
    compare,
    comparison_text,
    figures,
    sentences,
)
from rpd_datasets.evaluation.results import Results
from rpd_metric.errors import InputError
from rpd_metric.grading import mathematics
from rpd_metric.statistics.strategy_counts import effective_number

SETTINGS = {"temperature": 0.6, "solver": {"ask": {"template": "p"}}, "scorer": "math"}
CHANCES = np.linspace(0.05, 0.9, 60)
BETTER = np.minimum(CHANCES + 0.1, 1)
WAYS = {
    "sums": "Add the two numbers digit by digit and carry where it is needed. The answer is {}.",
    "lines": "Draw a number line, start at the first and hop to the right. The answer is {}.",
}


def model(name, chances, seed=0, *, drawn=64, benchmark="A"):
    right = np.random.default_rng(seed).binomial(drawn, chances)
    marks = {f"{n}": [(place < c, None) for place in range(drawn)] for n, c in enumerate(right)}
    return Results(name, benchmark, marks, settings=SETTINGS)


WEAK, STRONG = model("weak", CHANCES), model("strong", BETTER, 1)


def test_a_better_model_is_told_apart_and_an_equal_one_is_not():
    groups = by_benchmark([WEAK, model("again", CHANCES, 2), STRONG])
    found = compare(groups)
    same, better = sentences(found)
    assert same == "The 60 problems of A cannot tell again from weak by pass@k."
    assert better.startswith("On the 60 problems of A, strong is better than weak at pass@1")
    gap = next(one for one in found if one.other == "strong")
    values = [one.figures["pass_at_k"][1].value for one in (WEAK, STRONG)]
    assert [gap.first, gap.second] == pytest.approx(values)
    assert (
        "weak is worse than strong at pass@1" in sentences(compare(by_benchmark([STRONG, WEAK])))[0]
    )
    text = comparison_text(groups, found)
    assert better in text
    shown = f"| A: weak, strong | pass@1 | {100 * gap.first:.2f} | {100 * gap.second:.2f} |"
    assert shown in " ".join(text.split())


def test_figures_stay_what_earlier_versions_printed():
    found = compare({"A": [WEAK, STRONG, model("few", CHANCES, 3, drawn=16)]})
    assert found[-1].figure == "pass@16"  # as many samples as every problem has
    shown = {(one.other, one.figure): (one.value, one.low, one.high, one.p) for one in found}
    earlier = {
        ("strong", "pass@1"): (0.092188, 0.069972, 0.114403, 0.0002),
        ("strong", "pass@16"): (0.036001, 0.002575, 0.069426, 0.064794),
        ("few", "pass@1"): (-0.021354, -0.06079, 0.018082, 0.487751),
        ("few", "pass@16"): (-0.010363, -0.064584, 0.043857, 1),
    }
    for row, numbers in earlier.items():
        assert shown[row] == pytest.approx(numbers, abs=2e-6)


def test_more_rows_in_a_table_make_it_harder_to_say_anything():
    alone = compare({"A": [WEAK, STRONG]})
    assert [one.figure for one in alone] == [f"pass@{k}" for k in (1, 2, 4, 8, 16, 32, 64)]
    noise = [model(f"equal {n}", CHANCES, 5 + n) for n in range(4)]
    others = [model(name, CHANCES, benchmark="B") for name in ("weak", "strong")]
    table = compare(by_benchmark([WEAK, STRONG, *noise, *others]))
    assert table[0].p == pytest.approx(6 * alone[0].p)


def test_fewer_samples_alone_do_not_make_a_model_different():
    """Near the ceiling pass@4 of 4 samples is 0 or 1, that of 64 nearly the same everywhere."""
    alarms = 0
    for seed in range(60):
        chances = np.random.default_rng(seed).beta(8, 0.3, 134)
        pair = [model("a", chances, seed + 100), model("b", chances, seed + 200, drawn=4)]
        alarms += any(one.p < 0.05 for one in compare({"A": pair}))
    assert alarms <= 8  # three standard errors above 5 %; without thinning about 25


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (model("b", CHANCES[:30]), "different problems of A"),
        (model("b", CHANCES, benchmark="B"), "no benchmark has results of two models"),
        (STRONG, "two results of A are called 'strong'"),
        *(
            (replace(WEAK, settings={**SETTINGS, name: "another"}), rf"another {name} \(.* and ano")
            for name in ("temperature", "solver", "scorer", "grader")
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(other, says):
    with pytest.raises(InputError, match=says):
        by_benchmark([STRONG, other])
    if "another" in says:
        assert by_benchmark([STRONG, other], different_settings=True)


def test_strategies_at_an_equal_number_are_the_mean_over_all_draws():
    solved = Solved("p", ["a"] * 5 + ["b"] * 3, np.zeros((8, 8)), list("xxyzzxyy"))
    found = figures(solved, "a", "b")
    ours, theirs = "xxyzz", "xyy"
    # Of all solutions of the model with fewer, and of so many of the other's.
    assert found.variety[1] == pytest.approx(effective_number([0, 1, 1]))
    numbers = [effective_number(list(map(ord, three))) for three in combinations(ours, 3)]
    assert found.variety[0] == pytest.approx(np.mean(numbers), abs=0.1)
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
    results = [model(name, np.ones(60), drawn=4) for name in ("same", "again", "other")]
    differences = compare({"A": results}, {"A": problems})
    said = sentences(differences)
    assert said[2].endswith("both solve twice cannot tell again from same by apart.")
    assert ", other uses other strategies than same: 1.000 against 0." in said[5]
    found = {(one.other, one.measure): one for one in differences}
    apart = found["other", APART]
    numbers = [apart.value, apart.low, apart.high, apart.p]
    assert numbers == pytest.approx([0.326389, 0.297247, 0.355531, 0.002999], abs=2e-6)
    # As varied, each in its own way.
    assert found["other", STRATEGIES].p > 0.05
    counts = {
        one.figure: one for one in differences if (one.other, one.measure) == ("other", COUNTS)
    }
    assert [*counts] == ["coverage@2", "coverage@4", "distinct@1", "distinct@2", "distinct@4"]
    wide = counts["coverage@4"]
    shown = [[len(set(p.strategies[start:][:4])) for p in problems] for start in (0, 8)]
    assert [wide.first, wide.second] == pytest.approx(list(map(np.mean, shown)))
    assert wide.low < 0 < wide.high
    assert wide.p is None
    # Where all samples are right, wrong ones cannot tell the two counts apart.
    assert counts["distinct@4"].second == wide.second


FILLER = "Let us first read the task again, slowly and with care, as a good reader would. " * 3
GERMAN = (
    "Man zählt vom ersten Summanden aus um {} weiter und landet damit genau bei {}.",
    "Wir addieren die beiden Zahlen stellenweise und übertragen, wo es nötig ist: {} und {}.",
    "Zuerst ergänzt man bis zur nächsten vollen Zehn, danach kommt der Rest dazu: {}, also {}.",
    "Die Rechnung geht im Kopf, denn die beiden Zahlen {} sind klein, und es ergibt sich {}.",
)
ENGLISH = (
    "Counting on from the first of the numbers by {} steps, we arrive at the result {}.",
    "Adding the two numbers digit by digit, with a carry where it is needed, gives {} and {}.",
    "First fill up to the next ten and then add the rest of the number: {}, so the sum is {}.",
    "This can be done in the head, for the two numbers {} are small, and the result is {}.",
)


def solutions_of(ways, before=""):
    """A file of problems, each solved by all texts of a model."""
    for n in range(16):
        texts = [before + way.format(n, n + 2) for way in ways]
        yield {"problem": f"What is {n} + 2?", "solutions": texts, "correct": [True] * len(texts)}


@pytest.mark.parametrize(
    ("theirs", "before", "placebo"),
    [
        (ENGLISH[2:] + ENGLISH[:2], FILLER, "longer against shorter"),
        (GERMAN, "", "in en against in de"),
    ],
)
def test_a_model_that_pads_or_translates_uses_no_other_strategies(
    theirs, before, placebo, tmp_path, capsys
):
    """Not "less varied", not "other ways": texts differ, and a placebo differs as much."""
    one = write_rows(tmp_path / "one.jsonl", solutions_of(ENGLISH))
    two = write_rows(tmp_path / "two.jsonl", solutions_of(theirs, before))
    page, given = tmp_path / "page.html", ["compare", str(one), str(two), "--embedder", "static"]
    assert main([*given, "--output", str(page)]) == 0
    out = capsys.readouterr().out
    assert "texts of two and one differ: " in out
    assert f"no p value, because placebos reach it ({placebo}" in out
    assert "Strategies are not known." in out
    assert not re.search("varied|other strategies|other ways", out)
    assert "Measured by distance pieces, encoder static." in page.read_text()
    assert "wording, length and language together with the method" in page.read_text()
    assert main([*given, "--json"]) == 0
    gaps = json.loads(capsys.readouterr().out)["differences"]
    (texts,) = [gap for gap in gaps if gap["measure"] == TEXTS]
    (control,) = [gap for gap in gaps if gap["figure"] == f"placebo: {placebo}"]
    assert (texts["p"], control["p"] < 0.001) == (None, True)
    assert control["value"] == pytest.approx(texts["value"])
    halves = [gap for gap in gaps if "other half" in gap["figure"]]
    assert [gap["figure"].split()[3] for gap in halves] == ["one", "two"]
    assert all(gap["p"] > 0.05 for gap in halves)


def halves_of(rows, tmp_path):
    """Two files of one set of right solutions: the first half of each, and the others."""
    files = []
    for name, take in (("one", lambda k: slice(k // 2)), ("other", lambda k: slice(k // 2, k))):
        halves = [(problem, texts[take(len(texts))]) for problem, texts in rows]
        marked = (
            {"problem": problem, "solutions": half, "correct": [True] * len(half)}
            for problem, half in halves
        )
        files.append(str(write_rows(tmp_path / f"{name}.jsonl", marked)))
    return files


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs {SHARED}")
def test_a_chat_model_that_sorts_makes_strategies_known(tmp_path, capsys):
    """Solutions of one strategy each in other words, by the recorded groups of a capable reader."""
    uniform = [
        (row["problem"], row["solutions"])
        for row in read_lines(SHARED / "train.jsonl")
        if len(set(row["strategy_a"])) == 1
    ]
    files = halves_of(uniform[:12], tmp_path)
    with FakeTGI(reply=RecordedGroups.of_sets(SHARED)) as server:
        chat = ["--summarizer", f"tgi:{server.url}", "--store", str(tmp_path / "replies.sqlite")]
        assert main(["compare", *files, "--embedder", "static", "--json", *chat]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {gap["measure"]: gap for gap in told["differences"]}
    assert TEXTS not in found
    # The reader splits one problem in two.
    numbers = [found[STRATEGIES][side] for side in ("first", "second")]
    assert numbers == pytest.approx([1, 1], abs=0.1)
    assert told["sentences"][1].endswith("cannot tell other from one by effective strategies.")


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs {SHARED}")
def test_strategies_by_a_chat_model_that_sorts_at_random_do_not_count(tmp_path, capsys):
    rows, rng = read_lines(SHARED / "controlled.jsonl")[:12], random.Random(0)
    files = halves_of([(row["problem"], row["solutions"]) for row in rows], tmp_path)
    replies = [
        {
            "problem_id": row["problem_id"],
            "order": range(len(row["solutions"])),
            "groups": [rng.randrange(3) for _ in row["solutions"]],
            "names": {str(group): f"strategy {group}" for group in range(3)},
        }
        for row in rows
    ]
    with FakeTGI(reply=RecordedGroups(rows, replies)) as server:
        chat = ["--summarizer", f"tgi:{server.url}", "--store", str(tmp_path / "replies.sqlite")]
        assert main(["compare", *files, "--embedder", "static", "--json", *chat]) == 0
    printed = capsys.readouterr()
    assert "the chat model's groups are not trusted and do not count: AUROC of" in printed.err
    measures = {gap["measure"] for gap in json.loads(printed.out)["differences"]}
    assert (STRATEGIES in measures, TEXTS in measures) == (False, True)


def test_texts_that_differ_more_than_every_placebo_have_a_p_value():
    """Lengths that tell nothing, and distances that tell the models apart."""
    rng, owners = np.random.default_rng(0), ["one"] * 4 + ["two"] * 4
    apart = np.where(np.array(owners)[:, None] == owners, 0.1, 0.3)
    problems = [
        Solved(f"{n}", owners, apart * (1 - np.eye(8)), texts=["1" * k for k in rng.permutation(8)])
        for n in range(30)
    ]
    results = [model(name, np.ones(30), drawn=4) for name in ("one", "two")]
    differences = compare({"A": results}, {"A": problems}, "raw")
    texts = next(gap for gap in differences if gap.measure == TEXTS)
    assert (texts.reached, texts.p < 0.002) == ((), True)
    assert (texts.first, texts.second) == pytest.approx((0.1, 0.3))
    assert sentences(differences)[1] == (
        "On the 30 problems of A that both solve twice, texts of two and one differ: 0.300 apart, "
        "two of one model 0.100, wording and method together. Strategies are not known."
    )


def test_two_models_with_one_strategy_each_are_as_varied(tmp_path, capsys):
    """Four wordings of one way against one wording of it: by names, one strategy each."""
    many = [row | {"strategies": ["count on"] * 4} for row in solutions_of(ENGLISH)]
    few = [row | {"strategies": ["count on"] * 4} for row in solutions_of([ENGLISH[0]] * 4)]
    files = [write_rows(tmp_path / "m.jsonl", many), write_rows(tmp_path / "f.jsonl", few)]
    assert main(["compare", *map(str, files), "--embedder", "static"]) == 0
    out = capsys.readouterr().out
    assert "cannot tell f from m by effective strategies" in out
    assert "cannot tell f from m by apart" in out


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
    assert "<b>two is more varied than one: 2.000 against 1.000." in out
    text = page.read_text()
    assert WAYS["lines"].format(2) in text
    assert "&lt;b&gt;two: 2 of 4 right" in text
    assert "<b>two" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert main([*given[:3], "--json"]) == 0
    differences = {row["figure"]: row for row in json.loads(capsys.readouterr().out)["differences"]}
    # Two of one's samples are two right ones; of two's four samples two are wrong.
    distinct = differences["distinct@2"]
    assert (distinct["first"], distinct["second"]) == pytest.approx((1, 1))
    assert differences["coverage@2"]["second"] == 2
    assert ">coverage@2<" in text
    assert main([*given[:3], "--json", "--min-strategies", "3"]) == 0
    few = json.loads(capsys.readouterr().out)["differences"]
    assert {row["measure"] for row in few} == {"pass@k"}


def test_without_names_a_distance_is_compared_and_without_marks_all_solutions(tmp_path, capsys):
    unmarked = [{k: v for k, v in row.items() if k != "correct"} for row in rows(["sums", "lines"])]
    files = [str(write_rows(tmp_path / f"{name}.jsonl", unmarked)) for name in ("one", "two")]
    assert main(["compare", *files, "--json", "--distance", "raw"]) == 0
    texts, *_ = json.loads(capsys.readouterr().out)["differences"]
    assert texts["figure"] == "texts apart (raw)"
    # Copies of each other are nearer than two ways of one model.
    assert (texts["measure"], texts["value"] < 0, texts["p"]) == (TEXTS, True, None)
    assert main(["compare", *files, "--distance", "none"]) == 1
    assert "nothing can be compared" in capsys.readouterr().err


def test_a_row_that_cannot_be_read_is_refused_or_counted(tmp_path, capsys):
    good, bad = (
        write_rows(tmp_path / f"{name}.jsonl", rows(["sums", "lines"])) for name in ("one", "two")
    )
    bad.write_text(bad.read_text() + '{"problem": "What is 9 + 9?"\n')
    line = ["compare", str(good), str(bad), "--distance", "none"]
    assert main(line) == 1
    assert "1 rows or solutions of two.jsonl cannot be read, the first at two.jsonl:13" in (
        capsys.readouterr().err
    )
    assert main([*line, "--allow-missing"]) == 0
    assert "- two on the files: 1 samples or rows are missing" in capsys.readouterr().out


def test_two_problems_of_one_text_cannot_be_told_apart(tmp_path, capsys):
    recorded = Path(__file__).parents[1] / "inputs/harness/samples_sums.jsonl"
    file = tmp_path / "one.jsonl"
    file.write_text(recorded.read_text().replace("What is 9 times 8?", "What is 17 + 25?"))
    assert main(["compare", f"a={file}", f"b={file}", "--distance", "none"]) == 1
    assert "two problems of the same text: 'What is 17 + 25?'" in capsys.readouterr().err


def test_a_chance_draw_of_fewer_samples_calls_no_model_worse_on_its_own():
    (one, *_) = compare(by_benchmark([STRONG, WEAK]))
    assert sentences([one])[0].startswith("On the")
    drawn_apart = replace(one, value=0.0, low=-0.015, high=0.015, p=0.04)
    assert "cannot tell weak from strong" in sentences([drawn_apart])[0]


def test_answers_are_not_called_wrong_where_they_cannot_be_compared(tmp_path, capsys, monkeypatch):
    found = mathematics.importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *a: (name != "math_verify" and found(name, *a)) or None,
    )
    row = {"problem": "Half?", "solutions": [r"So $\boxed{\frac{2}{4}}$."], "answer": "1/2"}
    for answer, status in (("1/2", 1), (r"\frac{2}{4}", 0)):  # the second takes no algebra
        file = write_rows(tmp_path / "one.jsonl", [row | {"answer": answer}])
        assert main(["compare", f"a={file}", f"b={file}", "--distance", "none"]) == status
        assert ("-e '.[grading]'" in capsys.readouterr().err) == bool(status)
    solutions = [r"So $\boxed{\frac{2}{4}}$.", "That is about five smoots, as one sees."]
    file = write_rows(tmp_path / "one.jsonl", [row | {"answer": answer, "solutions": solutions}])
    assert main(["compare", f"a={file}", f"b={file}", "--distance", "none"]) == 0
    unchecked = "- b on the files: 1 of 2 answers could not be checked and count as not right."
    assert unchecked in capsys.readouterr().out


def test_the_column_of_reference_answers_may_be_named(tmp_path, capsys):
    row = {"problem": "1 + 1?", "solutions": [r"So $\boxed{2}$.", r"So $\boxed{3}$."], "gold": "2"}
    file = write_rows(tmp_path / "one.jsonl", [row])
    line = ["compare", f"a={file}", f"b={file}", "--distance", "none", "--json"]
    assert main([*line, "--answer-column", "gold"]) == 0
    assert [model["correct"] for model in json.loads(capsys.readouterr().out)["models"]] == [
        ["10"],
        ["10"],
    ]
