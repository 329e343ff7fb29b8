"""Several servers with one model: fair shares, and none that is down holds up the run."""

from __future__ import annotations

import asyncio

import pytest

from parts.embedding_server import embedding_server
from parts.fake_tgi import FakeTGI
from parts.openai_embeddings import FakeTEI, OpenAIEmbeddings
from rpd_metric.errors import SpecError
from rpd_metric.models.balance import Balance
from rpd_metric.models.chat import ChatRequest
from rpd_metric.models.failures import ServerError
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import chat_spec, load_chat, load_embedder
from rpd_metric.models.retry import RequestRules, Retries
from rpd_metric.models.store import ReplyStore


def requests(count: int) -> list[ChatRequest]:
    return [ChatRequest(({"role": "user", "content": f"Question {n}"},)) for n in range(count)]


async def ask_all(flow: Flow, count: int) -> None:
    await asyncio.gather(*(flow(request) for request in requests(count)))
    await flow.chat.aclose()


def slow(**info) -> FakeTGI:
    return FakeTGI(seconds=0.02, info=info)


def test_two_servers_get_about_half_of_the_requests_each():
    with slow(max_concurrent_requests=4) as a, slow(max_concurrent_requests=4) as b:
        flow = Flow(load_chat(f"tgi:{a.url},{b.url}"))
        asyncio.run(ask_all(flow, 100))
        assert 40 <= len(a.requests) <= 60
        assert len(a.requests) + len(b.requests) == 100
        assert flow.stats.trouble == {}


def test_a_server_with_more_places_gets_more():
    with slow(max_concurrent_requests=9) as large, slow(max_concurrent_requests=3) as small:
        flow = Flow(load_chat(f"tgi:{small.url},{large.url}"))
        assert flow.max_concurrency == 12
        asyncio.run(ask_all(flow, 120))
        assert 2 <= len(large.requests) / len(small.requests) <= 4
        assert small.overloaded == large.overloaded == 0


def test_when_one_server_dies_the_other_finishes_and_every_request_is_answered():
    with slow(max_concurrent_requests=4) as a, slow(max_concurrent_requests=4) as b:
        flow = Flow(
            load_chat(f"tgi:{a.url},{b.url}"),
            rules=RequestRules(retries=Retries(first=0.01, longest=0.05)),
        )

        async def run() -> None:
            asking = asyncio.create_task(ask_all(flow, 60))
            while len(b.requests) < 10:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(b.stop)
            await asking

        asyncio.run(run())
        assert flow.stats.done == 60
        assert flow.stats.failed == 0
        # Those in flight, and a few that found out whether it is back.
        assert 1 <= flow.stats.trouble["connection"] <= 10


def test_a_reply_is_found_in_the_store_whichever_servers_are_named(tmp_path):
    with ReplyStore(tmp_path / "replies.sqlite") as store, slow() as a, slow() as b:
        asyncio.run(ask_all(Flow(load_chat(f"tgi:{a.url},{b.url}"), store=store), 10))
        sent = len(a.requests) + len(b.requests)
        again = Flow(load_chat(f"tgi:{b.url}"), store=store)
        asyncio.run(ask_all(again, 10))
        assert again.stats.cached == 10
        assert len(a.requests) + len(b.requests) == sent == 10


def test_a_flow_that_shares_a_server_takes_its_part_of_the_places():
    with slow(max_concurrent_requests=8) as server:
        flow = Flow(load_chat(f"tgi:{server.url}"))
        flow.share(4)
        asyncio.run(ask_all(flow, 20))
        assert server.most_in_flight == 2


def test_servers_with_different_models_are_refused():
    with slow() as a, slow(model_id="other/model") as b, pytest.raises(SpecError) as error:
        load_chat(f"tgi:{a.url},{b.url}")
    assert "must serve the same model; these serve Qwen/Qwen3-14B, other/model" in str(error.value)


def test_a_model_named_once_is_asked_for_everywhere():
    spec = chat_spec("openai:https://a/v1, http://b:1/v1#m")
    assert [(one.url, one.model) for one in spec.addresses("UNSET")] == [
        ("https://a/v1", "m"),
        ("http://b:1/v1", "m"),
    ]


def test_embedding_servers_share_the_texts_and_one_that_dies_is_replaced():
    texts = [f"Step number {n}." for n in range(64)]
    expected = load_embedder("minilm").encode(texts)
    with OpenAIEmbeddings(max_batch=4) as a, OpenAIEmbeddings(max_batch=4) as b:
        server = embedding_server(f"openai:{a.url}/v1,{b.url}/v1#minilm", batch_size=4)
        assert server.encode(texts) == pytest.approx(expected, abs=1e-5)
        assert min(len(a.requests), len(b.requests)) >= 4
        b.stop()
        assert server.encode(texts) == pytest.approx(expected, abs=1e-5)
    with FakeTEI() as a, FakeTEI() as b:
        assert (
            embedding_server(f"tei:{a.url},{b.url}").name == embedding_server(f"tei:{a.url}").name
        )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fail(balance: Balance[str]) -> str:
    with pytest.raises(ServerError), balance.turn() as name:
        raise ServerError("no reply", kind="connection")
    return name


def ask(balance: Balance[str]) -> str:
    with balance.turn() as name:
        return name


def test_a_server_that_fails_rests_longer_each_time_and_is_tried_with_one_request():
    clock = Clock()
    balance = Balance(["a", "b"], clock=clock, random=lambda: 0.5)
    assert fail(balance) == "a"
    assert [ask(balance) for _ in range(3)] == ["b"] * 3
    clock.now = 1.5
    with balance.turn() as first, balance.turn() as second:
        assert (first, second) == ("a", "b")
        with balance.turn() as third:
            assert third == "b", "the other request has not come back yet"
    assert fail(balance) == "a"  # well again, so a first failure
    clock.now = 2.6
    assert fail(balance) == "a"
    clock.now = 4.0
    assert ask(balance) == "b", "the second rest is longer than the first"


def test_with_every_server_down_requests_still_go_out_so_that_somebody_notices():
    balance = Balance(["a", "b"], clock=Clock(), random=lambda: 0.5)
    assert {fail(balance), fail(balance)} == {"a", "b"}
    assert fail(balance) in ("a", "b")
