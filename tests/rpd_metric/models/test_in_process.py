"""Chat models in this process, with SmolLM2-135M-Instruct."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parts.smollm2 import missing, smollm2
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest, Sampling
from rpd_metric.models.in_process import InProcessChat, encode_prompt
from rpd_metric.models.spec import load_chat

CPU = ChatOptions(device="cpu")
GREEDY = Sampling(temperature=0.0, max_tokens=40)


@pytest.fixture
def chat() -> InProcessChat:
    if lacking := missing():
        pytest.skip(f"SmolLM2 {lacking}")
    chat = load_chat(f"hf:{smollm2()}", CPU)
    assert isinstance(chat, InProcessChat)
    return chat


def ask(chat: Any, *requests: ChatRequest) -> list[ChatReply]:
    async def together() -> list[ChatReply]:
        return await asyncio.gather(*(chat(one) for one in requests))

    return asyncio.run(together())


def request(text: str = "Say hello.", sampling: Sampling = GREEDY) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": text},), sampling)


@pytest.mark.slow
def test_a_reply_ends_by_itself_or_at_its_limit(chat: InProcessChat) -> None:
    whole, cut = ask(chat, request(), request(sampling=replace(GREEDY, max_tokens=4)))
    assert whole.finish_reason == "stop"
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 4)
    assert whole.text.startswith(cut.text)


@pytest.mark.slow
def test_thinking_is_off_unless_asked_for(chat: InProcessChat, monkeypatch) -> None:
    template = "{{ messages[0].content }}{% if not enable_thinking %}<think></think>{% endif %}"
    monkeypatch.setattr(chat._tokenizer, "chat_template", template)
    for thinking in (False, True):
        asked = request(sampling=Sampling(thinking=thinking))
        prompt = chat._tokenizer.decode(encode_prompt(chat._tokenizer, asked, "m", None))
        assert prompt.endswith("<think></think>") != thinking


def wild(seed: int | None) -> Sampling:
    return Sampling(temperature=3.0, top_p=1.0, max_tokens=12, seed=seed)


@pytest.mark.slow
def test_a_reply_is_drawn_by_its_seed_whatever_else_is_asked(chat: InProcessChat) -> None:
    (alone,) = ask(chat, request(sampling=wild(11)))
    among = ask(chat, *(request(sampling=wild(seed)) for seed in (12, 11, 13)))
    assert among[1].text == alone.text
    assert len({one.text for one in among}) == 3
    unseeded = ask(chat, *[request(sampling=wild(None))] * 3)
    assert len({one.text for one in unseeded}) == 3


@pytest.mark.slow
def test_drawing_leaves_the_random_numbers_of_others_alone(chat: InProcessChat) -> None:
    import torch

    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    ask(chat, request(sampling=wild(11)))
    assert torch.rand(1) == expected


@pytest.mark.slow
def test_a_reply_that_nobody_waits_for_is_not_written_to_its_end(
    chat: InProcessChat, monkeypatch
) -> None:
    monkeypatch.setattr(chat, "_ends", [])
    long = Sampling(temperature=5.0, top_p=1.0, max_tokens=7000, seed=1)

    async def give_up() -> None:
        await asyncio.wait_for(chat(request(sampling=long)), 0.5)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    before = time.process_time()
    assert ask(chat, request(sampling=replace(GREEDY, max_tokens=4)))[0].completion_tokens == 4
    assert time.process_time() - before < 20, "some 7000 tokens would take minutes"


@pytest.mark.slow
def test_a_reply_ends_at_a_token_that_is_given(chat: InProcessChat) -> None:
    whole = ask(chat, request())[0].text
    ids = chat._tokenizer(whole, add_special_tokens=False)["input_ids"]
    stop = chat._tokenizer.decode(ids[5:6])
    found = ask(chat, replace(request(), stop=(stop,)))[0]
    assert found.finish_reason == "stop"
    assert found.text == whole.partition(stop)[0]
    with pytest.raises(ModelError, match=r"tokens of .*, which stops at single tokens"):
        ask(chat, replace(request(), stop=("not one token, but several",)))


@pytest.mark.slow
def test_a_prompt_beyond_the_context_is_refused_with_both_lengths(chat: InProcessChat) -> None:
    with pytest.raises(ModelError, match=r"and 40 new ones do not fit the 8192"):
        ask(chat, request("x = 1. " * 6000))


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot load the chat model") as caught:
        load_chat(f"hf:{tmp_path / 'nothing'}", CPU)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_model_without_a_chat_template_is_refused(chat: InProcessChat, tmp_path: Path) -> None:
    for file in Path(chat.model).iterdir():
        if file.name not in ("chat_template.jinja", "tokenizer_config.json"):
            (tmp_path / file.name).symlink_to(file)
    with pytest.raises(ModelError, match="has no chat template"):
        load_chat(f"hf:{tmp_path}", CPU)
