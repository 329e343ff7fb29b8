"""Chat clients against a fake TGI, a fake hosted API, and a real server with a real model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from parts.fake_tgi import CONTRACT, SUMMARY, FakeTGI, Fault
from parts.http_server import LocalServer
from rpd_metric.errors import RPDError, SpecError
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import ServerError
from rpd_metric.models.flow import Flow
from rpd_metric.models.http import InTurn, PerLoop, read_chat_reply, retry_after
from rpd_metric.models.kinds import load_chat
from rpd_metric.models.spec import Address, parse_address
from rpd_metric.models.store import ReplyStore
from rpd_metric.models.tgi import TGIChat

SECRET = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "boolean"}}}
FORMS = ("tgi", "openai")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def request(text: str = "Summarise.", **sampling: Any) -> ChatRequest:
    return ChatRequest(
        ({"role": "system", "content": "Be brief."}, {"role": "user", "content": text}),
        Sampling(**sampling),
    )


def spec(form: str, server: FakeTGI) -> str:
    return f"openai:{server.url}/v1" if form == "openai" else f"{form}:{server.url}"


def playing(form: str, **options: Any) -> FakeTGI:
    """The fake in the role that a form of spec expects: TGI, or a server without /info."""
    return FakeTGI(has_info=form == "tgi", **options)


async def ask(chat: Chat, *requests: ChatRequest) -> list[ChatReply]:
    try:
        return await asyncio.gather(*(chat(one) for one in requests))
    finally:
        await chat.aclose()  # type: ignore[attr-defined]


async def failure(chat: Chat, one: ChatRequest | None = None) -> ServerError:
    with pytest.raises(ServerError) as caught:
        await chat(one or request())
    return caught.value


# ---------------------------------------------------------------- the contract


@pytest.mark.skipif(not CONTRACT.exists(), reason=f"TGI's contract is not at {CONTRACT}")
def test_the_fake_server_notices_what_its_contract_forbids() -> None:
    bad = {"messages": [{"content": "no role"}], "max_tokens": -1}
    server = FakeTGI()
    with pytest.raises(AssertionError, match="breach of TGI's contract") as caught, server:
        httpx2.post(f"{server.url}/v1/chat/completions", json=bad)
    assert "'role' is a required property" in str(caught.value)
    assert "-1 is not valid" in str(caught.value) or "less than the minimum" in str(caught.value)


@pytest.mark.parametrize("form", FORMS)
async def test_a_reply_carries_text_finish_reason_usage_and_time(form: str) -> None:
    with playing(form, reply=lambda body: "Hello, \\frac{1}{2}\n") as server:
        (reply,) = await ask(load_chat(spec(form, server)), request("x" * 400, thinking=True))
    assert reply.text == "Hello, \\frac{1}{2}\n"
    assert reply.finish_reason == "stop"
    assert reply.prompt_tokens == 102  # the fake counts four characters as one
    assert reply.completion_tokens == 4
    assert reply.seconds is not None
    assert reply.seconds > 0
    assert not reply.cached


@pytest.mark.parametrize("form", FORMS)
async def test_a_cut_reply_says_length(form: str) -> None:
    with playing(form, finish_reason="length") as server:
        (reply,) = await ask(load_chat(spec(form, server)), request())
    assert reply.finish_reason == "length"


async def test_tgi_endings_are_called_stop() -> None:
    with FakeTGI(finish_reason="eos_token") as server:
        (reply,) = await ask(load_chat(f"tgi:{server.url}"), request())
    assert reply.finish_reason == "stop"


async def test_tgi_gets_sampling_and_schema_in_its_own_form() -> None:
    with FakeTGI() as server:
        one = request(temperature=0.3, top_p=0.9, max_tokens=77, seed=5)
        await ask(load_chat(f"tgi:{server.url}"), ChatRequest(one.messages, one.sampling, SCHEMA))
        body = server.requests[0].body
    assert body["response_format"] == {"type": "json", "value": SCHEMA}
    assert (body["temperature"], body["top_p"]) == (0.3, 0.9)
    assert (body["max_tokens"], body["seed"]) == (77, 5)


async def test_tgi_is_never_sent_a_top_p_that_it_refuses() -> None:
    with FakeTGI() as server:
        await ask(
            load_chat(f"tgi:{server.url}"),
            request(temperature=0.0, top_p=1.0),
            request(temperature=0.7, top_p=1.0),
        )
        assert all("top_p" not in one.body for one in server.requests)
        assert {one.body["temperature"] for one in server.requests} == {0.0, 0.7}


@pytest.mark.parametrize(
    ("model", "thinking", "switched"),
    [
        ("Qwen/Qwen3-14B", False, True),
        ("/data/qwen3-8b-awq", False, True),
        ("Qwen/Qwen3-14B", True, False),
        ("Qwen/Qwen3-4B-Instruct-2507", False, False),
        ("Qwen/Qwen3.5-9B", False, False),
        ("Qwen/Qwen2.5-7B-Instruct", False, False),
    ],
)
async def test_tgi_has_thinking_switched_off_in_the_last_message_of_models_that_know_the_switch(
    model: str, thinking: bool, switched: bool
) -> None:
    with FakeTGI(info={"model_id": model}) as server:
        await ask(load_chat(f"tgi:{server.url}"), request("Solve.", thinking=thinking))
        system, user = server.requests[0].body["messages"]
    assert system["content"] == "Be brief."
    assert user["content"] == ("Solve. /no_think" if switched else "Solve.")


async def test_openai_servers_get_json_schema_and_the_thinking_switch() -> None:
    with playing("openai") as server:
        one = request(temperature=0.0, top_p=0.9, max_tokens=77, seed=5)
        await ask(
            load_chat(spec("openai", server)), ChatRequest(one.messages, one.sampling, SCHEMA)
        )
        body = server.requests[0].body
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["model"] == "Qwen/Qwen3-14B"
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.0, 77, 5)


# ---------------------------------------------------------------- fields that a server refuses


async def test_fields_that_a_server_refuses_are_left_out_and_that_is_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuses = ["chat_template_kwargs", "response_format", "max_tokens"]
    with playing("openai", refuses=refuses) as server, caplog.at_level(logging.WARNING):
        chat = load_chat(spec("openai", server))
        one = ChatRequest(request().messages, schema=SCHEMA)
        await chat(one)
        # One more than there are: a schema has two forms.
        assert len(server.requests) == 5
        await ask(chat, one)
        assert len(server.requests) == 6
        body = server.requests[-1].body
    assert not set(refuses) & set(body)
    assert body["max_completion_tokens"] == 2048
    told = [line for line in caplog.messages if "refuses" in line]
    assert len(told) == 3
    assert any("not guided" in line for line in told)


class LlamaCppPython(LocalServer):
    """Answers a response_format that it does not know as llama-cpp-python's server does: 500."""

    def __init__(self, knows: str | None) -> None:
        super().__init__()
        self.knows = knows
        self.kinds: list[str | None] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def _chat(self, request: web.Request) -> web.Response:
        kind = (await request.json()).get("response_format", {}).get("type")
        self.kinds.append(kind)
        if kind not in (None, self.knows):
            error = "Input should be 'text' or 'json_object'"
            return web.json_response({"error": {"message": error}}, status=500)
        message = {"role": "assistant", "content": "{}"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})


@pytest.mark.parametrize("knows", ["json_object", None])
async def test_a_server_that_answers_500_to_a_schema_is_sent_what_it_knows_from_then_on(
    knows: str | None,
) -> None:
    with LlamaCppPython(knows) as server:
        chat = load_chat(f"openai:{server.url}/v1#m")
        one = ChatRequest(request().messages, schema=SCHEMA)
        await chat(one)
        await ask(chat, one)
    tried: list[str | None] = ["json_schema", "json_object"] + ([] if knows else [None])
    assert server.kinds == [*tried, knows]


async def test_an_error_of_the_server_that_has_nothing_to_do_with_the_schema_stays_one() -> None:
    with playing("openai", faults=[Fault.status(500, "out of memory")] * 6) as server:
        chat = load_chat(spec("openai", server))
        error = await failure(chat, ChatRequest(request().messages, schema=SCHEMA))
        assert (error.status, error.retryable) == (500, True)
        assert "out of memory" in str(error)
        server.faults.clear()
        await ask(chat, ChatRequest(request().messages, schema=SCHEMA))
        assert server.requests[-1].body["response_format"]["type"] == "json_schema"


async def test_an_error_that_quotes_a_field_without_being_about_it_leaves_the_field_in_place() -> (
    None
):
    quoting = '{"error": {"message": "context too long in {chat_template_kwargs: ...}"}}'
    with playing("openai", faults=[Fault.status(400, quoting)] * 2) as server:
        chat = load_chat(spec("openai", server))
        error = await failure(chat)
        assert error.status == 400
        await ask(chat, request())
        assert "chat_template_kwargs" in server.requests[-1].body


# ---------------------------------------------------------------- faults

STATUSES = {
    400: False,
    401: False,
    403: False,
    404: False,
    413: False,
    422: False,
    408: True,
    424: True,
    429: True,
    500: True,
    502: True,
    503: True,
    504: True,
    501: False,
}


@pytest.mark.parametrize("form", FORMS)
async def test_an_error_status_says_whether_to_come_back(form: str) -> None:
    faults = [Fault.status(code, f"fault {code}") for code in STATUSES]
    with playing(form, faults=faults) as server:
        chat = load_chat(spec(form, server))
        for code, retryable in STATUSES.items():
            error = await failure(chat)
            assert (error.kind, error.status, error.retryable) == ("http", code, retryable)
            assert f"fault {code}" in str(error)
            assert "\n" not in str(error)
        assert len(server.requests) == len(STATUSES), "each call is one attempt"
        await chat.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", FORMS)
async def test_retry_after_is_handed_on(form: str) -> None:
    faults = [Fault.status(429, retry_after="7"), Fault.status(503)]
    with playing(form, faults=faults) as server:
        chat = load_chat(spec(form, server))
        assert (await failure(chat)).retry_after == 7.0
        assert (await failure(chat)).retry_after is None
        await chat.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", FORMS)
async def test_a_body_that_trickles_in_is_a_reply(form: str) -> None:
    with playing(form, faults=[Fault.slow(0.3)]) as server:
        (reply,) = await ask(load_chat(spec(form, server)), request())
    assert reply.text == SUMMARY


@pytest.mark.parametrize("form", FORMS)
async def test_a_restart_in_mid_run_costs_the_requests_in_flight_and_no_more(form: str) -> None:
    with playing(form, seconds=5.0) as server:
        chat = load_chat(spec(form, server))
        flight = [asyncio.ensure_future(chat(request())) for _ in range(8)]
        while server.most_in_flight < 8:
            await asyncio.sleep(0.01)
        server.seconds = 0.0
        await asyncio.to_thread(server.restart)
        lost = await asyncio.gather(*flight, return_exceptions=True)
        assert [error.kind for error in lost if isinstance(error, ServerError)] == [
            "connection"
        ] * 8
        (reply,) = await ask(chat, request())
    assert reply.text == SUMMARY


@pytest.mark.parametrize("form", FORMS)
async def test_a_storm_past_the_limit_is_answered_429_request_by_request(form: str) -> None:
    with playing(form, info={"max_concurrent_requests": 4}, seconds=0.5) as server:
        chat = load_chat(spec(form, server))
        outcomes = await asyncio.gather(
            *(chat(request()) for _ in range(20)), return_exceptions=True
        )
        await chat.aclose()  # type: ignore[attr-defined]
        errors = [one for one in outcomes if isinstance(one, ServerError)]
        assert len(errors) == server.overloaded > 0
        assert server.most_in_flight == 4
    assert {(error.status, error.retryable) for error in errors} == {(429, True)}
    assert "overloaded" in str(errors[0])


@pytest.mark.parametrize("form", FORMS)
async def test_more_than_a_hundred_requests_are_in_flight_at_once(form: str) -> None:
    with playing(form, info={"max_concurrent_requests": 400}, seconds=1.5) as server:
        await ask(load_chat(spec(form, server)), *[request()] * 200)
        assert server.most_in_flight == 200


def test_a_chat_outlives_event_loops() -> None:
    with FakeTGI() as tgi, playing("openai") as other:
        for chat in (load_chat(spec("tgi", tgi)), load_chat(spec("openai", other))):
            texts = {asyncio.run(chat(request())).text for _ in range(3)}
            assert texts == {SUMMARY}


def test_there_is_one_client_per_event_loop() -> None:
    clients = PerLoop(object)

    async def twice() -> tuple[object, object]:
        return clients.get(), clients.get()

    first, again = asyncio.run(twice())
    second, _ = asyncio.run(twice())
    assert first is again
    assert first is not second


# ---------------------------------------------------------------- what a reply holds

HERE = Address("http://here", None, None)


def test_reasoning_is_kept_beside_the_reply_under_either_name() -> None:
    for name in ("reasoning_content", "reasoning"):
        message = {"role": "assistant", "content": None, name: "Let me think."}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "length"}]})
        reply = read_chat_reply(HERE, body, 1.0)
        assert (reply.text, reply.reasoning, reply.only_thought) == ("", "Let me think.", True)


def test_a_stream_of_events_is_one_reply_with_its_reasoning_and_counts() -> None:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", "reasoning_content": "Hm."}}]},
        {"choices": [{"delta": {"content": "Two "}}]},
        {"choices": [{"delta": {"content": "ways."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    assert read_chat_reply(HERE, body, 1.0) == ChatReply(
        "Two ways.", "stop", 7, 3, 1.0, reasoning="Hm."
    )


FIELDS = ["choices", "message", "content", "text", "usage", "delta", "error"]
ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
)


@given(ANY_JSON)
def test_whatever_json_comes_is_a_reply_or_a_typed_error(body: Any) -> None:
    for text in (json.dumps(body), f"data: {json.dumps(body)}"):
        with contextlib.suppress(ServerError):
            assert isinstance(read_chat_reply(HERE, text, 1.0).text, str)


# ---------------------------------------------------------------- several servers


def test_two_servers_share_the_requests_by_their_places_and_find_the_same_replies(
    tmp_path: Path,
) -> None:
    with (
        ReplyStore(tmp_path / "replies.sqlite") as store,
        FakeTGI(seconds=0.02, info={"max_concurrent_requests": 9}) as large,
        FakeTGI(seconds=0.02, info={"max_concurrent_requests": 3}) as small,
    ):
        flow = Flow(load_chat(f"tgi:{small.url},{large.url}"), store=store)
        asyncio.run(ask_all(flow, 120))
        assert 2 <= len(large.requests) / len(small.requests) <= 4
        assert small.overloaded == large.overloaded == 0
        again = Flow(load_chat(f"tgi:{small.url}"), store=store)
        asyncio.run(ask_all(again, 120))
        assert (again.stats.cached, len(large.requests) + len(small.requests)) == (120, 120)


async def ask_all(flow: Flow, count: int) -> None:
    await asyncio.gather(*(flow(request(f"Question {n}")) for n in range(count)))
    await flow.chat.aclose()  # type: ignore[attr-defined]


def test_when_one_server_dies_the_other_finishes_and_every_request_is_answered() -> None:
    info = {"max_concurrent_requests": 4}
    with FakeTGI(seconds=0.02, info=info) as a, FakeTGI(seconds=0.02, info=info) as b:
        flow = Flow(load_chat(f"tgi:{a.url},{b.url}"))

        async def run() -> None:
            asking = asyncio.create_task(ask_all(flow, 60))
            while len(b.requests) < 10:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(b.stop)
            await asking

        asyncio.run(run())
        assert (flow.stats.done, flow.stats.failed) == (60, 0)
        assert 1 <= flow.stats.trouble["connection"] <= 10


def test_a_server_that_failed_rests_and_is_then_tried_with_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("rpd_metric.models.http.time.monotonic", lambda: now)
    servers = InTurn(["a"])
    servers._servers.append(type(servers._servers[0])("b", 1, in_flight=5))
    with pytest.raises(ServerError), servers.turn() as client:
        raise ServerError("gone", kind="connection")
    assert client == "a"
    with servers.turn() as client:
        assert client == "b"
    now += 11.0
    with servers.turn() as first, servers.turn() as second:
        assert (first, second) == ("a", "b")


def test_servers_with_different_models_are_refused() -> None:
    with (
        FakeTGI() as a,
        FakeTGI(info={"model_id": "other/model"}) as b,
        pytest.raises(SpecError, match="must serve the same model; these serve Qwen/Qwen3-14B, o"),
    ):
        load_chat(f"tgi:{a.url},{b.url}")


# ---------------------------------------------------------------- what a spec names


def test_tgi_says_its_model_and_its_limit() -> None:
    with FakeTGI(info={"max_concurrent_requests": 64}) as server:
        chat = load_chat(f"tgi:{server.url}/")
    assert isinstance(chat, TGIChat)
    assert (chat.model, chat.max_concurrency) == ("Qwen/Qwen3-14B", 64)


def test_an_openai_server_with_one_model_needs_no_name() -> None:
    with playing("openai", models=["only"]) as server:
        assert load_chat(spec("openai", server)).model == "only"


@pytest.mark.parametrize(
    ("models", "said"), [(["a", "b"], "2 models (a, b)"), ([], "does not list")]
)
def test_an_openai_server_with_several_models_or_none_needs_a_name(
    models: list[str], said: str
) -> None:
    with playing("openai", models=models) as server, pytest.raises(SpecError) as caught:
        load_chat(spec("openai", server))
    assert said in str(caught.value)
    assert "#model" in str(caught.value)


def test_tgi_with_another_model_than_the_spec_says_is_refused() -> None:
    with (
        FakeTGI() as server,
        pytest.raises(SpecError, match="serves 'Qwen/Qwen3-14B', not 'other'"),
    ):
        load_chat(f"tgi:{server.url}#other")


def test_tgi_where_there_is_another_server_is_refused_with_the_right_form() -> None:
    with (
        playing("openai") as server,
        pytest.raises(SpecError, match=f"openai:{server.url}/v1#model"),
    ):
        load_chat(f"tgi:{server.url}")


def test_a_server_that_is_down_is_named_but_a_given_model_suffices() -> None:
    with FakeTGI() as server:
        url = server.url
    with pytest.raises(ServerError, match="Check that the server runs") as caught:
        load_chat(f"tgi:{url}")
    assert caught.value.kind == "connection"
    assert load_chat(f"tgi:{url}#Qwen/Qwen3-14B").model == "Qwen/Qwen3-14B"
    assert load_chat(f"openai:{url}/v1#tiny").model == "tiny"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("tgl:http://host:80", "did you mean tgi:http://host:port?"),
        ("opanai:http://host:80", "did you mean openai:http://host:port/v1#model?"),
        ("http://host:80", "did you mean openai:http://host:port/v1#model?"),
        ("auto:http://host:80", "unknown chat model 'auto:...'"),
        ("extractive", "The forms are: openai:http://host:port/v1#model, tgi:"),
        ("", "The forms are"),
        ("tgi:", "write tgi:http://host:port"),
        ("hf:", "write hf:model-id"),
        ("tgi:host:8080", "write tgi:http://host:port"),
        ("openai:ftp://host/v1#m", "write openai:http://host:port"),
        ("openai:http:///v1#m", "write openai:http://host:port"),
        ("tgi:http://host:notaport", "cannot be read"),
        ("tgi:http://[::1", "cannot be read"),
    ],
)
def test_a_spec_that_names_nothing_is_refused_with_the_forms(bad: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_chat(bad)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_no_text_after_the_kind_breaks_the_parser(text: str) -> None:
    try:
        address = parse_address("tgi", text, key_variable="RPD_UNSET")
    except RPDError:
        return
    assert address.url.startswith(("http://", "https://"))
    assert "@" not in address.url.split("/")[2]


@given(st.text(max_size=40))
def test_retry_after_is_a_time_to_wait_or_nothing(text: str) -> None:
    seconds = retry_after({"retry-after": text})
    assert seconds is None or 0 <= seconds < 86_400 * 366


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(("form", "variable"), [("tgi", "HF_TOKEN"), ("openai", "OPENAI_API_KEY")])
async def test_the_key_comes_from_the_environment_and_goes_to_the_server_only(
    form: str, variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, SECRET)
    with playing(form, key=SECRET) as server, caplog.at_level(logging.DEBUG):
        chat = load_chat(spec(form, server))
        await ask(chat, request())
        assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in f"{chat!r} {chat.model} {vars(chat)!r}"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("form", "variable"), [("tgi", "HF_TOKEN"), ("openai", "OPENAI_API_KEY")])
async def test_a_key_that_the_server_quotes_in_its_error_is_cut_out(
    form: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import traceback

    monkeypatch.setenv(variable, SECRET)
    with playing(form, key="another") as server:
        chat = load_chat(spec(form, server))
        error = await failure(chat)
        await chat.aclose()  # type: ignore[attr-defined]
    shown = "".join(traceback.format_exception(error))
    assert error.status == 401
    assert "[key]" in shown
    assert SECRET not in shown
    assert variable in shown


def test_a_key_too_short_to_be_a_secret_is_left_in_place() -> None:
    said = "none of the models is called x"
    assert Address("http://a", None, "none").hide(said) == said
    assert Address("http://a", None, "none of the").hide(said) == "[key] models is called x"


@pytest.mark.parametrize(
    "bad",
    [
        f"tgi:http://user:{SECRET}@host:80",
        f"openai:https://{SECRET}@host/v1#m",
        f"openai:https://host/v1?api_key={SECRET}#m",
        f"http://user:{SECRET}@host",
        f"tgi:http://user:{SECRET}@host:notaport",
        f"tgi:user:{SECRET}@host:80",
        f"openai:https://host:{SECRET}/v1#m",
        f"openai:{SECRET}",
    ],
)
def test_a_secret_in_a_spec_is_refused_without_being_repeated(bad: str) -> None:
    import traceback

    with pytest.raises(SpecError) as caught:
        load_chat(bad)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_offline_mode_of_the_hub_and_its_stored_login_do_not_reach_a_server(tmp_path: Path) -> None:
    """HF_HUB_OFFLINE=1 is about the Hub, and a saved login is not in the environment."""
    (tmp_path / "token").write_text(f"hf_{SECRET}")
    script = """
        import asyncio, sys
        from rpd_metric.models.chat import ChatRequest
        from rpd_metric.models.kinds import load_chat
        chat = load_chat(sys.argv[1])
        print(asyncio.run(chat(ChatRequest(({"role": "user", "content": "Hi"},)))).text)
    """
    with FakeTGI(reply=lambda body: "Here I am.") as server:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), f"tgi:{server.url}"],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout == "Here I am.\n", done.stderr
        assert SECRET not in str(server.requests[0].headers)
