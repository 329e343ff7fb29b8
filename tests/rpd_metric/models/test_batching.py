"""Static and continuous batches of a model in this process: the same replies in any batch."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from parts.tiny_models import tiny_model
from rpd_metric.errors import ModelError
from rpd_metric.models.chat import Batching, ChatReply, ChatRequest, Sampling
from rpd_metric.models.continuous_batches import ContinuousBatches
from rpd_metric.models.in_process import InProcessChat, load_in_process

pytest.importorskip("torch")

BOTH: tuple[Batching, ...] = ("static", "continuous")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny", "qwen3")


def load(folder: Path, batching: Batching, batch_size: int = 3) -> InProcessChat:
    return load_in_process(str(folder), device="cpu", batch_size=batch_size, batching=batching)


def ask(chat: InProcessChat, *requests: ChatRequest) -> list[ChatReply]:
    async def together() -> list[ChatReply]:
        return await asyncio.gather(*(chat(one) for one in requests))

    return asyncio.run(together())


def request(text: str, length: int, seed: int | None, temperature: float = 1.0) -> ChatRequest:
    sampling = Sampling(temperature=temperature, top_p=0.9, max_tokens=length, seed=seed)
    return ChatRequest(({"role": "user", "content": text},), sampling)


REQUESTS = [
    request("3 + 4", 12, 1),
    request("What is the sum of 3 and 4, in words?", 30, 1),
    request("3 + 4", 12, 2),
    request("5 + 1", 3, 1),
    request("3 + 4", 12, 1, temperature=0.0),
    request("5 + 1", 30, 3),
    request("What is the sum of 3 and 4, in words?", 30, 4),
]


@pytest.fixture(scope="module")
def alone(folder: Path) -> list[str]:
    """Each request by itself."""
    chat = load(folder, "static")
    return [ask(chat, one)[0].text for one in REQUESTS]


@pytest.mark.parametrize("batching", BOTH)
def test_a_reply_depends_on_its_seed_and_not_on_its_batch(
    folder: Path, alone: list[str], batching: Batching
) -> None:
    chat = load(folder, batching)
    together = ask(chat, *REQUESTS)
    assert [one.text for one in together] == alone
    assert [one.text for one in ask(chat, *reversed(REQUESTS))][::-1] == alone
    assert len(set(alone)) == len(alone)
    for one, reply in zip(REQUESTS, together, strict=True):
        assert reply.completion_tokens is not None
        at_most = one.sampling.max_tokens
        assert reply.completion_tokens <= at_most
        assert (reply.finish_reason == "stop") or reply.completion_tokens == at_most


@pytest.mark.parametrize("batching", BOTH)
def test_without_a_seed_replies_differ(folder: Path, batching: Batching) -> None:
    replies = ask(load(folder, batching), *[request("3 + 4", 20, None)] * 3)
    assert len({one.text for one in replies}) == 3


def waiting() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == "rpd-replies"]


def test_continuous_batching_ends_with_the_last_request_and_starts_again(
    folder: Path, alone: list[str]
) -> None:
    chat = load(folder, "continuous")
    assert chat.max_concurrency == 4

    async def one_gives_up() -> list[ChatReply]:
        flight = [asyncio.ensure_future(chat(one)) for one in REQUESTS]
        await asyncio.sleep(0.05)
        flight[1].cancel()
        return await asyncio.gather(flight[0], *flight[2:])

    replies = asyncio.run(one_gives_up())
    assert [one.text for one in replies] == [alone[0], *alone[2:]]
    deadline = time.monotonic() + 60
    while waiting() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not waiting()
    assert [one.text for one in ask(chat, REQUESTS[2])] == [alone[2]]


def test_caches_that_do_not_fit_the_memory_are_one_clear_error(
    folder: Path, alone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = load(folder, "continuous", batch_size=2)
    batches = chat._batches
    assert isinstance(batches, ContinuousBatches)
    with monkeypatch.context() as patch:
        patch.setattr("rpd_metric.models.continuous_batches.CPU_MEMORY", 1e-7)
        with pytest.raises(ModelError, match="lower batch_size") as caught:
            ask(chat, REQUESTS[0])
        assert "\n" not in str(caught.value)
        # The same where the failure is known before the request is handed over.
        start = ContinuousBatches._start

        def start_and_fail(self: ContinuousBatches) -> object:
            manager = start(self)
            manager.join(time.perf_counter(), timeout=60)
            return manager

        patch.setattr(ContinuousBatches, "_start", start_and_fail)
        with pytest.raises(ModelError, match="lower batch_size"):
            ask(chat, REQUESTS[0])
    assert [one.text for one in ask(chat, REQUESTS[0])] == [alone[0]]
