"""The configuration: what `auto` and a budget mean, and that presets stay the paper's."""

import subprocess
import sys
from dataclasses import replace

import pytest
from datasets.fingerprint import Hasher

from rpd_datasets import curate_dataset
from rpd_datasets.config import PROBLEM_CHOICES, CurationConfig
from rpd_datasets.judging.metric_comparison import compare_metrics
from rpd_datasets.presets import PRESETS
from rpd_datasets.training.recipe import ReinforcementOptions
from rpd_metric.errors import InputError
from rpd_metric.models.static import default_embedder

CHAT = "tgi:http://localhost:1"


@pytest.mark.parametrize(
    ("options", "choice", "distance"),
    [
        ({"embedder": "minilm"}, "taught", "taught"),
        ({"embedder": "static"}, "pieces", "pieces"),
        ({"summarizer": CHAT}, "groups", "strategy"),
        ({"summarizer": CHAT, "selection": "exact"}, "strategy", "strategy"),
    ],
)
def test_auto_is_what_sees_strategy_best_with_this_summarizer(options, choice, distance):
    config = CurationConfig(**options)
    assert (config.problems, config.solutions) == (choice, choice)
    assert set(config.metrics) == {distance, "rpd"}
    assert config.asks_groups == (choice == "groups")
    assert replace(config, seed=1).solutions == choice


def test_an_unknown_option_is_an_error_that_names_the_nearest():
    with pytest.raises(InputError, match=r"has no option 'num_solution'; .*'num_solutions'"):
        CurationConfig(num_solution=3)
    with pytest.raises(InputError, match=r"'solution_column'; set Columns\(solution=\.\.\.\)"):
        curate_dataset("sample", "out", solution_column="answer")
    with pytest.raises(InputError, match=r"'num_problems'; set CurationConfig\(num_problems="):
        curate_dataset("sample", "out", num_problems=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": "groups"}, "name one with summarizer"),
        ({"summarizer": CHAT, "solutions": "groups", "selection": "exact"}, "use maxmin or maxavg"),
        ({"solutions": "random", "quality_column": "score"}, "traded off against a distance"),
    ],
)
def test_groups_take_a_chat_model_and_a_choice_one_by_one(options, message):
    with pytest.raises(InputError, match=message):
        CurationConfig(**options)


def test_a_budget_decides_numbers_and_leaves_no_room_for_others():
    config = CurationConfig(num_samples=7)
    assert (config.num_problems, config.num_solutions, config.problems) == (7, 1, "random")
    assert replace(config, seed=1) == CurationConfig(num_samples=7, seed=1)
    for other in ({"num_solutions": 100}, {"problems": "rpd"}, {"quality_column": "q"}):
        (name,) = other
        with pytest.raises(InputError, match=f"cannot be combined with {name}:"):
            CurationConfig(num_samples=7, **other)
    with pytest.raises(InputError, match="cannot be combined with solutions"):
        CurationConfig(num_samples=7, solutions="random")


def test_what_may_choose_is_known_without_a_look_at_installed_packages():
    code = (
        "import importlib.metadata as found\n"
        "def entry_points(**_): raise AssertionError('looked through installed packages')\n"
        "found.entry_points = entry_points\n"
        "from rpd_datasets.cli import command_line\n"
        "commands = command_line().commands\n"
        "commands['compare-metrics'].parse_args(['sample', '--methods', 'rpd', 'raw'])\n"
        "commands['plan'].parse_args(['sample', '--problems', 'rpd'])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"rpd", "pieces", "auto", "llm"} <= set(PROBLEM_CHOICES)
    assert {"rpd_first", "all", "nonsense"}.isdisjoint(PROBLEM_CHOICES)
    with pytest.raises(InputError, match=r"unknown choice of problems 'nonsense'; use one of rpd,"):
        CurationConfig(problems="nonsense")


@pytest.mark.parametrize("by", ["pieces", "taught"])
def test_no_chat_model_is_asked_for_steps_that_the_distance_does_not_read(by):
    assert CurationConfig(problems=by, solutions=by).reads_steps
    assert not CurationConfig(problems=by, solutions=by, summarizer=CHAT).reads_steps


def test_the_papers_set_up_and_its_presets_use_the_papers_distances():
    paper = CurationConfig.paper(CHAT, "openai:http://localhost:2/v1", num_problems=5)
    assert (paper.problems, paper.solutions, paper.num_problems) == ("rpd", "rpd", 5)
    for preset in PRESETS.values():
        models = {"summarizer": "extractive", "embedder": "minilm", "judge": CHAT}
        config = CurationConfig(**preset.settings, filters=preset.filters, **models)
        assert {config.problems, config.solutions}.isdisjoint({"auto", "pieces", "groups"})
        assert config.problems == preset.problems


def test_every_part_encodes_by_default_with_one_embedder():
    assert CurationConfig().embedder == ReinforcementOptions().embedder == default_embedder()
    rows = [{"solutions": ["a", "b"], "steps": [["Add."], ["Count."]], "strategies": [0, 1]}]
    assert compare_metrics(rows, methods=["raw"]).embedder == default_embedder()


def test_datasets_knows_a_configuration_again_after_its_use():
    config = CurationConfig(problems="rpd", solutions="pieces")
    before = Hasher.hash(config)
    assert config.metrics.keys() == {"rpd", "pieces"}
    assert (
        Hasher.hash(config)
        == before
        == Hasher.hash(CurationConfig(problems="rpd", solutions="pieces"))
    )
