"""Chat models in this process, with a tiny Qwen3 that was trained for these tests."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from parts.tiny_qwen import SHORT_PROMPT, STRATEGIES, solution, steps_json, tiny_qwen
from rpd_metric.errors import InputError, ModelError, SpecError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest, Sampling
from rpd_metric.models.in_process import InProcessChat, load_in_process
from rpd_metric.models.kinds import load_chat
from rpd_metric.models.static_batches import StaticBatches

CPU = ChatOptions(device="cpu")
GREEDY = Sampling(temperature=0.0, max_tokens=200)


@pytest.fixture(scope="module")
def folder() -> Path:
    return tiny_qwen()


@pytest.fixture
def chat(folder: Path) -> InProcessChat:
    return load_in_process(str(folder), device="cpu", batch_size=4)


def ask(chat: Any, *requests: ChatRequest) -> list[ChatReply]:
    async def together() -> list[ChatReply]:
        return await asyncio.gather(*(chat(one) for one in requests))

    return asyncio.run(together())


def request(strategy: str, sampling: Sampling = GREEDY, *, seed: int = 0) -> ChatRequest:
    text = SHORT_PROMPT.replace("{{problem}}", "Find x.")
    text = text.replace("{{solution}}", solution(strategy, random.Random(seed), 40))
    return ChatRequest(({"role": "user", "content": text},), sampling)


@pytest.mark.slow
def test_the_replies_to_a_batch_are_those_to_its_requests_one_by_one(chat: InProcessChat) -> None:
    requests = [request(name) for name in STRATEGIES]
    together = ask(chat, *requests)
    alone = [ask(chat, one)[0] for one in requests]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.prompt_tokens for one in together] == [one.prompt_tokens for one in alone]
    right = [one.text == steps_json(name) for one, name in zip(together, STRATEGIES, strict=True)]
    assert sum(right) >= 4, "it reads the solution: guessing would give one in eight"
    assert all(one.finish_reason == "stop" for one in together)


@pytest.mark.slow
def test_requests_in_flight_together_share_batches_of_the_size_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = load_in_process(str(folder), device="cpu", batch_size=3)
    sizes: list[int] = []
    batches = chat._batches
    assert isinstance(batches, StaticBatches)
    generate = batches._generate

    def counting(prompts: list[list[int]], keys: list[int], sampling: Sampling) -> list[list[int]]:
        sizes.append(len(prompts))
        return generate(prompts, keys, sampling)

    monkeypatch.setattr(batches, "_generate", counting)
    ask(chat, *(request("induction", seed=seed) for seed in range(10)))
    assert sum(sizes) == 10
    assert sizes.count(3) == 3


@pytest.mark.slow
def test_requests_with_other_sampling_do_not_share_a_batch(chat: InProcessChat) -> None:
    short = Sampling(temperature=0.0, max_tokens=4)
    whole, cut = ask(chat, request("residues"), request("residues", short))
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 4)
    assert whole.finish_reason == "stop"
    assert whole.text.startswith(cut.text)
    json.loads(whole.text)


@pytest.mark.slow
def test_thinking_is_off_unless_asked_for(chat: InProcessChat) -> None:
    aloud = Sampling(temperature=0.0, max_tokens=200, thinking=True)
    quiet, thought = ask(chat, request("induction"), request("induction", aloud))
    assert "think" not in quiet.text
    assert thought.text.startswith("<think>")


@pytest.mark.slow
def test_sampling_with_a_seed_repeats_itself(chat: InProcessChat) -> None:
    wild = Sampling(temperature=3.0, top_p=1.0, max_tokens=30, seed=11)
    other = Sampling(temperature=3.0, top_p=1.0, max_tokens=30, seed=12)
    first, second = ask(chat, request("induction", wild)), ask(chat, request("induction", wild))
    assert first[0].text == second[0].text
    assert ask(chat, request("induction", other))[0].text != first[0].text


@pytest.mark.slow
def test_a_caller_who_gives_up_does_not_take_the_batch_along(chat: InProcessChat) -> None:
    async def one_of_three() -> list[ChatReply]:
        flight = [asyncio.ensure_future(chat(request("recursion", seed=seed))) for seed in range(3)]
        await asyncio.sleep(0)
        flight[0].cancel()
        return await asyncio.gather(*flight[1:])

    assert [one.finish_reason for one in asyncio.run(one_of_three())] == ["stop", "stop"]


@pytest.mark.slow
def test_a_prompt_beyond_the_context_is_refused_with_both_lengths(chat: InProcessChat) -> None:
    long = ChatRequest(({"role": "user", "content": "x = 1. " * 6000},), GREEDY)
    with pytest.raises(ModelError, match=r"and 200 new ones do not fit the 8192"):
        ask(chat, long)
    assert ask(chat, request("induction"))[0].finish_reason == "stop"


@pytest.mark.slow
def test_the_same_spec_is_loaded_once(folder: Path) -> None:
    chat = load_chat(f"hf:{folder}", CPU)
    assert isinstance(chat, InProcessChat)
    assert load_chat(f"hf:{folder}", CPU) is chat
    assert chat.model == str(folder)
    assert chat.max_concurrency == 16


@pytest.mark.slow
def test_four_bit_weights_answer_in_the_wanted_form_and_carry_their_own_name(folder: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="4-bit weights need bitsandbytes (extra 'local')")
    chat = load_chat(f"hf:{folder}?4bit", CPU)
    assert isinstance(chat, InProcessChat)
    assert chat.model == f"{folder}?4bit"
    kinds = {type(module).__name__ for module in chat._model.modules()}
    assert "Linear4bit" in kinds
    (reply,) = ask(chat, request("induction"))
    assert reply.text.startswith('{"logical_steps":')


def test_an_option_that_is_not_known_is_refused() -> None:
    with pytest.raises(SpecError, match=r"write hf:some/model\?4bit"):
        load_chat("hf:some/model?8bit")


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the chat model") as caught:
        load_chat(f"hf:{tmp_path / 'nothing'}", CPU)
    assert "\n" not in str(caught.value)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size is 0"):
        load_chat("hf:some/model", ChatOptions(batch_size=0))


@pytest.mark.slow
def test_a_model_without_a_chat_template_is_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.name != "chat_template.jinja":
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(ModelError, match="has no chat template"):
        load_chat(f"hf:{tmp_path}", CPU)
