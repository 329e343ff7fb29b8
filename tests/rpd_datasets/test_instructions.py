"""One module owns the prompts, and every configuration names its own."""

import pytest

from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.instructions import PROMPTS, prompt_template
from rpd_metric.errors import InputError


def test_a_name_or_a_text_is_a_prompt_and_anything_else_is_refused():
    assert prompt_template("box") == PROMPTS["box"]
    assert prompt_template("Q: {problem}") == "Q: {problem}"
    with pytest.raises(InputError, match="one of problem, box"):
        prompt_template("reason_and_boxes")


def test_every_benchmark_has_a_prompt():
    assert {benchmark.prompt for benchmark in BENCHMARKS.values()} <= PROMPTS.keys()
