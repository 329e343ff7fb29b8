"""The flow of requests: the server is kept full, nothing is asked twice, no reply is lost.

What it makes of real servers that misbehave is in test_misbehaviour.py, signals in
test_interrupt.py.
"""

import asyncio
from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.scripted import no_task_is_left, settle
from rpd_metric.errors import InputError, ModelError, StoreError
from rpd_metric.models import failures
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import BudgetSpent, Interrupted, ServerError
from rpd_metric.models.flow import Flow
from rpd_metric.models.patience import Places
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import ReplyStore, RequestKeys


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(failures, "FIRST_WAIT", 0.002)
    monkeypatch.setattr(failures, "LONGEST_WAIT", 0.01)


@pytest.fixture
def store(tmp_path):
    with ReplyStore(tmp_path / "replies.sqlite") as opened:
        yield opened


def ask(content="q", **sampling) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": str(content)},), Sampling(**sampling))


class Scripted:
    """A chat model that does what the script says, call by call, and then just replies."""

    model = "scripted"

    def __init__(self, *script, hold=False) -> None:
        self.script = deque(script)
        self.requests: list[ChatRequest] = []
        self.in_flight = self.most = 0
        self.gate = asyncio.Event()
        if not hold:
            self.gate.set()

    async def __call__(self, request):
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


def many(flow, count) -> list[asyncio.Task]:
    return [asyncio.create_task(flow(ask(number))) for number in range(count)]


async def ends(calls) -> Counter[str]:
    """How calls end, by the name of the type."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(type(one).__name__ for one in found)


# The store first, and nothing twice


async def test_a_reply_is_on_file_when_it_is_handed_out_and_is_not_asked_for_again(store):
    first = await Flow(Scripted(), store=store)(ask())
    assert store.find(RequestKeys.of("scripted", ask())).seconds == first.seconds > 0
    flow = Flow(Scripted(), store=store)
    assert await flow(ask()) == replace(first, cached=True)
    assert (flow.chat.requests, flow.stats.cached, flow.stats.completion_tokens) == ([], 1, 0)


async def test_when_another_process_was_first_its_reply_is_handed_out(store):
    flow = Flow(Scripted(hold=True), store=store)
    call = asyncio.create_task(flow(ask()))
    while not flow.chat.requests:
        await asyncio.sleep(0.001)
    store.keep(RequestKeys.of("scripted", ask()), ChatReply("of another process"))
    flow.chat.gate.set()
    assert (await call).text == "of another process"
    assert (flow.stats.done, flow.stats.paid_twice, flow.stats.completion_tokens) == (1, 1, 5)
    assert "paid for twice" in flow.stats.summary()


async def test_equal_requests_in_flight_are_sent_once_and_fail_together():
    flow = Flow(Scripted(ChatReply("r"), ServerError("no", status=422)))
    assert await ends([flow(ask()) for _ in range(10)]) == {"ChatReply": 10}
    assert (flow.stats.done, flow.stats.shared) == (1, 9)
    assert await ends([flow(ask("bad")) for _ in range(3)]) == {"ServerError": 3}
    assert (len(flow.chat.requests), flow.stats.failed) == (2, 3)


# Retries


@pytest.mark.parametrize("bug", [ModelError("out of memory"), KeyError("bug")])
async def test_any_other_error_is_passed_on_at_once_and_frees_its_place(bug):
    flow = Flow(Scripted(bug), RequestOptions(max_in_flight=1))
    with pytest.raises(type(bug)):
        await flow(ask())
    assert (await flow(ask())).text == "reply to q"


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        *(
            ({"kind": kind}, count)
            for kind, count in (("http", 4), ("timeout", 2), ("protocol", 3))
        ),
        *(({"status": status}, 1) for status in (400, 404, 405, 422)),
    ],
)
async def test_attempts_are_limited_those_that_may_be_paid_for_to_fewer(failure, attempts):
    script = [ChatReply("r"), *[ServerError("x", **failure)] * 9]
    flow = Flow(Scripted(*script), RequestOptions(max_retries=3))
    await flow(ask("before"))
    with pytest.raises(ServerError, match="x"):
        await flow(ask())
    assert len(flow.chat.requests) == 1 + attempts


# When a run gives up


async def test_lasting_failures_in_a_row_end_the_run_unless_it_is_to_keep_going():
    script = [ChatReply("before"), *[ServerError("no such page", status=404)] * 100]
    for keep_going, found in (
        (False, {"ServerError": 24, "ServerUnavailable": 36}),
        (True, {"ServerError": 60}),
    ):
        options = RequestOptions(max_in_flight=1, keep_going=keep_going)
        flow = Flow(Scripted(*script), options)
        await flow(ask("before"))
        assert await ends(many(flow, 60)) == found


@pytest.mark.parametrize(
    ("status", "keep_going", "ended"),
    [(401, False, True), (401, True, True), (403, False, True), (403, True, False)],
)
async def test_a_key_that_is_refused_ends_the_run_after_one_more_try(status, keep_going, ended):
    refused = ServerError("no such key", status=status)
    options = RequestOptions(max_in_flight=1, keep_going=keep_going)
    flow = Flow(Scripted(*[ChatReply("r")] * 3, refused, *[ChatReply("r")] * 2), options)
    assert await ends(many(flow, 5)) == {"ChatReply": 5}, "a single refusal costs nothing"
    script = [*[ServerError("down", status=503)] * 2, refused, refused, ChatReply("late")]
    flow = Flow(Scripted(*script), options)
    assert await ends([flow(ask("q"))]) == {"ServerUnavailable" if ended else "ServerError": 1}
    assert len(flow.chat.requests) == 4


@pytest.mark.parametrize(("usable", "keep_going"), [(True, False), (False, True)])
async def test_one_reply_of_use_or_keep_going_lets_a_run_go_on(usable, keep_going):
    flow = Flow(Scripted(), RequestOptions(keep_going=keep_going))
    for number in range(60):
        fault = None if usable and number == 20 else "no_envelope"
        flow.judge_reply(await flow(ask(number)), fault)
    assert flow.stats.done == 60


# Replies that were cut


@pytest.mark.parametrize(
    ("script", "text", "limits"),
    [
        ([ChatReply("half", "length")], "reply to q", [100, 200]),
        ([ChatReply("half", "length")] * 3, "half", [100, 200]),
        ([ChatReply("half", "length"), ServerError("slow", kind="timeout")], "half", [100, 200]),
        ([ChatReply("half", "length"), ServerError("context", status=422)], "half", [100, 200]),
        ([ChatReply("We check it again. " * 40, "length")], "We check it again. " * 40, [100]),
    ],
)
async def test_a_cut_reply_is_asked_for_once_more_with_twice_the_tokens(
    script, text, limits, store
):
    flow = Flow(Scripted(*script), store=store)
    assert (await flow(ask(max_tokens=100))).text == text
    assert [one.sampling.max_tokens for one in flow.chat.requests] == limits
    assert (flow.stats.done, flow.stats.failed) == (1, 0)
    if text == "reply to q":
        again = Flow(Scripted(), store=store)
        assert (await again(ask(max_tokens=100))).cached


async def test_one_hopeless_solution_costs_no_more_than_is_stated():
    cut = ChatReply("cut", "length")
    script = [ServerError("bad", kind="timeout"), ServerError("bad", kind="protocol"), cut, cut]
    flow = Flow(Scripted(*script))
    await flow(ask(max_tokens=100))
    spent = sum(request.sampling.max_tokens for request in flow.chat.requests)
    assert flow.options.worst_case(100) == (spent, len(flow.chat.requests))


# How many at once


@pytest.mark.parametrize(
    ("named", "said", "sharers", "at_once"),
    [(5, None, 1, 5), (None, 12, 1, 12), (20, 12, 1, 12), (None, None, 1, 16), (None, 64, 8, 8)],
)
async def test_as_many_are_in_flight_as_is_known_to_be_right(named, said, sharers, at_once):
    chat = Scripted(hold=True)
    chat.max_concurrency = said
    flow = Flow(chat, RequestOptions(max_in_flight=named))
    flow.sharers = sharers
    calls = many(flow, 200)
    await settle()
    assert chat.in_flight == flow.tick().in_flight == at_once
    chat.gate.set()
    assert await ends(calls) == {"ChatReply": 200}
    assert chat.most == (64 if (named or said) is None else at_once)


@settings(max_examples=30)
@given(seed=st.randoms(use_true_random=False), start=st.integers(1, 20))
def test_cancelling_at_any_moment_loses_no_place_and_leaves_no_task(seed, start):
    async def run() -> None:
        cancelled = set()
        busy = [ServerError("busy", status=503) for _ in range(10)]
        flow = Flow(Scripted(*busy), RequestOptions(max_in_flight=start))
        calls = [asyncio.create_task(flow(ask(seed.randrange(15)))) for _ in range(40)]
        for _ in range(60):
            at = seed.randrange(len(calls))
            if calls[at].cancel():
                cancelled.add(at)
            for _ in range(seed.randrange(3)):
                await asyncio.sleep(0)
        found = await asyncio.gather(*calls, return_exceptions=True)
        await settle()
        # A request goes on while anybody waits for it.
        rest = [one for at, one in enumerate(found) if at not in cancelled]
        assert not any(isinstance(one, asyncio.CancelledError) for one in rest)
        assert (flow.tick().in_flight, flow.chat.in_flight) == (0, 0)
        assert no_task_is_left()
        assert (await flow(ask("afterwards"))).text == "reply to afterwards"

    asyncio.run(run())


async def crowded(places) -> None:
    await asyncio.wait([asyncio.create_task(places.take()) for _ in range(1000)], timeout=0)
    await settle()


async def after(places, *outcomes) -> int:
    """Let one request after the other end so, those that wait taking its place: how many there
    are then."""
    for outcome in outcomes:
        if outcome == "reply":
            places.replied()
        else:
            places.failed(ServerError("x", status=int(outcome)))
        places.leave()
        await settle()
    return places.in_flight


async def test_a_full_server_keeps_what_it_works_on_and_is_asked_for_more_now_and_then():
    places = Places(64)
    await crowded(places)
    assert await after(places, *["429"] * 7, "reply", *["429"] * 7, "reply") == 50
    assert await after(places, *["reply"] * 9) == 50
    assert await after(places, "reply") == 51
    assert await after(places, "429") == 50
    # What has nothing to do with the load costs no place.
    assert await after(places, *(["500", "503", *["reply"] * 4] * 30)) >= 50
    places.close()


async def test_a_server_that_is_down_is_asked_by_one_at_a_time_and_then_gets_all_back(monkeypatch):
    places, pauses = Places(32), []
    await crowded(places)
    # The test ends each pause: a busy machine must not.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _, resume: pauses.append(resume))
    assert await after(places, *["503"] * 32) == 0
    pauses.pop()()
    assert places.in_flight == 1
    assert await after(places, "503") == 0
    pauses.pop()()
    assert await after(places, *["reply"] * 40) == 32
    places.close()


# Ending a run


async def test_after_drain_what_is_in_flight_reaches_the_store_and_the_rest_is_not_sent(store):
    flow = Flow(Scripted(hold=True), RequestOptions(max_in_flight=3), store=store)
    calls = many(flow, 10)
    while flow.chat.in_flight < 3:
        await asyncio.sleep(0.001)
    flow.drain()
    await settle()
    # Also those that will be interrupted wait: whoever cancels the rest then loses nothing.
    assert not any(call.done() for call in calls)
    flow.chat.gate.set()
    assert await ends(calls) == {"ChatReply": 3, "Interrupted": 7}
    assert len(flow.chat.requests) == store.count() == 3
    with pytest.raises(Interrupted, match="run the same command again"):
        await flow(ask("later"))
    assert no_task_is_left()


async def test_drain_does_not_wait_for_retries(monkeypatch):
    monkeypatch.setattr(failures, "FIRST_WAIT", 60.0)
    monkeypatch.setattr(failures, "LONGEST_WAIT", 60.0)
    flow = Flow(Scripted(ServerError("busy", status=503)))
    call = asyncio.create_task(flow(ask()))
    await settle()
    flow.drain()
    with pytest.raises(Interrupted):
        await call


async def test_a_store_that_fails_ends_the_run_before_more_is_paid_for(store):
    flow = Flow(Scripted(), RequestOptions(max_in_flight=2), store=store)
    await flow(ask("before"))
    store._run("PRAGMA query_only = 1")
    assert await ends(many(flow, 50)) == {"StoreError": 50}
    assert len(flow.chat.requests) <= 1 + 2
    with pytest.raises(StoreError):
        await flow(ask("later"))


async def test_a_flow_serves_one_event_loop_at_a_time():
    flow = Flow(Scripted())
    assert (await flow(ask())).text == "reply to q"
    with pytest.raises(InputError, match="one event loop at a time"):
        await asyncio.to_thread(lambda: asyncio.run(flow(ask("from a thread"))))


# What is reported, and what may be spent


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
    chat = Scripted(*[ChatReply("r", "stop", 10, 10)] * 100)
    flow = Flow(chat, RequestOptions(longest_reply=0, **limits), store=store)
    calls = [flow(ask(number, max_tokens=100)) for number in range(40)]
    assert set(await ends(calls)) <= {"ChatReply", "BudgetSpent"}
    assert len(chat.requests) == sent == store.count()
    assert flow.spending.written <= limits.get("max_output_tokens", 10**9)
    assert flow.spending.spent <= limits.get("max_cost", 10**9)
    if limits:
        with pytest.raises(BudgetSpent, match=r"the budget is spent: .*to continue"):
            await flow(ask("one more", max_tokens=100))


@pytest.mark.parametrize(
    ("counts", "sent"), [((0, 0), 2), ((10, 3), 2), ((0, 100), 3), ((10, 90), 3), ((50, 60), 6)]
)
async def test_what_was_sent_and_received_is_counted_where_a_server_counts_less(
    counts, sent, store
):
    # 400 characters each way. At most 201 and 300 tokens, at the price of 1 each.
    limits = {"max_cost": 1150.0, "price_in": 1e6, "price_out": 1e6, "longest_reply": 0}
    chat = Scripted(*[ChatReply("r" * 400, "stop", *counts)] * 100)
    flow = Flow(chat, RequestOptions(**limits, max_in_flight=1), store=store)
    calls = [flow(ask(f"{number}" + "q" * 399, max_tokens=300)) for number in range(9)]
    await ends(calls)
    assert len(chat.requests) == sent


def test_a_cost_without_prices_is_refused():
    with pytest.raises(InputError, match="price_in and price_out"):
        RequestOptions(max_cost=5.0)
