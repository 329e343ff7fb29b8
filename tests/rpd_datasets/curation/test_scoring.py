"""`rpd_curate` for `ds.map`, and what becomes of a single problem."""

import shutil
from dataclasses import replace

import datasets
import numpy as np
import pytest

from parts.scripted import SentenceSteps
from rpd_datasets import CurationConfig, FilterConfig, Problem, rpd_curate, to_sft
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import choose, score_problem
from rpd_datasets.tokens import token_counter
from rpd_metric.distance.core import problem_score
from rpd_metric.errors import InputError
from rpd_metric.models.concurrency import run
from rpd_metric.models.spec import load_embedder

FACTOR = (
    "We look for two numbers whose product is 6 and whose sum is 5. They are 2 and 3, so the "
    "quadratic factors as $(x-2)(x-3)$. A product vanishes when a factor does. The larger root "
    "is therefore $\\boxed{3}$."
)
FORMULA = (
    "Apply the quadratic formula with $a=1$, $b=-5$, $c=6$. The discriminant is $25-24=1$. The "
    "roots are $(5\\pm1)/2$. The larger of the two is $\\boxed{3}$."
)
SQUARE = (
    "Complete the square: the equation becomes $(x-5/2)^2=1/4$. Take the square root of both "
    "sides to get $x-5/2=\\pm1/2$. The larger solution is $\\boxed{3}$."
)
PROBLEM = "What is the larger root of $x^2-5x+6=0$?"
ROW = {"problem": PROBLEM, "solutions": [FACTOR, FORMULA, SQUARE, FACTOR], "level": "easy"}
COLUMNS = {"steps", "rpd_matrix", "rpd_score", "selected", "drop_reasons", "rpd_fingerprint"}
# What problems and solutions are chosen by, where that is another distance than RPD.
CHOICE = {"problem_score", "distance_matrix"}


def given_models(config):
    return Models(SentenceSteps(), load_embedder(config.embedder), token_counter(config.tokenizer))


THREE = Problem(
    "What is 2 + 3?",
    (
        "Count on from two. The sum is 5.",
        "Count up from two. The sum is 5.",
        "Draw five coins on a table in a row and cover three. The sum is 5.",
    ),
)


def loose(**options):
    filters = FilterConfig(min_solutions=1, require_complete=False, drop_duplicates=False)
    return CurationConfig(filters=filters, **options)


def test_map_adds_the_columns_and_carries_all_others_along():
    ds = datasets.Dataset.from_list([ROW]).map(rpd_curate)
    assert set(ds.column_names) == {"problem", "solutions", "level"} | COLUMNS | CHOICE
    row = ds[0]
    assert row["solutions"] == ROW["solutions"]
    assert [len(steps) > 0 for steps in row["steps"]] == [True, True, True, False]
    assert row["drop_reasons"] == ["", "", "", "duplicate"]
    assert sorted(row["selected"]) == [0, 1, 2]
    matrix = np.array(row["rpd_matrix"], dtype=float)
    assert np.isnan(matrix[3]).all()
    assert row["rpd_score"] == round(problem_score(matrix), 5)


def test_a_missing_column_names_those_there_are():
    with pytest.raises(InputError, match=r"no column 'solutions', only problem, answers"):
        rpd_curate({"problem": PROBLEM, "answers": [FACTOR]})


@pytest.mark.parametrize(
    ("row", "reasons"),
    [
        ({"problem": None, "solutions": [FACTOR, SQUARE]}, ["bad_row", "bad_row"]),
        ({"problem": PROBLEM, "solutions": None}, []),
        ({"problem": PROBLEM, "solutions": []}, []),
        ({"problem": PROBLEM, "solutions": [None, None]}, ["not_text", "not_text"]),
    ],
)
def test_a_bad_row_becomes_data_and_never_stops_the_map(row, reasons):
    result = rpd_curate(row)
    assert result["drop_reasons"] == reasons
    assert (result["rpd_score"], result["selected"]) == (None, [])


def test_a_null_among_the_solutions_costs_only_itself():
    row = {"problem": PROBLEM, "solutions": [FACTOR, None, FORMULA], "correct": [True, None, True]}
    result = rpd_curate(row)
    assert result["drop_reasons"] == ["", "not_text", ""]
    assert sorted(result["selected"]) == [0, 2]
    assert result["rpd_matrix"][0][2] == result["rpd_matrix"][2][0] == result["rpd_score"]


def test_failed_summaries_are_left_out_and_never_look_diverse():
    config = loose()
    problem = Problem(PROBLEM, ("Factor it. Read off.", "FAIL", "Factor it. Read off."))
    scored = run(score_problem(problem, config, given_models(config)))
    assert scored.drop_reasons == ["", "no_envelope", ""]
    assert scored.score == 0
    assert scored.matrix[1] == [None, None, None]
    assert [(r.stage, r.reason, r.solution_index) for r in scored.rejects] == [
        ("steps", "no_envelope", 1)
    ]


def test_to_sft_gives_one_conversational_row_per_chosen_solution_in_order_of_choice():
    ds = datasets.Dataset.from_list([ROW]).map(rpd_curate)
    rows = to_sft(ds)
    assert rows.column_names == ["prompt", "completion"]
    assert [row["completion"][0]["content"] for row in rows] == [
        ROW["solutions"][index] for index in ds[0]["selected"]
    ]
    assert rows[0]["prompt"] == [{"role": "user", "content": PROBLEM}]
    assert rows[0]["completion"][0]["role"] == "assistant"


@pytest.mark.parametrize("choice", ["raw", "random"])
def test_no_summary_is_made_where_nothing_reads_steps(choice):
    config = loose(problems=choice, solutions=choice, num_solutions=2)
    models = replace(given_models(config), summarizer=None)
    scored = run(score_problem(THREE, config, models))
    assert (scored.score, scored.steps) == (None, [[], [], []])
    assert len(run(choose(THREE, scored, config, models)).value) == 2


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_growth_runs_the_programs_on_the_tests_of_their_row():
    programs = (
        "def total(xs):\n    return sum(xs)",
        "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    return s",
    )
    config = loose(problems="growth", solutions="growth")
    tests = {"entry_point": "total", "tests": ["assert total([1, 2, 3]) == 6"]}
    by_texts, by_runs = (
        run(score_problem(Problem("Add up.", programs, extra), config, given_models(config)))
        for extra in ({}, tests)
    )
    assert by_runs.problem_score != by_texts.problem_score


def test_rpd_is_measured_beside_any_distance_between_steps():
    plain = run(score_problem(THREE, loose(), given_models(loose())))
    for choice in ("summary", "strategy"):
        config = loose(problems=choice, solutions=choice)
        scored = run(score_problem(THREE, config, given_models(loose())))
        assert scored.matrix == plain.matrix
        assert scored.score == plain.score
        assert scored.distances != plain.matrix
        assert scored.problem_score not in (None, plain.score)
