"""The packaged sample: right answers, honest labels, and what RPD picks from it."""

from __future__ import annotations

import itertools
import json
from importlib import resources

import numpy as np
import pytest

from parts import sample_answers_algebra, sample_answers_counting, sample_answers_geometry
from rpd_datasets import CurationConfig, Problem, select_solutions
from rpd_datasets.curation.models import load_models
from rpd_datasets.curation.scoring import score_problem
from rpd_metric.models.concurrency import run

ANSWERS = (
    sample_answers_algebra.ANSWERS
    | sample_answers_counting.ANSWERS
    | sample_answers_geometry.ANSWERS
)
ROWS = [
    json.loads(line)
    for file in sorted(resources.files("rpd_datasets.sample").iterdir(), key=lambda f: f.name)
    if file.name.endswith(".jsonl")
    for line in file.read_text(encoding="utf-8").splitlines()
]
DIVERSE = [row for row in ROWS if len(set(row["strategies"])) >= 3]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["problem_id"])
def test_the_answer_is_computed_again_and_every_solution_ends_with_it(row):
    assert ANSWERS[row["problem_id"]]() == row["reference_answer"]
    for solution in row["solutions"]:
        assert solution.count("\\boxed{") == 1
        assert "\\boxed{" + row["reference_answer"] + "}" in solution


def test_labels_are_complete_and_texts_differ():
    assert all(len(row["solutions"]) == len(row["strategies"]) == 6 for row in ROWS)
    assert all(set(row["strategy_names"]) == {str(s) for s in row["strategies"]} for row in ROWS)
    texts = [solution for row in ROWS for solution in row["solutions"]]
    assert len(set(texts)) == len(texts)


@pytest.mark.slow
def test_rpd_picks_three_strategies_more_often_than_random_choice_does():
    config = CurationConfig()
    models = load_models(config)
    by_rpd, by_chance = 0, 0.0
    for row in DIVERSE:
        problem = Problem(row["problem"], tuple(row["solutions"]))
        scored = run(score_problem(problem, config, models))
        labels = row["strategies"]
        by_rpd += len({labels[i] for i in select_solutions(np.array(scored.matrix, float), 3)}) == 3
        triples = list(itertools.combinations(labels, 3))
        by_chance += np.mean([len(set(triple)) == 3 for triple in triples])
    assert by_rpd >= 1.5 * by_chance
