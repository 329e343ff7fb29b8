"""The flow of requests: the server is kept full, nothing is asked twice, no reply is lost."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpd_metric.errors import InputError, ModelError, StoreError
from rpd_metric.models import concurrency, failures
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.concurrency import Places
from rpd_metric.models.failures import (
    BudgetSpent,
    Interrupted,
    ServerError,
    ServerUnavailable,
    backoff,
)
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import ReplyStore


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_WAIT", 0.002)
    monkeypatch.setattr(failures, "LONGEST_WAIT", 0.01)


def most(count: int, **options) -> RequestOptions:
    return RequestOptions(max_in_flight=count, **options)


def ask(content: object = "q", **sampling) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": str(content)},), Sampling(**sampling))


class Scripted:
    """A chat model that does what the script says, call by call, and then just replies."""

    model = "scripted"

    def __init__(self, *script: Exception | ChatReply, hold: bool = False) -> None:
        self.script = deque(script)
        self.requests: list[ChatRequest] = []
        self.in_flight = 0
        self.most = 0
        self.gate = asyncio.Event()
        if not hold:
            self.gate.set()

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            step = self.script.popleft() if self.script else None
            if isinstance(step, Exception):
                raise step
            return step or ChatReply(f"reply to {request.messages[-1]['content']}", "stop", 10, 5)
        finally:
            self.in_flight -= 1


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def no_task_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def store(tmp_path):
    with ReplyStore(tmp_path / "replies.sqlite") as opened:
        yield opened


# The store first, and nothing twice


async def test_what_the_store_holds_is_not_asked_for(store):
    chat = Scripted()
    first = await Flow(chat, store=store)(ask())
    flow = Flow(chat, store=store)
    assert await flow(ask()) == replace(first, cached=True)
    assert len(chat.requests) == 1
    assert (flow.stats.cached, flow.stats.done, flow.stats.completion_tokens) == (1, 0, 0)


async def test_a_reply_is_in_the_store_when_it_is_handed_out(store):
    await Flow(Scripted(), store=store)(ask())
    assert store.get("scripted", ask()) is not None


async def test_when_another_process_was_first_its_reply_is_handed_out(store):
    chat = Scripted(hold=True)
    flow = Flow(chat, store=store)
    call = asyncio.create_task(flow(ask()))
    while not chat.requests:
        await asyncio.sleep(0.001)
    store.put("scripted", ask(), ChatReply("of another process"))
    chat.gate.set()
    assert (await call).text == "of another process"
    stats = flow.stats
    assert (stats.done, stats.cached, stats.paid_twice, stats.completion_tokens) == (1, 0, 1, 5)
    assert "paid for twice" in stats.summary()


async def test_identical_requests_in_flight_are_sent_once():
    chat = Scripted()
    flow = Flow(chat)
    replies = await asyncio.gather(*(flow(ask("same")) for _ in range(10)), flow(ask("other")))
    assert len(chat.requests) == 2
    assert {reply.text for reply in replies[:10]} == {"reply to same"}
    assert (flow.stats.done, flow.stats.shared) == (2, 9)


async def test_identical_requests_fail_together_and_each_failure_counts():
    flow = Flow(Scripted(ServerError("no", status=422)))
    outcomes = await asyncio.gather(*(flow(ask()) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ServerError] * 3
    assert flow.stats.failures == {"http_422": 3}


async def test_when_the_one_that_asked_is_cancelled_another_asks():
    chat = Scripted(hold=True)
    flow = Flow(chat)
    first = asyncio.create_task(flow(ask()))
    await settle()
    others = [asyncio.create_task(flow(ask())) for _ in range(3)]
    await settle()
    first.cancel()
    await settle()
    chat.gate.set()
    assert {reply.text for reply in await asyncio.gather(*others)} == {"reply to q"}
    assert first.cancelled()
    assert len(chat.requests) == 2
    assert no_task_is_left()


# Retries


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
async def test_a_passing_failure_is_retried(status):
    chat = Scripted(ServerError("busy", status=status), ServerError("busy", status=status))
    flow = Flow(chat)
    assert (await flow(ask())).text == "reply to q"
    assert (flow.stats.retried, flow.stats.failed) == (2, 0)
    assert flow.stats.trouble == {f"http_{status}": 2}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_of_the_request_is_never_retried(status):
    # Not even when the client claims that it could be.
    chat = Scripted(ChatReply("before"), ServerError("refused", status=status, retryable=True))
    flow = Flow(chat)
    await flow(ask("before"))
    with pytest.raises(ServerError, match="refused"):
        await flow(ask())
    assert len(chat.requests) == 2
    assert flow.stats.failures == {f"http_{status}": 1}


async def test_a_failure_that_is_no_server_error_is_passed_on_at_once():
    chat = Scripted(ModelError("out of memory"))
    flow = Flow(chat)
    with pytest.raises(ModelError, match="out of memory"):
        await flow(ask())
    assert flow.stats.failures == {"model_error": 1}


async def test_a_bug_in_a_client_keeps_its_traceback_and_frees_its_slot():
    flow = Flow(Scripted(KeyError("bug")), most(1))
    with pytest.raises(KeyError):
        await flow(ask())
    assert (await flow(ask())).text == "reply to q"
    assert flow.stats.in_flight == 0


async def test_attempts_are_limited_those_that_may_be_paid_for_to_fewer():
    for kind, attempts in (("http", 4), ("timeout", 2), ("protocol", 3)):
        chat = Scripted(*[ServerError("bad", kind=kind) for _ in range(9)])
        flow = Flow(chat, RequestOptions(max_retries=3, keep_going=True))
        with pytest.raises(ServerError, match="bad"):
            await flow(ask())
        assert len(chat.requests) == attempts
        assert flow.stats.failures == {kind: 1}


def test_waits_double_up_to_eight_seconds_or_are_what_the_server_asks_for(monkeypatch):
    monkeypatch.undo()
    waits = [backoff(attempt) for attempt in (1, 2, 3, 4, 5, 6, 1000)]
    for wait, longest in zip(waits, (0.5, 1, 2, 4, 8, 8, 8), strict=True):
        assert 0.75 * longest <= wait <= longest
    assert backoff(3, ServerError("later", status=429, retry_after=2.0)) == 2.0


async def test_while_retry_after_runs_nothing_new_is_sent():
    chat = Scripted(ServerError("later", status=429, retry_after=0.3))
    flow = Flow(chat)
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.create_task(flow(ask(1)))
    await settle()
    rest = [asyncio.create_task(flow(ask(number))) for number in range(2, 6)]
    await settle()
    assert len(chat.requests) == 1
    await asyncio.gather(first, *rest)
    assert len(chat.requests) == 6
    assert loop.time() - began >= 0.3


# When a run gives up. What real servers do is in test_misbehaviour.py


async def outcomes(flow: Flow, count: int) -> Counter[str]:
    calls = [flow(ask(number)) for number in range(count)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(type(one).__name__ for one in found)


async def test_a_server_that_does_not_answer_is_named_at_once_and_given_up_soon(monkeypatch):
    monkeypatch.setattr(failures, "UNANSWERED", 0.02)
    chat = Scripted(*[ServerError("no reply from http://a.", kind="connection")] * 1000)
    said: list[str] = []
    with pytest.raises(ServerUnavailable, match=r"^no reply from http://a\.$"):
        await Flow(chat, notify=said.append)(ask())
    assert len(said) == 1
    assert "It is tried for" in said[0]


async def test_request_after_request_failing_ends_the_run_unless_it_is_to_keep_going():
    script = [ChatReply("before"), *[ServerError("no such key", status=401)] * 100]
    flow = Flow(Scripted(*script), most(1))
    await flow(ask("before"))
    found = await outcomes(flow, 60)
    assert found == {"ServerError": 24, "ServerUnavailable": 36}
    with pytest.raises(ServerUnavailable, match=r"25 requests of scripted failed.*no such key"):
        await flow(ask())
    going = Flow(Scripted(*script), most(1, keep_going=True))
    await going(ask("before"))
    assert await outcomes(going, 60) == {"ServerError": 60}


async def test_failures_with_replies_between_them_or_about_the_request_do_not_end_it():
    script: list[Exception | ChatReply] = []
    for _ in range(4):
        script += [ChatReply("r"), *[ServerError("down", status=401)] * 20]
    script += [ServerError("too long", status=422) for _ in range(50)]
    flow = Flow(Scripted(*script), most(1))
    assert await outcomes(flow, len(script)) == {"ServerError": 130, "ChatReply": 4}


async def test_a_few_first_refusals_that_are_alike_do_not_end_a_run_that_gets_replies():
    script = [*[ServerError("too long", status=400) for _ in range(24)], ChatReply("r")]
    script += [ServerError("too long", status=400) for _ in range(40)]
    assert await outcomes(Flow(Scripted(*script), most(1)), 70) == {
        "ServerError": 64,
        "ChatReply": 6,
    }


async def test_one_request_that_takes_for_ever_does_not_end_the_run():
    class Endless(Scripted):
        async def __call__(self, request):
            if "hopeless" in request.messages[0]["content"]:
                await asyncio.sleep(60)
            return await super().__call__(request)

    flow = Flow(Endless(), RequestOptions(timeout=0.05))
    await flow(ask("good"))
    with pytest.raises(ServerError, match="did not reply in time"):
        await flow(ask("hopeless"))
    assert (await flow(ask("good too"))).text == "reply to good too"


async def test_a_run_whose_first_32_replies_are_of_no_use_ends_and_quotes_three():
    flow = Flow(Scripted())
    for number in range(32):
        flow.judge_reply(await flow(ask(number)), "no_envelope: no JSON.")
    with pytest.raises(ServerUnavailable, match="none of the first 32 replies") as caught:
        await flow(ask("more"))
    said = str(caught.value)
    assert said.count("reply to") == said.count("(no_envelope: no JSON)") == 3
    assert "--keep-going" in said


@pytest.mark.parametrize(("usable", "keep_going"), [(True, False), (False, True)])
async def test_a_run_with_one_reply_of_use_or_that_is_to_keep_going_does_not_end(
    usable, keep_going
):
    flow = Flow(Scripted(), RequestOptions(keep_going=keep_going))
    for number in range(60):
        fault = None if usable and number == 20 else "no_envelope"
        flow.judge_reply(await flow(ask(number)), fault)
    assert flow.stats.done == 60


# Replies that were cut


async def test_a_cut_reply_is_asked_for_once_more_with_twice_the_tokens():
    cut = ChatReply("half", "length", 10, 100)
    chat = Scripted(cut, cut, cut)
    flow = Flow(chat)
    assert (await flow(ask(max_tokens=100))).text == "half"
    assert [request.sampling.max_tokens for request in chat.requests] == [100, 200]
    assert (flow.stats.done, flow.stats.extended, flow.stats.completion_tokens) == (1, 1, 200)


async def test_a_longer_reply_that_times_out_leaves_the_cut_one_and_is_not_repeated():
    timeout = ServerError("slow", kind="timeout")
    chat = Scripted(ChatReply("half", "length"), timeout, timeout, timeout)
    flow = Flow(chat)
    assert (await flow(ask())).text == "half"
    assert len(chat.requests) == 2
    assert (flow.stats.kept_cut, flow.stats.failed) == (1, 0)


async def test_a_reply_that_loops_is_not_asked_for_again():
    chat = Scripted(ChatReply("We check the case again. " * 40, "length"))
    flow = Flow(chat)
    assert (await flow(ask())).finish_reason == "length"
    assert (len(chat.requests), flow.stats.looping) == (1, 1)


async def test_a_request_that_times_out_is_repeated_once_at_most():
    chat = Scripted(*[ServerError("slow", kind="timeout") for _ in range(20)])
    flow = Flow(chat)
    with pytest.raises(ServerError, match="slow"):
        await flow(ask())
    assert len(chat.requests) == 2


async def test_one_hopeless_solution_costs_no_more_than_is_stated():
    class Endless(Scripted):
        """Cut at every limit, after an attempt that times out and one that cannot be read."""

        async def __call__(self, request):
            self.requests.append(request)
            if request.sampling.max_tokens == 100 and len(self.requests) < 3:
                raise ServerError("bad", kind=("timeout", "protocol")[len(self.requests) - 1])
            return ChatReply(str(len(self.requests)), "length")

    options = RequestOptions(timeout=60)
    chat = Endless()
    flow = Flow(chat, options)
    await flow(ask(max_tokens=100))
    spent = sum(request.sampling.max_tokens for request in chat.requests)
    assert spent == options.worst_case(100).tokens == 500
    assert len(chat.requests) * 60 == options.worst_case(100).seconds


async def test_the_cut_reply_stands_when_the_server_has_no_room_for_more():
    chat = Scripted(ChatReply("half", "length"), ServerError("context", status=422))
    flow = Flow(chat)
    assert (await flow(ask())).text == "half"
    assert (flow.stats.done, flow.stats.failed) == (1, 0)


async def test_a_grown_reply_is_found_again_without_a_call(store):
    await Flow(Scripted(ChatReply("half", "length")), store=store)(ask())
    flow = Flow(Scripted(), store=store)
    assert (await flow(ask())).text == "reply to q"
    assert flow.chat.requests == []
    assert (flow.stats.cached, flow.stats.extended) == (1, 0)


# How many at once


async def test_no_more_are_in_flight_than_the_limit_allows():
    chat = Scripted(hold=True)
    flow = Flow(chat, most(5))
    calls = [asyncio.create_task(flow(ask(number))) for number in range(40)]
    await settle()
    assert (chat.in_flight, flow.tick().in_flight) == (5, 5)
    chat.gate.set()
    await asyncio.gather(*calls)
    assert (chat.most, flow.tick().in_flight) == (5, 0)


async def test_the_flow_starts_from_the_servers_own_limit_and_stays_within_it():
    chat = Scripted(hold=True)
    chat.max_concurrency = 12
    flow = Flow(chat)
    calls = [asyncio.create_task(flow(ask(number))) for number in range(100)]
    await settle()
    assert chat.in_flight == 12
    chat.gate.set()
    await asyncio.gather(*calls)
    assert chat.most == 12


async def test_a_cancelled_request_gives_its_place_to_the_next():
    chat = Scripted(hold=True)
    flow = Flow(chat, most(1))
    calls = [asyncio.create_task(flow(ask(number))) for number in range(4)]
    await settle()
    calls[0].cancel()
    calls[1].cancel()
    await settle()
    assert [request.messages[0]["content"] for request in chat.requests] == ["0", "2"]
    chat.gate.set()
    await asyncio.gather(*calls[2:])
    assert flow._places.in_flight == 0
    assert no_task_is_left()


@settings(max_examples=30)
@given(seed=st.randoms(use_true_random=False), start=st.integers(1, 20))
def test_cancelling_at_any_moment_loses_no_slot_and_leaves_no_task(seed, start):
    async def run() -> None:
        chat = Scripted(*[ServerError("busy", status=503) for _ in range(10)])
        flow = Flow(
            chat,
            most(start, keep_going=True),
        )
        calls = [asyncio.create_task(flow(ask(seed.randrange(15)))) for _ in range(40)]
        for _ in range(60):
            seed.choice(calls).cancel()
            for _ in range(seed.randrange(3)):
                await asyncio.sleep(0)
        await asyncio.gather(*calls, return_exceptions=True)
        await settle()
        assert (flow._places.in_flight, flow.stats.in_flight, chat.in_flight) == (0, 0, 0)
        assert no_task_is_left()
        assert (await flow(ask("afterwards"))).text == "reply to afterwards"

    asyncio.run(run())


async def crowded(places: Places, waiting: int = 1000) -> None:
    """So many who wait for a place."""
    await asyncio.wait([asyncio.create_task(places.take()) for _ in range(waiting)], timeout=0)
    await settle()


async def after(places: Places, *outcomes: str) -> None:
    """Let one request after the other end so, those that wait taking its place."""
    for outcome in outcomes:
        if outcome == "reply":
            places.replied()
        else:
            places.failed(ServerError("x", status=int(outcome)))
        places.leave()
        await settle()


@pytest.mark.parametrize(("known", "at_first"), [(True, 48), (False, 16)])
async def test_all_places_are_there_at_once_or_after_the_first_answer(known, at_first):
    places = Places(48, known)
    await crowded(places, 100)
    assert places.in_flight == at_first
    await after(places, "reply")
    assert places.in_flight == 48
    places.dismiss()


async def test_the_cautious_start_ends_by_itself(monkeypatch):
    monkeypatch.setattr(concurrency, "FIRST_SECONDS", 0.02)
    places = Places(64, known=False)
    waiting = [asyncio.ensure_future(places.take()) for _ in range(64)]
    await asyncio.gather(*waiting)
    assert places.in_flight == 64


async def test_a_full_server_keeps_what_it_works_on_and_is_asked_for_more_now_and_then():
    places = Places(64)
    await crowded(places, 1000)
    await after(places, *["429"] * 48)
    assert places.in_flight == 16
    await after(places, *["reply"] * 11)
    assert places.in_flight == 16
    await after(places, "reply")
    assert places.in_flight == 17
    await after(places, "429")
    assert places.in_flight == 16
    places.dismiss()


async def test_failures_that_have_nothing_to_do_with_the_load_cost_no_place():
    places = Places(32)
    await crowded(places, 500)
    await after(places, *(["500", *["reply"] * 6] * 30))
    assert places.in_flight == 32
    await after(places, *(["503", *["reply"] * 6] * 30))
    assert places.in_flight >= 28
    places.dismiss()


async def test_a_server_that_is_down_is_asked_by_one_at_a_time_and_then_gets_all_back():
    places = Places(32)
    await crowded(places, 1000)
    await after(places, *["503"] * 32)
    assert places.in_flight == 0
    await asyncio.sleep(0.02)
    assert places.in_flight == 1
    await after(places, "503")
    await asyncio.sleep(0.02)
    await after(places, *["reply"] * 40)
    assert places.in_flight == 32
    places.dismiss()


async def test_processes_that_share_a_server_take_a_part_each():
    chat = Scripted(hold=True)
    flow = Flow(chat)
    flow.share(8)
    calls = [asyncio.create_task(flow(ask(number))) for number in range(40)]
    await settle()
    assert flow.tick().in_flight == 64 // 8
    chat.gate.set()
    await asyncio.gather(*calls)


# Ending a run


async def test_after_drain_what_is_in_flight_reaches_the_store_and_the_rest_is_not_sent(store):
    chat = Scripted(hold=True)
    flow = Flow(chat, most(3), store=store)
    calls = [asyncio.create_task(flow(ask(number))) for number in range(10)]
    while chat.in_flight < 3:
        await asyncio.sleep(0.001)
    flow.drain()
    await settle()
    assert not any(call.done() for call in calls)  # also those that will be interrupted wait
    chat.gate.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    kinds = Counter(type(outcome) for outcome in outcomes)
    assert kinds == {ChatReply: 3, Interrupted: 7}
    assert (len(chat.requests), store.count()) == (3, 3)
    with pytest.raises(Interrupted, match="run the same command again"):
        await flow(ask("later"))
    assert no_task_is_left()


async def test_a_caller_that_cancels_the_rest_on_the_first_error_loses_nothing(store):
    chat = Scripted(hold=True)
    flow = Flow(chat, most(3), store=store)

    async def problem(number: int) -> None:
        await asyncio.gather(*(flow(ask((number, solution))) for solution in range(4)))

    async def all_problems() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(problem(number))

    run = asyncio.create_task(all_problems())
    while chat.in_flight < 3:
        await asyncio.sleep(0.001)
    flow.drain()
    chat.gate.set()
    with pytest.raises(ExceptionGroup) as caught:
        await run
    assert caught.group_contains(Interrupted)
    assert store.count() == len(chat.requests) == 3


async def test_drain_does_not_wait_for_retries(monkeypatch):
    chat = Scripted(ServerError("busy", status=503))
    monkeypatch.setattr(failures, "FIRST_WAIT", 60.0)
    monkeypatch.setattr(failures, "LONGEST_WAIT", 60.0)
    flow = Flow(chat)
    call = asyncio.create_task(flow(ask()))
    await settle()
    flow.drain()
    with pytest.raises(Interrupted):
        await call


async def test_a_store_that_fails_ends_the_run_before_more_is_paid_for(store):
    chat = Scripted()
    flow = Flow(chat, most(2), store=store)
    await flow(ask("before"))
    store._run("PRAGMA query_only = 1")
    outcomes = await asyncio.gather(*(flow(ask(n)) for n in range(50)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreError}
    assert len(chat.requests) <= 1 + 2
    store._run("PRAGMA query_only = 0")
    assert store.count() == 1


def test_a_flow_may_be_used_from_one_event_loop_after_another(store):
    flow = Flow(Scripted(), store=store)

    async def half() -> None:
        calls = [asyncio.create_task(flow(ask(number))) for number in range(30)]
        await asyncio.sleep(0)
        await calls[0]
        for call in calls:
            call.cancel()

    flow.chat.gate = asyncio.Event()
    flow.chat.gate.set()
    asyncio.run(half())
    assert asyncio.run(flow(ask("more"))).text == "reply to more"
    assert flow._places.in_flight == 0


async def test_two_event_loops_at_once_are_refused():
    flow = Flow(Scripted())
    await flow(ask())
    with pytest.raises(InputError, match="one event loop at a time"):
        await asyncio.to_thread(lambda: asyncio.run(flow(ask("from a thread"))))


# How many are in flight at the beginning


# What is reported


async def test_the_counts_make_a_line_and_a_summary(store):
    busy, bad = ServerError("busy", status=503), ServerError("x", status=422)
    flow = Flow(Scripted(busy, ChatReply("a", "stop", 100, 50), bad), store=store)
    await flow(ask(1))
    await flow(ask(1))
    with pytest.raises(ServerError):
        await flow(ask(2))
    line = str(flow.stats)
    assert line.startswith("1 done, 1 cached, 1 failed, 1 retried, 0 in flight, ")
    summary = flow.stats.summary()
    assert summary.splitlines()[0] == (
        "3 requests: 1 answered by the model, 1 from the store, 0 shared, 1 failed"
    )
    assert "failed by reason: http_422 1" in summary
    assert "failed attempts by reason: http_422 1, http_503 1" in summary


# What a run may spend


def spends(tokens: int, prompt: int = 10) -> list[ChatReply]:
    return [ChatReply(f"r{number}", "stop", prompt, tokens) for number in range(100)]


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        ({"max_requests": 7}, 7),
        # The last one that is sent might have used all of its 100 tokens, but none of them did.
        ({"max_output_tokens": 250}, 16),
        # 0.1 for each prompt, 1 for the tokens of each reply.
        ({"max_cost": 20.0, "price_in": 1e4, "price_out": 1e5}, 10),
        ({}, 40),
    ],
)
async def test_a_run_stops_at_its_budget_and_never_passes_it(limits, sent, store):
    chat = Scripted(*spends(10))
    options = RequestOptions(longest_reply=0, **limits)
    flow = Flow(chat, options, store=store)
    outcomes = await asyncio.gather(
        *(flow(ask(number, max_tokens=100)) for number in range(40)), return_exceptions=True
    )
    assert {type(one) for one in outcomes} <= {ChatReply, BudgetSpent}
    assert len(chat.requests) == sent == store.count()
    assert flow.spending.written <= limits.get("max_output_tokens", 10**9)
    assert flow.spending.spent <= limits.get("max_cost", 10**9)
    if limits:
        with pytest.raises(BudgetSpent, match=r"the budget is spent: .*goes on"):
            await flow(ask("one more", max_tokens=100))


def test_a_cost_without_prices_is_refused():
    with pytest.raises(InputError, match="--price-in and --price-out"):
        RequestOptions(max_cost=5.0)
