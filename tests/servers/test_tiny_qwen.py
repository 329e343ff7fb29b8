"""A real server with a real, if tiny, model: what the clients, a run and a judge make of it.

`transformers serve` takes its time to start and the model to be trained, so whatever needs both
is here and shares them. The model knows the project's own prompts (`parts/tiny_qwen.py`).
"""

from __future__ import annotations

import asyncio
import json
import random

import datasets
import pytest

from parts.tiny_qwen import STRATEGIES, envelope, solution, steps_json, tiny_qwen
from parts.transformers_serve import transformers_serve
from rpd_datasets.cli import main
from rpd_datasets.curation.models import load_flow
from rpd_datasets.judging.judges import PairJudge
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import ServerError
from rpd_metric.models.kinds import load_chat
from rpd_metric.steps.chat_summarizer import ChatSummarizer

pytestmark = pytest.mark.slow
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "boolean"}}}


@pytest.fixture(scope="module")
def url():
    with transformers_serve(tiny_qwen()) as url:
        yield url


@pytest.fixture
def chat(url):
    return load_chat(f"openai:{url}#tiny")


async def ask(chat: Chat, *requests: ChatRequest) -> list[ChatReply]:
    return await asyncio.gather(*(chat(one) for one in requests))


async def test_a_real_server_summarises_in_the_wanted_form(chat):
    rng = random.Random(7)
    names = list(STRATEGIES)
    texts = [solution(name, rng, 90) for name in names]
    summarizer = ChatSummarizer(chat, sampling=Sampling(temperature=0.0, max_tokens=400))
    found = await summarizer.summarize("Find the number of ways.", texts)
    right = [
        one.ok and list(one.steps) == STRATEGIES[name][1]
        for one, name in zip(found, names, strict=True)
    ]
    assert sum(one.ok for one in found) >= 6, [one.reason for one in found]
    assert sum(right) >= 4, [one.steps[:1] for one in found]


async def test_a_real_server_thinks_only_when_it_may(chat):
    text = ChatSummarizer(chat).request("Find x.", solution("induction", random.Random(1)))
    assert text is not None
    quiet, aloud = await ask(
        chat,
        ChatRequest(text.messages, Sampling(temperature=0, max_tokens=300)),
        ChatRequest(text.messages, Sampling(temperature=0, max_tokens=300, thinking=True)),
    )
    assert quiet.text in {envelope(name) for name in STRATEGIES}
    assert quiet.completion_tokens is not None
    assert aloud.completion_tokens is not None
    assert aloud.completion_tokens > quiet.completion_tokens


async def test_a_real_server_cuts_at_the_limit_and_ignores_a_schema(chat):
    summarizer = ChatSummarizer(chat, template="summarize_json", schema=SCHEMA)
    one = summarizer.request("Find x.", solution("induction", random.Random(2)))
    assert one is not None
    cut, whole = await ask(
        chat,
        ChatRequest(one.messages, Sampling(temperature=0, max_tokens=5), SCHEMA),
        ChatRequest(one.messages, Sampling(temperature=0, max_tokens=300), SCHEMA),
    )
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 5)
    assert whole.finish_reason == "stop"
    assert whole.text in {steps_json(name) for name in STRATEGIES}
    assert whole.text.startswith(cut.text)


async def test_a_real_server_refuses_a_name_that_it_does_not_serve(url):
    with pytest.raises(ServerError) as caught:
        await ask(
            load_chat(f"openai:{url}#other"), ChatRequest(({"role": "user", "content": "Hi"},))
        )
    error = caught.value
    assert (error.status, error.retryable) == (400, False)
    assert "pinned to 'tiny'" in str(error)


def test_a_run_summarises_the_sample(url, tmp_path, capsys):
    arguments = ["curate", "sample", "--summarizer", f"openai:{url}#tiny", "--embedder"]
    arguments += ["minilm", "--num-problems", "5", "--num-solutions", "2", "--json"]
    # The distance that reads steps alone: the others would have every text encoded as well.
    arguments += ["--problems", "rpd", "--solutions", "rpd"]
    arguments += ["--store", str(tmp_path / "r.sqlite"), "--output", str(tmp_path / "out")]
    assert main(arguments) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts["solutions_read"] == 162
    assert counts["solutions_usable"] > 150
    curated = datasets.load_dataset(str(tmp_path / "out"), split="train")
    assert all(3 <= len(steps) <= 5 for row in curated["steps"][:] for steps in row if steps)


async def test_a_judge_gives_verdicts_that_can_be_read(url, tmp_path):
    strategies = list(STRATEGIES)
    judge = PairJudge(load_flow(f"openai:{url}#tiny", str(tmp_path / "replies.sqlite")))
    found = await asyncio.gather(
        *(
            judge.rate(f"Find {n}.", (STRATEGIES[a][1], STRATEGIES[strategies[(n * 3) % 8]][1]))
            for n, a in enumerate(strategies)
        )
    )
    # A contradiction is two verdicts that were read.
    read = [one for one in found if one.value is not None or one.reason == "contradiction"]
    assert len(read) >= 6
