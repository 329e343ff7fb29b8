"""The configuration: which distance `auto` stands for, and that presets stay the paper's."""

from __future__ import annotations

import pytest

from rpd_datasets.config import CurationConfig
from rpd_datasets.presets import PRESETS, preset_config


@pytest.mark.parametrize(
    ("summarizer", "distance"), [("extractive", "pieces"), ("tgi:http://localhost:1", "combined")]
)
def test_auto_is_the_distance_that_sees_strategy_best_with_this_summarizer(summarizer, distance):
    config = CurationConfig(summarizer=summarizer, problems="auto", solutions="auto")
    assert (config.problems, config.solutions) == (distance, distance)
    assert config.as_dict()["problems"] == distance
    assert set(config.metrics) == {distance, "rpd"}


def test_pieces_asks_no_chat_model_for_steps_that_it_does_not_read():
    assert CurationConfig(problems="pieces", solutions="pieces").reads_steps
    chat = {"summarizer": "tgi:http://localhost:1"}
    assert not CurationConfig(problems="pieces", solutions="pieces", **chat).reads_steps


def test_the_papers_set_up_and_its_presets_use_the_papers_distances():
    paper = CurationConfig.paper("tgi:http://localhost:1", "tei:http://localhost:2")
    assert (paper.problems, paper.solutions) == ("rpd", "rpd")
    for name, preset in PRESETS.items():
        models = {"summarizer": "extractive", "embedder": "minilm", "judge": "tgi:http://a:1"}
        config = preset_config(name, **models)
        assert {config.problems, config.solutions}.isdisjoint({"auto", "pieces", "combined"})
        assert config.problems == preset.problems
