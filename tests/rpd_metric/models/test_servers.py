"""Chat clients against a fake TGI and a fake hosted API."""

import asyncio
import contextlib
import json
import logging
import traceback
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from parts.fake_tgi import SUMMARY, FakeTGI, Fault
from parts.http_server import LocalServer
from parts.misbehaving import MODES, Misbehaving, moved
from rpd_metric.errors import InputError, RPDError, SpecError
from rpd_metric.models import failures, http
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import BudgetSpent, ServerError
from rpd_metric.models.flow import Flow
from rpd_metric.models.http import read_chat_reply, retry_after
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import Address, load_chat, load_embedder

SECRET = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "boolean"}}}
HERE = Address("http://here", None, None)
both = pytest.mark.parametrize("form", ["tgi", "openai"])


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def request(text: str = "Summarise.", schema: Any = None, **sampling: Any) -> ChatRequest:
    return ChatRequest(
        ({"role": "system", "content": "Be brief."}, {"role": "user", "content": text}),
        Sampling(**sampling),
        schema,
    )


def spec(form: str, server: FakeTGI) -> str:
    return f"openai:{server.url}/v1" if form == "openai" else f"{form}:{server.url}"


def playing(form: str, **options: Any) -> FakeTGI:
    """The fake in the role that a form of spec expects: TGI, or a server without /info."""
    return FakeTGI(has_info=form == "tgi", **options)


async def ask(chat: Chat, *requests: ChatRequest) -> list[ChatReply]:
    return await asyncio.gather(*(chat(one) for one in requests))


async def failure(chat: Chat, one: ChatRequest | None = None) -> ServerError:
    with pytest.raises(ServerError) as caught:
        await ask(chat, one or request())
    return caught.value


# ---------------------------------------------------------------- what is sent, what comes back


@pytest.mark.parametrize(
    ("form", "sent", "read"), [("openai", "length", "length"), ("tgi", "eos_token", "stop")]
)
async def test_a_reply_carries_text_finish_reason_and_usage(form, sent, read):
    text = "Hello, \\frac{1}{2}\n"
    with playing(form, reply=lambda body: text, finish_reason=sent) as server:
        (reply,) = await ask(load_chat(spec(form, server)), request("x" * 400, thinking=True))
    # The fake counts four characters as one token.
    assert reply == ChatReply(text, read, 102, 4)
    assert reply.served_by == ("Qwen/Qwen3-14B", "3.3.6-dev0-sha", "127.0.0.1")


async def test_tgi_gets_sampling_and_schema_in_its_own_form():
    with FakeTGI() as server:
        one = request(schema=SCHEMA, temperature=0.3, top_p=0.9, max_tokens=77, seed=5)
        chat = load_chat(f"tgi:{server.url}")
        # It refuses a top_p of 1, which is that of no nucleus.
        await ask(chat, one)
        await ask(chat, request(temperature=0.0, top_p=1.0))
        await ask(chat, request(temperature=0.7, top_p=1.0))
        body, greedy, whole = (received.body for received in server.requests)
    assert body["response_format"] == {"type": "json", "value": SCHEMA}
    assert (body["temperature"], body["top_p"]) == (0.3, 0.9)
    assert (body["max_tokens"], body["seed"]) == (77, 5)
    assert (greedy["temperature"], whole["temperature"]) == (0.0, 0.7)
    assert not {"top_p"} & (set(greedy) | set(whole))


@pytest.mark.parametrize(
    ("model", "thinking", "switched"),
    [
        ("Qwen/Qwen3-14B", False, True),
        ("Qwen/Qwen3-14B", True, False),
        ("Qwen/Qwen3-4B-Instruct-2507", False, False),
        ("Qwen/Qwen3.5-9B", False, False),
    ],
)
async def test_tgi_has_thinking_switched_off_in_the_last_message_of_models_that_know_the_switch(
    model, thinking, switched
):
    with FakeTGI(info={"model_id": model}) as server:
        await ask(load_chat(f"tgi:{server.url}"), request("Solve.", thinking=thinking))
        system, user = server.requests[0].body["messages"]
    assert system["content"] == "Be brief."
    assert user["content"] == ("Solve. /no_think" if switched else "Solve.")


async def test_openai_servers_get_json_schema_and_the_thinking_switch():
    with playing("openai") as server:
        one = request(schema=SCHEMA, temperature=0.0, top_p=0.9, max_tokens=77, seed=5)
        await ask(load_chat(spec("openai", server)), one)
        body = server.requests[0].body
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert (body["model"], body["seed"]) == ("Qwen/Qwen3-14B", 5)
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.0, 0.9, 77)


def test_thoughts_are_told_from_the_reply_and_no_name_is_markup():
    message = {"content": "Two ways.", "reasoning_content": "Hm."}
    body = {"choices": [{"message": message}], "model": "a|<b>"}
    reply = read_chat_reply(HERE, json.dumps(body))
    assert (reply.text, reply.reasoning, reply.model) == ("Two ways.", "Hm.", "a b")


FIELDS = ["choices", "message", "content", "text", "usage", "error"]
ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
)


@given(ANY_JSON)
def test_whatever_json_comes_is_a_reply_or_a_typed_error(body):
    with contextlib.suppress(ServerError):
        assert isinstance(read_chat_reply(HERE, json.dumps(body)).text, str)


# ---------------------------------------------------------------- fields that a server refuses


async def test_fields_that_a_server_refuses_are_left_out_and_that_is_remembered(caplog):
    refuses = ["chat_template_kwargs", "response_format", "max_tokens"]
    with playing("openai", refuses=refuses) as server, caplog.at_level(logging.WARNING):
        chat = load_chat(spec("openai", server))
        await ask(chat, request(schema=SCHEMA))
        assert len(server.requests) == 5, "one more than there are: a schema has two forms"
        await ask(chat, request(schema=SCHEMA))
        assert len(server.requests) == 6
        body = server.requests[-1].body
    assert not set(refuses) & set(body)
    assert body["max_completion_tokens"] == 2048
    assert len([line for line in caplog.messages if "refuses" in line]) == 4


async def test_a_stop_is_seen_though_it_is_a_special_token():
    stopping = ChatRequest(({"role": "user", "content": "Go."},), stop=("<|im_end|>",))
    with playing("openai") as knows, playing("openai", refuses=["skip_special_tokens"]) as other:
        for server in (knows, other):
            await ask(load_chat(spec("openai", server)), stopping)
            await ask(load_chat(spec("openai", server)), request())
        bodies = [one.requests[place].body for one in (knows, other) for place in (-2, -1)]
    assert [body.get("stop") for body in bodies] == [["<|im_end|>"], None] * 2
    assert [body.get("skip_special_tokens") for body in bodies] == [False, None, None, None]


@pytest.mark.parametrize(
    "tried", [["json_schema", "json_object"], ["json_schema", "json_object", None]]
)
async def test_a_server_that_answers_500_to_a_schema_is_sent_what_it_knows_from_then_on(tried):
    faults = [Fault.status(500, "Input should be 'text'")] * (len(tried) - 1)
    with playing("openai", faults=faults) as server:
        chat = load_chat(spec("openai", server))
        await ask(chat, request(schema=SCHEMA))
        await ask(chat, request(schema=SCHEMA))
        sent = [one.body.get("response_format", {}).get("type") for one in server.requests]
    assert sent == [*tried, tried[-1]]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, "out of memory"),
        (400, '{"error": {"message": "context too long in {chat_template_kwargs: ...}"}}'),
    ],
)
async def test_an_error_that_is_not_about_a_field_leaves_the_fields_in_place(status, text):
    with playing("openai", faults=[Fault.status(status, text)] * 3) as server:
        chat = load_chat(spec("openai", server))
        error = await failure(chat, request(schema=SCHEMA))
        assert (error.status, error.retryable) == (status, status == 500)
        server.faults.clear()
        await ask(chat, request(schema=SCHEMA))
        body = server.requests[-1].body
    assert body["response_format"]["type"] == "json_schema"
    assert "chat_template_kwargs" in body


# ---------------------------------------------------------------- failures

PASSING = {408, 424, 429, 500, 502, 503, 504}
LASTING = {400, 401, 403, 404, 413, 422, 501}


@both
async def test_an_error_status_says_whether_and_when_to_come_back(form):
    codes = sorted(PASSING | LASTING)
    faults = [Fault.status(code, f"fault {code}", retry_after="7") for code in codes]
    with playing(form, faults=faults) as server:
        chat = load_chat(spec(form, server))
        for code in codes:
            error = await failure(chat)
            assert (error.kind, error.status, error.retryable) == ("http", code, code in PASSING)
            assert error.retry_after == 7.0
            assert f"fault {code}" in str(error)
            assert "\n" not in str(error)
        assert len(server.requests) == len(codes), "each call is one attempt"


def test_a_wait_of_many_years_is_not_taken_for_none():
    waits = [retry_after({"retry-after": text}) for text in ("1e7", "1e9", "inf", "-1", "nan", "M")]
    assert waits == [1e7, 86_400 * 365, 86_400 * 365, 0, None, None]


def test_an_address_with_https_of_a_server_without_is_told():
    with FakeTGI() as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(ServerError, match=r"no reply from https://.*write http://"):
            load_chat(f"openai:{url}/v1")


@pytest.mark.parametrize("proxy", ["socks9://user:hunter2@host:1", "http://user:hunter2/3@host:1"])
def test_a_proxy_that_cannot_be_used_is_one_line_without_its_password(proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    for ask_once in (load_page, chat_once, embed_once):
        with pytest.raises(InputError, match="the proxy in HTTP_PROXY") as caught:
            ask_once("http://host.invalid")
        assert "hunter" not in "".join(traceback.format_exception(caught.value))


# ---------------------------------------------------------------- hostile replies


class Answering(LocalServer):
    """Answers every request alike, and counts them."""

    def __init__(self, answer: Callable[[Any, web.Request], Any]) -> None:
        super().__init__()
        self.answer = answer
        self.sent = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.sent += 1
        answer = self.answer(self, request)
        return answer if isinstance(answer, web.StreamResponse) else await answer


async def endless(_: Answering, request: web.Request, pause: float = 0.0) -> Any:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * (1 if pause else 2**20))
        await asyncio.sleep(pause)


def load_page(url: str, _: float = 60.0) -> None:
    load_chat(f"tgi:{url}")


def chat_once(url: str, seconds: float = 60.0) -> None:
    options = RequestOptions(timeout=seconds, max_retries=0)
    asyncio.run(Flow(load_chat(f"openai:{url}/v1#m"), options)(request()))


def embed_once(url: str, seconds: float = 60.0) -> None:
    load_embedder(f"openai:{url}/v1#m", timeout=seconds).encode(["One."])


@pytest.mark.parametrize("ask_once", [load_page, chat_once, embed_once])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MODES["gzip bomb"][0], "larger than"),
        (MODES["gzip in gzip"][0], r"encoding: gzip, gzip"),
        (MODES["nested deeply"][0], r"nested|no embeddings in \[\[|no /info page"),
        (endless, "larger than|in time"),
        (lambda s, r: endless(s, r, 0.05), "in time"),
        (lambda s, r: moved(path=r.path), r"and so on: 4 redirects"),
    ],
)
def test_a_hostile_reply_is_a_bad_reply_soon_and_in_little_memory(
    ask_once, answer, said, monkeypatch
):
    monkeypatch.setattr(failures, "FIRST_WAIT", 0.01)
    # Only a reply that never ends is cut by time.
    seconds = 0.8 if "in time" in said else 60.0
    monkeypatch.setattr(http, "PAGE_SECONDS", seconds)
    with Answering(answer) as server:
        tracemalloc.start()
        try:
            with pytest.raises(RPDError, match=said) as caught:
                ask_once(server.url, seconds)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert peak < 48 * 2**20, f"{peak:,} bytes"


@pytest.mark.parametrize("ask_once", [load_page, chat_once, embed_once])
def test_nothing_is_sent_to_another_server_than_the_one_that_was_named(ask_once):
    with (
        Answering(lambda s, r: web.json_response({})) as other,
        Answering(lambda s, r: moved(other.url, r.path)) as server,
    ):
        with pytest.raises(RPDError) as caught:
            ask_once(server.url)
        assert (server.sent, other.sent) == (1, 0)
    assert server.url in str(caught.value)
    assert other.url in str(caught.value)


async def test_every_send_counts_against_the_limit_of_requests():
    async def spend(url: str, most: int) -> None:
        flow = Flow(load_chat(f"openai:{url}/v1#m"), RequestOptions(max_requests=most))
        asked = (flow(request(f"Question {n}", schema=SCHEMA)) for n in range(30))
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert any("6 requests, 0 new" in str(end) for end in ends if isinstance(end, BudgetSpent))
        assert flow.spending.written == 0

    with Misbehaving("redirects in a circle", 0.0) as server:
        await spend(server.url, 6)
        assert server.sent.total() == 6
    with playing("openai", refuses=["chat_template_kwargs", "response_format"]) as server:
        await spend(server.url, 6)
        assert len(server.requests) == 6


def test_no_reply_of_a_model_is_too_large():
    text = "\U0001f600" * 80 * 2048  # twelve bytes each, escaped
    with Answering(
        lambda s, r: web.json_response({"choices": [{"message": {"content": text}}]})
    ) as server:
        chat = load_chat(f"openai:{server.url}/v1#m")
        assert asyncio.run(chat(request(max_tokens=2048))).text == text
    vectors = -np.random.default_rng(0).random((8, 8192)) * 1e-7
    rows = [{"index": index, "embedding": vector.tolist()} for index, vector in enumerate(vectors)]
    with Answering(lambda s, r: web.json_response({"data": rows})) as server:
        embedder = load_embedder(f"openai:{server.url}/v1#m")
        for _ in range(2):  # before and after the dimension is known
            found = embedder.encode([f"Text {n}" for n in range(8)])
    np.testing.assert_array_equal(found, vectors.astype(np.float32))


@both
async def test_more_than_a_hundred_requests_are_in_flight_at_once(form):
    with playing(form, info={"max_concurrent_requests": 400}, crowd=200) as server:
        asked = ask(load_chat(spec(form, server)), *[request()] * 200)
        await asyncio.wait_for(asked, 300)
        assert server.most_in_flight == 200


@both
def test_a_chat_and_its_flow_outlive_event_loops(form):
    with playing(form) as server:
        chat = load_chat(spec(form, server))
        flow = Flow(chat)
        assert {asyncio.run(flow(request())).text for _ in range(3)} == {SUMMARY}


# ---------------------------------------------------------------- what a spec names


def test_a_server_is_asked_for_its_model_and_its_limit():
    with FakeTGI(info={"max_concurrent_requests": 64}) as tgi:
        chat: Any = load_chat(f"tgi:{tgi.url}/")
    with playing("openai", models=["only"]) as openai:
        assert load_chat(spec("openai", openai)).model == "only"
    assert (chat.model, chat.max_concurrency) == ("Qwen/Qwen3-14B", 64)


@pytest.mark.parametrize(
    ("server", "named", "said"),
    [
        (playing("openai", models=["a", "b"]), "openai:{url}/v1", r"2 models \(a, b\).*#model"),
        (playing("openai", models=[]), "openai:{url}/v1", r"does not list.*#model"),
        (playing("openai"), "tgi:{url}", r"openai:http://.*/v1#model"),
        (FakeTGI(), "tgi:{url}#other", r"serves 'Qwen/Qwen3-14B', not 'other'"),
    ],
)
def test_a_spec_that_its_server_cannot_fulfil_is_refused(server, named, said):
    with server, pytest.raises(SpecError, match=said):
        load_chat(named.format(url=server.url))


def test_a_server_that_is_down_is_named_but_a_given_model_suffices():
    with FakeTGI() as server:
        url = server.url
    with pytest.raises(ServerError, match="Check that the server runs") as caught:
        load_chat(f"tgi:{url}")
    assert caught.value.kind == "connection"
    assert load_chat(f"tgi:{url}#Qwen/Qwen3-14B").model == "Qwen/Qwen3-14B"
    assert load_chat(f"openai:{url}/v1#tiny").model == "tiny"


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(("form", "variable"), [("tgi", "HF_TOKEN"), ("openai", "OPENAI_API_KEY")])
async def test_the_key_comes_from_the_environment_and_is_shown_to_the_server_only(
    form, variable, monkeypatch, caplog
):
    monkeypatch.setenv(variable, SECRET)
    with playing(form, key=SECRET) as server, caplog.at_level(logging.DEBUG):
        chat = load_chat(spec(form, server))
        await ask(chat, request())
        assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
        server.key = "another"  # so that it quotes what it was sent
        error = await failure(chat)
    shown = "".join(traceback.format_exception(error))
    assert error.status == 401
    assert "[key]" in shown
    assert variable in shown
    assert SECRET not in f"{chat!r} {chat.model} {vars(chat)!r} {caplog.text} {shown}"
