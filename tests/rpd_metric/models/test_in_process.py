"""Chat models in this process, with a tiny Qwen3 that was trained for these tests."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parts.tiny_qwen import SHORT_PROMPT, STRATEGIES, solution, steps_json, tiny_qwen
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest, Sampling
from rpd_metric.models.in_process import InProcessChat
from rpd_metric.models.kinds import load_chat

CPU = ChatOptions(device="cpu")
GREEDY = Sampling(temperature=0.0, max_tokens=200)


@pytest.fixture(scope="module")
def folder() -> Path:
    return tiny_qwen()


@pytest.fixture
def chat(folder: Path) -> InProcessChat:
    chat = load_chat(f"hf:{folder}", CPU)
    assert isinstance(chat, InProcessChat)
    return chat


def ask(chat: Any, *requests: ChatRequest) -> list[ChatReply]:
    async def together() -> list[ChatReply]:
        return await asyncio.gather(*(chat(one) for one in requests))

    return asyncio.run(together())


def request(strategy: str, sampling: Sampling = GREEDY, *, seed: int = 0) -> ChatRequest:
    text = SHORT_PROMPT.replace("{{problem}}", "Find x.")
    text = text.replace("{{solution}}", solution(strategy, random.Random(seed), 40))
    return ChatRequest(({"role": "user", "content": text},), sampling)


@pytest.mark.slow
def test_it_reads_the_solution_and_ends_its_reply(chat: InProcessChat) -> None:
    replies = ask(chat, *(request(name) for name in STRATEGIES))
    right = [one.text == steps_json(name) for one, name in zip(replies, STRATEGIES, strict=True)]
    assert sum(right) >= 4, "guessing would give one in eight"
    assert all(one.finish_reason == "stop" for one in replies)
    short = Sampling(temperature=0.0, max_tokens=4)
    whole, cut = ask(chat, request("residues"), request("residues", short))
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 4)
    assert whole.text.startswith(cut.text)
    json.loads(whole.text)


@pytest.mark.slow
def test_thinking_is_off_unless_asked_for(chat: InProcessChat) -> None:
    aloud = Sampling(temperature=0.0, max_tokens=200, thinking=True)
    quiet, thought = ask(chat, request("induction"), request("induction", aloud))
    assert "think" not in quiet.text
    assert thought.text.startswith("<think>")


def wild(seed: int | None) -> Sampling:
    return Sampling(temperature=3.0, top_p=1.0, max_tokens=30, seed=seed)


@pytest.mark.slow
def test_a_reply_is_drawn_by_its_seed_whatever_else_is_asked(chat: InProcessChat) -> None:
    (alone,) = ask(chat, request("induction", wild(11)))
    among = ask(chat, *(request("induction", wild(seed)) for seed in (12, 11, 13)))
    assert among[1].text == alone.text
    assert len({one.text for one in among}) == 3
    unseeded = ask(chat, *[request("induction", wild(None))] * 3)
    assert len({one.text for one in unseeded}) == 3


@pytest.mark.slow
def test_drawing_leaves_the_random_numbers_of_others_alone(chat: InProcessChat) -> None:
    import torch

    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    ask(chat, request("induction", wild(11)))
    assert torch.rand(1) == expected


@pytest.mark.slow
def test_a_reply_that_nobody_waits_for_is_not_written_to_its_end(chat: InProcessChat) -> None:
    long = Sampling(temperature=5.0, top_p=1.0, max_tokens=7000, seed=1)

    async def give_up() -> None:
        await asyncio.wait_for(chat(request("recursion", long)), 0.5)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    before = time.process_time()
    assert ask(chat, request("recursion"))[0].finish_reason == "stop"
    assert time.process_time() - before < 20, "some 7000 tokens would take minutes"


@pytest.mark.slow
def test_a_reply_ends_at_a_token_that_is_given(chat: InProcessChat) -> None:
    asked = request("recursion")
    whole = ask(chat, asked)[0].text
    ids = chat._tokenizer(whole, add_special_tokens=False)["input_ids"]
    stop = chat._tokenizer.decode(ids[5:6])
    found = ask(chat, replace(asked, stop=(stop,)))[0]
    assert found.finish_reason == "stop"
    assert found.text == whole.partition(stop)[0]
    with pytest.raises(ModelError, match=r"tokens of .*, which stops at single tokens"):
        ask(chat, replace(asked, stop=("not one token, but several",)))


@pytest.mark.slow
def test_a_prompt_beyond_the_context_is_refused_with_both_lengths(chat: InProcessChat) -> None:
    long = ChatRequest(({"role": "user", "content": "x = 1. " * 6000},), GREEDY)
    with pytest.raises(ModelError, match=r"and 200 new ones do not fit the 8192"):
        ask(chat, long)


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the chat model") as caught:
        load_chat(f"hf:{tmp_path / 'nothing'}", CPU)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_model_without_a_chat_template_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(ModelError, match="has no chat template"):
        load_chat(f"hf:{tmp_path}", CPU)
