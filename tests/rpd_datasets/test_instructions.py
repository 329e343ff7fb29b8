"""One module owns the prompts, and every configuration names its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.instructions import PROMPTS, fill_prompt, prompt_template
from rpd_datasets.training.recipe import read_recipe
from rpd_metric.errors import InputError

RECIPES = Path(__file__).parents[2] / "recipes"


def test_a_name_or_a_text_is_a_prompt_and_anything_else_is_refused():
    assert prompt_template("box") == PROMPTS["box"]
    assert prompt_template("Q: {problem}") == "Q: {problem}"
    with pytest.raises(InputError, match="one of problem, box"):
        prompt_template("reason_and_boxes")


def test_braces_of_a_problem_stay():
    problem = r"\frac{1}{2} {problem}"
    assert fill_prompt(PROMPTS["box"], problem).startswith(problem)


def test_every_benchmark_has_a_prompt():
    assert {benchmark.prompt for benchmark in BENCHMARKS.values()} <= PROMPTS.keys()


@pytest.mark.parametrize(
    "file",
    sorted([*RECIPES.glob("configs/*/*/*.yaml"), *RECIPES.glob("configs/tiny/*.yaml")]),
    ids=lambda file: str(file.relative_to(RECIPES / "configs")),
)
def test_every_configuration_names_its_prompt(file: Path):
    assert read_recipe(file)["prompt"] in PROMPTS
