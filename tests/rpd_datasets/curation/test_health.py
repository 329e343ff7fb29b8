"""The health line of a chat model's summaries: counted, warned about, and in every output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpd_datasets import CurationConfig
from rpd_datasets.curation.health import SummaryHealth, health_line, health_warning
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scoring import Scored
from rpd_datasets.curation.curated import curate_dataset
from rpd_datasets.rejects import Rejected
from rpd_datasets.tokens import token_counter
from rpd_metric.errors import InputError
from rpd_metric.models.chat import ChatReply
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import load_embedder
from rpd_metric.steps.chat_summarizer import ChatSummarizer


def scored(*steps: list[str], refused: int = 0, reason: str = "truncated") -> Scored:
    rejects = [
        Rejected(
            where="row 1",
            stage="steps",
            reason=reason,
            detail=f"detail {number}",
            problem="p",
            solution_index=number,
        )
        for number in range(refused)
    ]
    return Scored(list(steps), [], None, [], [], rejects)


def health_of(*problems: Scored) -> dict:
    health = SummaryHealth()
    for problem in problems:
        health.add(problem)
    return health.as_dict()


def test_under_eighty_percent_accepted_the_summarizer_is_not_fit_with_two_examples() -> None:
    good = [["Factor.", "Solve."]] * 8
    assert health_warning(health_of(scored(*good, refused=2))) is None
    warning = health_warning(health_of(scored(*good, refused=3)))
    assert warning is not None
    assert "not fit" in warning
    assert "8 of 11" in warning
    assert warning.count("detail") == 2


def test_steps_shared_by_different_problems_are_warned_about() -> None:
    same, own = [["Read the problem."]], [[["Add."]], [["Subtract."]], [["Divide."]]]
    few = health_of(*(scored(*steps) for steps in own), scored(["Multiply."], ["Add twice."]))
    assert health_warning(few) is None
    many = health_of(scored(*same), scored(*same), *(scored(*steps) for steps in own))
    assert many["problems_sharing_steps"] == 2
    assert "2 of 5 problems have a step word for word in common" in (health_warning(many) or "")


def test_what_is_remembered_of_the_steps_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr("rpd_datasets.curation.health.REMEMBERED", 100)
    health = SummaryHealth()
    for number in range(2000):
        health.add(scored([f"Step {number}."]))
    assert len(health._first_in) <= 100
    assert health.as_dict()["distinct_steps"] > 0.9


def test_card_manifest_and_terminal_carry_the_health_of_a_run(tmp_path: Path) -> None:
    class Small:
        """Gives every second solution the same step three times, at every attempt."""

        model = "small"

        async def __call__(self, request):
            text = request.messages[1]["content"]
            words = sorted(set(text.split()), key=lambda word: (-len(word), word))[:9]
            steps = [" ".join(words[at : at + 3]) for at in (0, 3, 6)]
            if len(text) % 2:
                steps = [steps[0]] * 3
            return ChatReply(json.dumps({"logical_steps": steps}), "stop")

    config = CurationConfig(summarizer="openai:http://unused/v1#small", num_problems=2)
    models = Models(
        ChatSummarizer(Flow(Small())), load_embedder("minilm"), token_counter("estimate")
    )
    curated = curate_dataset("sample", tmp_path / "out", config, models=models)
    found = json.loads((tmp_path / "out" / "manifest.json").read_text())["outcome"]["steps"]
    summaries = found["summaries"]
    assert summaries["asked"] == summaries["accepted"] + sum(summaries["rejected"].values())
    assert summaries["rejected"].keys() == {"repeated_steps"}
    assert summaries["asked_again"] == summaries["rejected"]["repeated_steps"] > 10
    card = str(curated.card)
    assert health_line(summaries) in card
    assert "not fit" in card


def test_a_run_in_which_nothing_can_be_chosen_names_the_summarizer(tmp_path: Path) -> None:
    class Mute:
        model = "mute"

        async def __call__(self, request):
            return ChatReply("I cannot.", "stop")

    config = CurationConfig(summarizer="openai:http://unused/v1#mute", num_problems=2)
    models = Models(
        ChatSummarizer(Flow(Mute())), load_embedder("minilm"), token_counter("estimate")
    )
    with pytest.raises(InputError) as caught:
        curate_dataset("sample", tmp_path / "out", config, models=models)
    said = str(caught.value)
    assert "Summaries: 0 of " in said
    assert "asked again, 0 of them repaired" in said
    assert "Take another model: this summarizer is not fit" in said
    assert "loosen the filters" not in said
