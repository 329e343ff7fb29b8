"""The flow of requests: the server is kept full, nothing is asked twice, no reply is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.slow_server import MODEL, Fault, SlowServer
from rpd_metric.errors import InputError, ModelError, StoreError
from rpd_metric.models.chat import ChatReply, ChatRequest, Sampling
from rpd_metric.models.failures import (
    BudgetSpent,
    Interrupted,
    ServerError,
    ServerUnavailable,
)
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import load_chat
from rpd_metric.models.limit import AdaptiveLimit
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.retry import Clock, RequestRules, Retries
from rpd_metric.models.stats import FlowStats
from rpd_metric.models.store import ReplyStore

ROOT = Path(__file__).parents[3]
# Where the machine is busy, a reply may be late, or a place taken, more than once.
QUICK = Retries(attempts=100, first=0.01, longest=0.05, timeouts=20)


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


class SteppedClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def timed(chat, random=lambda: 0.5, **options) -> tuple[Flow, SteppedClock]:
    clock = SteppedClock()
    return Flow(chat, clock=Clock(clock, clock.sleep, random), **options), clock


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def no_task_is_left() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def store(tmp_path):
    with ReplyStore(tmp_path / "replies.sqlite") as opened:
        yield opened


@pytest.fixture
def server():
    with SlowServer(slots=8) as running:
        yield running


@pytest.fixture
async def client(server):
    chat = load_chat(f"openai:{server.url}/v1#{MODEL}")
    yield chat
    await chat.aclose()


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
    call = asyncio.create_task(Flow(chat, store=store)(ask()))
    while not chat.requests:
        await asyncio.sleep(0.001)
    store.put("scripted", ask(), ChatReply("of another process"))
    chat.gate.set()
    assert (await call).text == "of another process"


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
    flow, _ = timed(chat)
    assert (await flow(ask())).text == "reply to q"
    assert (flow.stats.retried, flow.stats.failed) == (2, 0)
    assert flow.stats.trouble == {f"http_{status}": 2}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_of_the_request_is_never_retried(status):
    # Not even when the client claims that it could be.
    chat = Scripted(ChatReply("before"), ServerError("refused", status=status, retryable=True))
    flow, clock = timed(chat)
    await flow(ask("before"))
    with pytest.raises(ServerError, match="refused"):
        await flow(ask())
    assert len(chat.requests) == 2
    assert clock.slept == []
    assert flow.stats.failures == {f"http_{status}": 1}


async def test_the_waits_double_up_to_the_longest_and_carry_full_jitter():
    failures = [ServerError("reset", kind="connection") for _ in range(6)]
    chat = Scripted(ChatReply("before"), *failures)
    flow, clock = timed(chat, rules=RequestRules(retries=Retries(first=1.0, longest=10.0)))
    await flow(ask("before"))
    await flow(ask())
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@given(
    attempt=st.integers(1, 9),
    draw=st.floats(0, 1, exclude_max=True),
    retry_after=st.none() | st.floats(0, 600),
)
def test_a_wait_is_never_shorter_than_asked_for_nor_longer_than_allowed(attempt, draw, retry_after):
    retries = Retries()
    error = ServerError("busy", status=429, retry_after=retry_after)
    wait = retries.wait(attempt, error, lambda: draw)
    assert wait is not None
    if retry_after is None:
        assert 0 <= wait <= min(60.0, 2.0 ** (attempt - 1))
    else:
        assert retry_after <= wait <= retry_after + 1


async def test_attempts_are_limited():
    chat = Scripted(*[ServerError("busy", status=503) for _ in range(100)])
    flow, _ = timed(chat, rules=RequestRules(retries=Retries(attempts=4)))
    with pytest.raises(ServerError, match="busy"):
        await flow(ask())
    assert len(chat.requests) == 4
    assert flow.stats.failures == {"http_503": 1}


async def test_a_longer_wait_than_there_is_patience_for_fails_the_request():
    chat = Scripted(ServerError("quota", status=429, retry_after=3600))
    flow, clock = timed(chat)
    with pytest.raises(ServerError, match="quota"):
        await flow(ask())
    assert clock.slept == []


async def test_while_retry_after_runs_nothing_new_is_sent():
    chat = Scripted(ServerError("later", status=429, retry_after=30))
    over = asyncio.Event()
    flow = Flow(chat, clock=Clock(sleep=lambda _: over.wait()))
    first = asyncio.create_task(flow(ask(1)))
    await settle()
    rest = [asyncio.create_task(flow(ask(number))) for number in range(2, 6)]
    await settle()
    assert len(chat.requests) == 1
    over.set()
    await asyncio.gather(first, *rest)
    assert len(chat.requests) == 6


async def test_a_cancelled_wait_for_retry_after_holds_up_nobody():
    chat = Scripted(ServerError("later", status=429, retry_after=30))
    flow = Flow(chat, clock=Clock(sleep=lambda _: asyncio.Event().wait()))
    first = asyncio.create_task(flow(ask(1)))
    await settle()
    second = asyncio.create_task(flow(ask(2)))
    await settle()
    first.cancel()
    assert (await second).text == "reply to 2"
    await settle()
    assert no_task_is_left()


async def test_a_failure_that_is_no_server_error_is_passed_on_at_once():
    chat = Scripted(ModelError("out of memory"))
    flow, clock = timed(chat)
    with pytest.raises(ModelError, match="out of memory"):
        await flow(ask())
    assert clock.slept == []
    assert flow.stats.failures == {"model_error": 1}


async def test_a_bug_in_a_client_keeps_its_traceback_and_frees_its_slot():
    flow = Flow(Scripted(KeyError("bug")), limit=AdaptiveLimit(start=1, most=1))
    with pytest.raises(KeyError):
        await flow(ask())
    assert (await flow(ask())).text == "reply to q"
    assert flow.stats.in_flight == 0


# Replies that were cut


async def test_a_cut_reply_is_asked_for_once_more_with_twice_the_tokens():
    cut = ChatReply("half", "length", 10, 100)
    chat = Scripted(cut, cut, cut)
    flow = Flow(chat)
    assert (await flow(ask(max_tokens=100))).text == "half"
    assert [request.sampling.max_tokens for request in chat.requests] == [100, 200]
    assert (flow.stats.done, flow.stats.extended, flow.stats.completion_tokens) == (1, 1, 200)


async def test_the_longest_reply_says_how_many_tokens_it_is():
    chat = Scripted(*[ChatReply("half", "length")] * 9)
    assert (
        await Flow(chat, rules=RequestRules(longest_reply=250))(ask(max_tokens=100))
    ).finish_reason == "length"
    assert [request.sampling.max_tokens for request in chat.requests] == [100, 250]


async def test_cut_replies_can_be_taken_as_they_are():
    chat = Scripted(ChatReply("half", "length"))
    assert (await Flow(chat, rules=RequestRules(longest_reply=0))(ask())).text == "half"


async def test_a_longer_reply_that_times_out_leaves_the_cut_one_and_is_not_repeated():
    timeout = ServerError("slow", kind="timeout")
    chat = Scripted(ChatReply("half", "length"), timeout, timeout, timeout)
    flow, clock = timed(chat)
    assert (await flow(ask())).text == "half"
    assert len(chat.requests) == 2
    assert clock.slept == []
    assert (flow.stats.kept_cut, flow.stats.failed) == (1, 0)


async def test_a_reply_that_loops_is_not_asked_for_again():
    chat = Scripted(ChatReply("We check the case again. " * 40, "length"))
    flow = Flow(chat)
    assert (await flow(ask())).finish_reason == "length"
    assert (len(chat.requests), flow.stats.looping) == (1, 1)


async def test_a_request_that_times_out_is_repeated_once_at_most():
    chat = Scripted(*[ServerError("slow", kind="timeout") for _ in range(20)])
    flow, _ = timed(chat)
    with pytest.raises(ServerError, match="slow"):
        await flow(ask())
    assert len(chat.requests) == 2


async def test_one_hopeless_solution_costs_no_more_than_is_stated():
    class Endless(Scripted):
        """Cut at every limit, after a first attempt that times out."""

        async def __call__(self, request):
            first = all(old != request for old in self.requests)
            self.requests.append(request)
            if first and request.sampling.max_tokens == 100:
                raise ServerError("slow", kind="timeout")
            return ChatReply(str(len(self.requests)), "length")

    options = RequestOptions(timeout=60)
    chat = Endless()
    flow = Flow.with_options(chat, options)
    flow._clock = Clock(sleep=SteppedClock().sleep)
    await flow(ask(max_tokens=100))
    spent = sum(request.sampling.max_tokens for request in chat.requests)
    assert spent == options.worst_case(100).tokens == 400
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
    flow = Flow(chat, limit=AdaptiveLimit(start=5, most=5))
    calls = [asyncio.create_task(flow(ask(number))) for number in range(40)]
    await settle()
    assert (chat.in_flight, flow.stats.in_flight) == (5, 5)
    chat.gate.set()
    await asyncio.gather(*calls)
    assert (chat.most, flow.stats.in_flight) == (5, 0)


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
    flow = Flow(chat, limit=AdaptiveLimit(start=1, most=1))
    calls = [asyncio.create_task(flow(ask(number))) for number in range(4)]
    await settle()
    calls[0].cancel()
    calls[1].cancel()
    await settle()
    assert [request.messages[0]["content"] for request in chat.requests] == ["0", "2"]
    chat.gate.set()
    await asyncio.gather(*calls[2:])
    assert flow.limit.in_flight == 0
    assert no_task_is_left()


@given(seed=st.randoms(use_true_random=False), start=st.integers(1, 20))
def test_cancelling_at_any_moment_loses_no_slot_and_leaves_no_task(seed, start):
    async def run() -> None:
        chat = Scripted(*[ServerError("busy", status=503) for _ in range(10)])
        flow = Flow(
            chat,
            limit=AdaptiveLimit(start=start, most=20),
            rules=RequestRules(retries=Retries(first=0.0, longest=0.0), stop_after=None),
        )
        calls = [asyncio.create_task(flow(ask(seed.randrange(15)))) for _ in range(40)]
        for _ in range(60):
            seed.choice(calls).cancel()
            for _ in range(seed.randrange(3)):
                await asyncio.sleep(0)
        await asyncio.gather(*calls, return_exceptions=True)
        await settle()
        assert (flow.limit.in_flight, flow.stats.in_flight, chat.in_flight) == (0, 0, 0)
        assert no_task_is_left()
        assert (await flow(ask("afterwards"))).text == "reply to afterwards"

    asyncio.run(run())


# Over HTTP, with a real client


async def test_a_storm_of_429_ends_with_every_reply(server, client):
    server.median = 0.02
    flow = Flow(client, limit=AdaptiveLimit(start=64), rules=RequestRules(retries=QUICK))
    replies = await asyncio.gather(*(flow(ask(number)) for number in range(200)))
    assert len(replies) == 200
    assert flow.stats.failed == 0
    assert flow.stats.retried == server.outcomes["429"] > 0
    assert server.outcomes["200"] == 200
    assert server.most_busy <= 8


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503),
        Fault(status=429, retry_after="0"),
        Fault(status=500),
        Fault(reset=True),
    ],
    ids=["503", "retry-after", "500", "reset"],
)
async def test_faults_that_pass_are_mended(server, client, store, fault):
    server.faults.extend([fault] * 12)
    flow = Flow(client, store=store, rules=RequestRules(retries=QUICK))
    await asyncio.gather(*(flow(ask(number)) for number in range(30)))
    assert (flow.stats.done, flow.stats.failed, store.count()) == (30, 0, 30)
    assert flow.stats.retried == 12


async def test_a_hang_times_out_is_retried_and_lowers_the_limit(server, client):
    server.faults.append(Fault(hang=True))
    flow = Flow(
        client, limit=AdaptiveLimit(start=1), rules=RequestRules(timeout=0.3, retries=QUICK)
    )
    limits = []
    flow.limit.troubled = lambda ticket: limits.append(ticket)
    assert (await flow(ask())).text
    assert flow.stats.trouble["timeout"] >= 1
    assert len(limits) == flow.stats.trouble["timeout"]


async def test_a_slow_body_is_waited_for_within_the_timeout(server, client):
    server.faults.append(Fault(body_takes=0.3))
    flow = Flow(client, rules=RequestRules(timeout=30.0))
    assert (await flow(ask())).text
    assert flow.stats.retried == 0


async def test_a_slow_body_beyond_the_timeout_is_a_timeout(server, client):
    server.faults.append(Fault(body_takes=30.0))
    flow = Flow(client, rules=RequestRules(timeout=0.3, retries=QUICK))
    assert (await flow(ask())).text
    assert flow.stats.trouble["timeout"] >= 1


async def test_a_422_is_sent_once_and_fails_alone(server, client):
    flow = Flow(client, rules=RequestRules(retries=QUICK))
    await flow(ask("warm"))
    server.faults.append(Fault(status=422))
    outcomes = await asyncio.gather(
        *(flow(ask(number)) for number in range(5)), return_exceptions=True
    )
    failed = [outcome for outcome in outcomes if isinstance(outcome, ServerError)]
    assert [error.status for error in failed] == [422]
    assert server.outcomes["422"] == 1
    assert flow.stats.failures == {"http_422": 1}


async def test_retry_after_of_the_server_is_honoured(server, client):
    server.faults.append(Fault(status=503, retry_after="7"))
    flow, clock = timed(client, rules=RequestRules(timeout=None))
    await flow(ask())
    assert clock.slept == [7.5]


async def test_the_flow_survives_a_restart_of_the_server(server, client):
    flow = Flow(client, rules=RequestRules(retries=Retries(first=0.2, longest=0.5)))
    server.median = 0.05
    calls = [asyncio.create_task(flow(ask(number))) for number in range(60)]
    await asyncio.sleep(0.1)
    await asyncio.to_thread(server.restart)
    assert len(await asyncio.gather(*calls)) == 60
    assert flow.stats.failed == 0


# Ending a run


async def test_after_drain_what_is_in_flight_reaches_the_store_and_the_rest_is_not_sent(store):
    chat = Scripted(hold=True)
    flow = Flow(chat, store=store, limit=AdaptiveLimit(start=3, most=3))
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
    flow = Flow(chat, store=store, limit=AdaptiveLimit(start=3, most=3))

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


async def test_drain_does_not_wait_for_retries():
    chat = Scripted(ServerError("busy", status=503))
    flow = Flow(chat, clock=Clock(sleep=lambda _: asyncio.Event().wait()))
    call = asyncio.create_task(flow(ask()))
    await settle()
    flow.drain()
    with pytest.raises(Interrupted):
        await call


async def test_request_after_request_failing_ends_the_run():
    chat = Scripted(ChatReply("before"), *[ServerError("no such key", status=401)] * 100)
    flow = Flow(chat, rules=RequestRules(stop_after=5))
    await flow(ask("before"))
    for _ in range(4):
        with pytest.raises(ServerError):
            await flow(ask())
    with pytest.raises(ServerUnavailable, match=r"5 requests .* in a row.*no such key"):
        await flow(ask())
    with pytest.raises(ServerUnavailable):
        await flow(ask())
    assert len(chat.requests) == 6


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_wrong_address_model_or_key_ends_a_run_that_had_no_reply_yet(status):
    chat = Scripted(*[ServerError("The model `typo` does not exist.", status=status)] * 100)
    flow = Flow(chat)
    calls = [flow(ask(number)) for number in range(30)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ServerUnavailable}
    assert str(outcomes[0]) == "The model `typo` does not exist."
    assert len(chat.requests) <= 20  # what was in flight at the first refusal, and hardly more


async def test_a_server_that_never_answers_is_named_at_once_and_given_up_after_15_seconds():
    chat = Scripted(*[ServerError("no reply from http://a.", kind="connection")] * 100)
    said: list[str] = []
    flow, clock = timed(chat, notify=said.append)
    with pytest.raises(ServerUnavailable, match="no reply from http://a"):
        await flow(ask())
    assert 10 < clock.now <= 15
    assert said == ["no reply from http://a. It is tried for 15 s."]
    assert len(chat.requests) < 15


async def test_a_server_that_has_answered_is_waited_for_longer():
    gone = [ServerError("gone", kind="connection") for _ in range(8)]
    flow, clock = timed(Scripted(ChatReply("before"), *gone))
    await flow(ask("before"))
    assert (await flow(ask())).text == "reply to q"
    assert clock.now > 30


async def test_failures_with_replies_between_them_or_about_the_request_do_not_end_it():
    script = [ChatReply("r")]
    for _ in range(9):
        script += [ServerError("down", status=401)] * 4 + [ChatReply("r")]
    script += [ServerError("down", status=401)] * 4
    chat = Scripted(*script, *[ServerError("too long", status=422) for _ in range(50)])
    flow = Flow(chat, rules=RequestRules(stop_after=5))
    for _ in range(100):
        with contextlib.suppress(ServerError):
            await flow(ask())
    assert (flow.stats.done, flow.stats.failed) == (10, 90)


async def test_a_store_that_fails_ends_the_run_before_more_is_paid_for(store):
    chat = Scripted()
    flow = Flow(chat, store=store, limit=AdaptiveLimit(start=2, most=2))
    await flow(ask("before"))
    store.file.execute("PRAGMA query_only = 1", ())
    outcomes = await asyncio.gather(*(flow(ask(n)) for n in range(50)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreError}
    assert len(chat.requests) <= 1 + 2
    store.file.execute("PRAGMA query_only = 0", ())
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
    assert flow.limit.in_flight == 0


async def test_two_event_loops_at_once_are_refused():
    flow = Flow(Scripted())
    await flow(ask())
    with pytest.raises(InputError, match="one event loop at a time"):
        await asyncio.to_thread(lambda: asyncio.run(flow(ask("from a thread"))))


# How many are in flight at the beginning


@pytest.mark.parametrize(("owner", "count"), [("vllm", 64), ("sglang", 64), ("somebody", None)])
async def test_a_server_says_who_it_is_and_is_believed_to_batch(owner, count):
    with SlowServer(owner=owner) as server:
        chat = load_chat(f"openai:{server.url}/v1#{MODEL}")
        assert await chat.at_once() == count
        await chat.aclose()
    assert await chat.at_once() is None  # gone: the first request says it better


class Batching(Scripted):
    """A chat model that is known to work on many requests at once."""

    async def at_once(self):
        return 64


@pytest.mark.parametrize(("kind", "at_first"), [(Scripted, 16), (Batching, 40)])
async def test_a_model_that_batches_is_given_all_of_a_small_run_at_once(kind, at_first):
    chat = kind(hold=True)
    calls = [asyncio.create_task(one) for one in map(Flow(chat), map(ask, range(40)))]
    await settle()
    assert len(chat.requests) == at_first
    chat.gate.set()
    await asyncio.gather(*calls)


async def test_processes_that_share_a_server_that_batches_begin_with_a_part_each():
    chat = Batching(hold=True)
    flow = Flow(chat)
    flow.share(8)
    calls = [asyncio.create_task(flow(ask(number))) for number in range(40)]
    await settle()
    assert flow.limit.allowed == 64 // 8
    chat.gate.set()
    await asyncio.gather(*calls)


async def test_a_serial_server_that_keeps_a_queue_is_never_waited_for_long():
    clock, turn, took = SteppedClock(), asyncio.Lock(), []

    class Serial:
        """A second for each reply, one after the other; it refuses nobody."""

        model = "serial"

        async def __call__(self, request):
            began = clock.now
            async with turn:
                await clock.sleep(1.0)
            took.append(clock.now - began)
            return ChatReply("r", "stop", 10, 5)

    flow = Flow(Serial(), clock=Clock(clock, clock.sleep, lambda: 0.5))
    await asyncio.gather(*(flow(ask(number)) for number in range(300)))
    assert max(took) <= 16  # the last of 256 that are sent at once would wait 256 s
    assert flow.limit.allowed <= 16


# What is reported


async def test_the_counts_make_a_line_a_summary_and_a_row(store):
    chat = Scripted(
        ServerError("busy", status=503),
        ChatReply("a", "stop", 100, 50),
        ServerError("x", status=422),
    )
    flow, _ = timed(chat, store=store, random=lambda: 1.0)
    await flow(ask(1))
    await flow(ask(1))
    with pytest.raises(ServerError):
        await flow(ask(2))
    assert str(flow.stats) == ("1 done, 1 cached, 1 failed, 1 retried, 0 in flight, 50 tokens/s")
    assert flow.stats.line(total=13).endswith(", 50 tokens/s, 0:00:05 left")
    summary = flow.stats.summary()
    assert summary.splitlines()[0] == (
        "3 requests: 1 answered by the model, 1 from the store, 0 shared, 1 failed"
    )
    assert "failed by reason: http_422 1" in summary
    assert "failed attempts by reason: http_422 1, http_503 1" in summary
    row = json.loads(json.dumps(flow.stats.as_row()))
    assert row["failures"] == {"http_422": 1}
    assert (row["done"], row["prompt_tokens"], row["completion_tokens"]) == (1, 100, 50)


@pytest.mark.parametrize(
    ("seconds", "done", "total", "left"),
    [(10.0, 10, 10, "0:00:00"), (10.0, 10, 3700, "1:01:30"), (60.0, 1, 1001, "16:40:00")],
)
def test_the_time_left_follows_from_the_pace(seconds, done, total, left):
    stats = FlowStats(done=done, seconds=seconds)
    assert stats.line(total).endswith(f"{left} left")


def test_nothing_is_said_of_the_time_left_before_the_first_reply():
    assert "left" not in FlowStats().line(total=10)


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
    flow = Flow.with_options(chat, options, store=store)
    outcomes = await asyncio.gather(
        *(flow(ask(number, max_tokens=100)) for number in range(40)), return_exceptions=True
    )
    assert {type(one) for one in outcomes} <= {ChatReply, BudgetSpent}
    assert len(chat.requests) == sent == store.count()
    assert flow.budget.written <= limits.get("max_output_tokens", 10**9)
    assert flow.budget.spent <= limits.get("max_cost", 10**9)
    if limits:
        with pytest.raises(BudgetSpent, match=r"the budget is spent: .*goes on"):
            await flow(ask("one more", max_tokens=100))


async def test_what_the_store_holds_costs_nothing(store):
    await Flow(Scripted(), store=store)(ask())
    flow = Flow.with_options(Scripted(), RequestOptions(max_requests=1), store=store)
    assert (await flow(ask())).cached
    assert flow.budget.sent == 0


def test_a_cost_without_prices_is_refused():
    with pytest.raises(InputError, match="--price-in and --price-out"):
        RequestOptions(max_cost=5.0)
