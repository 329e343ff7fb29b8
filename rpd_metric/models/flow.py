"""The flow of requests to a chat model: keeps the server full and loses no reply.

`Flow` wraps a chat client, which makes one attempt per call, and is itself a chat model. It
answers from the store what the store holds, sends identical requests once, finds out how many
requests the server takes at a time, repeats what failed for a passing reason, and stops without
losing what is in flight.

A `ServerError` is one request's failure. `Interrupted`, `ServerUnavailable` and a `StoreError`
(a reply that cannot be kept is money lost) end the run. They are raised only once the requests
in flight have ended, so whoever cancels the other tasks on the first error cancels nothing that
was paid for.

What it leaves out: who starts next (`turns.py`), when a server is given up (`availability.py`),
parsing, the wire (`tgi.py`, `openai.py`) and threads. A flow serves one event
loop at a time; it may be used again from another one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from rpd_metric.errors import InputError, ModelError, RPDError, StoreError
from rpd_metric.models.availability import Availability
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest
from rpd_metric.models.failures import (
    TROUBLE,
    BudgetSpent,
    Interrupted,
    ServerError,
    ServerUnavailable,
)
from rpd_metric.models.limit import AdaptiveLimit
from rpd_metric.models.repetition import ends_in_loop
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.retry import Clock, RequestRules, Retries
from rpd_metric.models.spending import Spending
from rpd_metric.models.stats import FlowStats
from rpd_metric.models.store import Replies, RequestKeys
from rpd_metric.models.turns import Turns

logger = logging.getLogger(__name__)

# What is in flight when a run is asked to stop has so long to end.
DRAIN_SECONDS = 60.0


class Flow:
    """A chat model that is always answered from the store first and kept busy otherwise.

    Args:
        chat ([`Chat`]): The client; it makes one attempt per call and raises [`ServerError`].
            If it has `max_concurrency`, the server's own limit, the flow starts from that.
        store ([`~store.Replies`], *optional*): Where replies are looked up and kept.
        limit ([`AdaptiveLimit`], *optional*): How many requests may be in flight.
        rules ([`RequestRules`], *optional*): What one request may take.
        budget ([`~budget.Spending`], *optional*): What may be spent.
        notify (`Callable`): Called with a line about a server that does not answer.
        clock ([`Clock`], *optional*): Time and chance; given by tests.

    Example:

    ```python
    >>> from rpd_metric.models.chat import ChatReply, ChatRequest
    >>> class Echo:
    ...     model = "echo"
    ...     async def __call__(self, request):
    ...         return ChatReply(text=request.messages[-1]["content"])
    >>> flow = Flow(Echo())
    >>> request = ChatRequest(messages=({"role": "user", "content": "2 + 2?"},))
    >>> asyncio.run(flow(request)).text, flow.stats.done
    ('2 + 2?', 1)

    ```
    """

    def __init__(
        self,
        chat: Chat,
        *,
        store: Replies | None = None,
        limit: AdaptiveLimit | None = None,
        rules: RequestRules | None = None,
        budget: Spending | None = None,
        notify: Callable[[str], object] = logger.warning,
        clock: Clock | None = None,
    ) -> None:
        self.chat = chat
        self.model = chat.model
        self.store = store
        self.limit = limit or AdaptiveLimit()
        self.max_concurrency: int | None = getattr(chat, "max_concurrency", None)
        if self.max_concurrency is not None:
            self.limit.server_takes(self.max_concurrency)
        self.rules = rules or RequestRules()
        self.budget = budget or Spending()
        self.stats = FlowStats()
        self._clock = clock or Clock()
        self._server = Availability(self.model, self.rules.stop_after, notify, self._clock.now)
        self._began: float | None = None
        self._ending: RPDError | None = None
        self._meeting: asyncio.Task[None] | None = None
        self._sharers = 1
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def with_options(
        cls, chat: Chat, options: RequestOptions, *, store: Replies | None = None
    ) -> Flow:
        """The flow that options describe."""
        return cls(
            chat,
            store=store,
            limit=AdaptiveLimit(most=options.max_in_flight),
            rules=RequestRules(
                retries=Retries(attempts=1 + options.max_retries),
                timeout=options.timeout,
                longest_reply=options.longest_reply,
            ),
            budget=options.budget(),
        )

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Args:
            request ([`ChatRequest`]): The request.

        Returns:
            [`ChatReply`]: From the store (`cached=True`) or from the model.

        Raises:
            ServerError: When the server refuses the request, or retries did not help.
            ModelError: When the model failed in another way.
            StoreError: When the store cannot be read or written.
            Interrupted: After [`~Flow.drain`].
            BudgetSpent: When what may be spent is.
            ServerUnavailable: When too many requests in a row were given up, or the server is
                the wrong one or never answered.
        """
        self._attach()
        keys = RequestKeys.of(self.model, request)
        outcome: ChatReply | RPDError | None
        while (other := self._asking.get(keys.exact)) is not None:
            # The outcome is `None` when the task that asked was cancelled: then ask ourselves.
            outcome = await asyncio.shield(other)
            if isinstance(outcome, ChatReply):
                self.stats.shared += 1
                return outcome
            if outcome is not None:
                self._count_failure(outcome)
                raise outcome
        mine: asyncio.Future[ChatReply | RPDError | None] = self._new_future()
        self._asking[keys.exact] = mine
        outcome = None
        try:
            outcome = await self._answer(request, keys)
            return outcome
        except ModelError as error:
            outcome = error
            self._count_failure(error)
            raise
        except (StoreError, Interrupted, BudgetSpent, ServerUnavailable) as error:
            outcome = error
            self._end(error)
            await self._turns.idle.wait()
            raise
        finally:
            self.tick()
            self._asking.pop(keys.exact, None)
            mine.set_result(outcome)

    def share(self, sharers: int) -> None:
        """Take only a part of what the server says it takes, because others ask it as well.

        A server that does not say what it takes is shared without this: each finds out how much
        is left for it.

        Args:
            sharers (`int`): How many processes ask the server, this one included.
        """
        self._sharers = sharers
        if self.max_concurrency is not None:
            self.limit.server_takes(max(1, self.max_concurrency // sharers))

    def drain(self) -> None:
        """Start no new request from now on; calls raise [`Interrupted`] once all have ended.

        What is in flight has `DRAIN_SECONDS` to end. May be called from a signal handler or
        another thread.
        """
        self._end(
            Interrupted(
                "stopped on request; run the same command again to continue"
                + (" (replies so far are in the store)" if self.store else "")
            )
        )

    def abort(self) -> None:
        """Like [`~Flow.drain`], but what is in flight is given up too.

        May be called from a signal handler or another thread.
        """
        self.drain()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_within, 0.0)

    def _attach(self) -> None:
        """Begin anew when the event loop is another one than last time."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise InputError("a Flow serves one event loop at a time; make one per thread")
        self._loop = loop
        self._asking: dict[str, asyncio.Future[ChatReply | RPDError | None]] = {}
        self._turns = Turns(self.limit, self.stats)
        self._deadlines: dict[asyncio.Timeout, float] = {}  # with the time that each began
        self._settled = asyncio.Event()
        self.budget.on_settled[id(self)] = self._settled.set
        self._halt: asyncio.Future[None] = loop.create_future()
        if self._ending is not None:
            self._halt.set_result(None)
            self._turns.close()
        if self._began is None:
            self._began = self._clock.now()
            ask = getattr(self.chat, "at_once", None)
            if ask is not None and self.max_concurrency is None:
                # Beside the first requests: they need not wait for it.
                self._meeting = loop.create_task(self._meet(ask))

    def _new_future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _answer(self, request: ChatRequest, keys: RequestKeys) -> ChatReply:
        reply = await self._fetch(request, keys)
        longer = self._longer(request, reply)
        if longer is not None:
            try:
                reply = await self._fetch(longer, RequestKeys.of(self.model, longer), attempts=1)
                self.stats.extended += not reply.cached
            except ServerError:
                # Too slow, or more tokens than the server's context holds. The cut reply stands.
                self.stats.kept_cut += 1
        if reply.cached:
            self.stats.cached += 1
        else:
            self.stats.done += 1
        return reply

    def _longer(self, request: ChatRequest, reply: ChatReply) -> ChatRequest | None:
        sampling = request.sampling
        most = self.rules.longest_reply
        tokens = 2 * sampling.max_tokens if most is None else most
        if reply.finish_reason != "length" or tokens <= sampling.max_tokens:
            return None
        if ends_in_loop(reply.text):
            self.stats.looping += not reply.cached
            return None
        return replace(request, sampling=replace(sampling, max_tokens=tokens))

    async def _fetch(
        self, request: ChatRequest, keys: RequestKeys, attempts: int | None = None
    ) -> ChatReply:
        if not isinstance(self._ending, BudgetSpent):  # what is stored costs nothing
            self._check()
        if self.store is not None:
            # Not in a thread, unlike `keep`: a reader of the file does not wait for its writers,
            # and a look-up takes a fraction of what a thread costs.
            reply = self.store.find(keys, other_lengths=self.rules.other_lengths)
            if reply is not None:
                return reply
        timeouts = 0
        for attempt in count(1):
            share = await self._afford(request)
            reply = None
            try:
                ticket = await self._turn(first=attempt == 1)
                reply = await self._attempt(request, keys, ticket)
                return reply
            except ServerError as error:
                failure = error
            finally:
                self.budget.settle(share, reply)
            self.stats.trouble[failure.reason] += 1
            timeouts += failure.kind == "timeout"
            wait = self.rules.retries.wait(attempt, failure, self._clock.draw, timeouts)
            if attempt == attempts and failure.status != 429:
                raise failure
            wait, ending = self._server.failed(failure, wait)
            self._stop(ending)
            if wait is None:
                break
            self.stats.retried += 1
            await self._pause(wait, for_all=failure.retry_after is not None)
        self._stop(self._server.lost(failure))
        raise failure

    async def _meet(self, ask: Callable[[], Awaitable[int | None]]) -> None:
        """Learn from a server that works on many requests at a time, and let more start."""
        count = await ask()
        if count is not None:
            self.limit.server_batches(max(1, count // self._sharers))
            self._turns.admit()

    async def _afford(self, request: ChatRequest) -> int:
        """Set the most that an attempt can cost aside, or end the run."""
        while (share := self.budget.take(request)) is None:
            self._check()
            if not self.budget.waiting:
                self._stop(
                    BudgetSpent(
                        f"the budget is spent: {self.budget.said()}; replies so far are kept, and "
                        "the same command with a larger budget goes on"
                    )
                )
            # What is in flight may cost less than was set aside for it.
            self._settled.clear()
            await self._settled.wait()
        return share

    async def _turn(self, *, first: bool) -> int:
        """Wait until a request may start, and start it."""
        self._check()
        ticket = await self._turns.take(first=first)
        if ticket is None:
            self._check()
            raise AssertionError("a queue is only emptied when the flow ends")
        return ticket

    async def _attempt(self, request: ChatRequest, keys: RequestKeys, ticket: int) -> ChatReply:
        try:
            reply = await self._send(request, ticket)
            self._server.replied()
            self.stats.prompt_tokens += reply.prompt_tokens or 0
            self.stats.completion_tokens += reply.completion_tokens or 0
            if self.store is None:
                return reply
            # In a thread, because another process may be writing. The place is kept until the
            # reply is: a store that stands still must hold up the requests, or replies would be
            # paid for that may have to be thrown away.
            return await asyncio.to_thread(self.store.keep, keys, reply)
        except StoreError as error:
            # Before leaving, which lets the next one start.
            self._end(error)
            raise
        finally:
            self._turns.leave()

    async def _send(self, request: ChatRequest, ticket: int) -> ChatReply:
        started = self._clock.now()
        try:
            async with asyncio.timeout(self.rules.timeout) as deadline:
                self._deadlines[deadline] = started
                reply = await self.chat(request)
        except TimeoutError:
            if self._ending is not None:
                self._check()
            self.limit.troubled(ticket)
            raise ServerError(
                f"{self.model} did not reply in time ({self.rules.timeout} s)", kind="timeout"
            ) from None
        except ServerError as error:
            if error.status == 429:
                self.limit.refused(ticket)
            elif error.status in TROUBLE or error.kind == "timeout":
                self.limit.troubled(ticket)
            raise
        finally:
            self._deadlines.pop(deadline, None)
        seconds = self._clock.now() - started
        self.limit.replied(seconds, reply.completion_tokens)
        return reply if reply.seconds is not None else replace(reply, seconds=seconds)

    async def _pause(self, seconds: float, *, for_all: bool) -> None:
        sleeping = asyncio.create_task(self._clock.sleep(seconds))
        with self._turns.paused(for_all):
            try:
                await asyncio.wait((sleeping, self._halt), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()

    def _stop(self, error: RPDError | None) -> None:
        """End the run where there is a reason to, and raise what ended it."""
        if error is not None:
            self._end(error)
            self._check()

    def _end(self, error: RPDError) -> None:
        if self._ending is None:
            self._ending = error
            if self._loop is not None:
                self._turns.close()
            if self._loop is not None and not self._loop.is_closed():
                # Also wakes a loop that waits for the network when a signal handler called.
                self._loop.call_soon_threadsafe(self._empty_queue)

    def _empty_queue(self) -> None:
        if not self._halt.done():
            self._halt.set_result(None)
        self._end_within(DRAIN_SECONDS)
        self._turns.dismiss()

    def _end_within(self, seconds: float) -> None:
        latest = asyncio.get_running_loop().time() + seconds
        for deadline in self._deadlines:
            when = deadline.when()
            if not deadline.expired() and (when is None or when > latest):
                deadline.reschedule(latest)

    def _check(self) -> None:
        if self._ending is not None:
            raise self._ending.with_traceback(None)

    def _count_failure(self, error: RPDError) -> None:
        if isinstance(error, ModelError):
            reason = error.reason if isinstance(error, ServerError) else "model_error"
            self.stats.failed += 1
            self.stats.failures[reason] += 1

    def tick(self) -> FlowStats:
        """Bring the clock's figures in `stats` up to date; for a display's timer."""
        now = self._clock.now()
        self.stats.seconds = now - (now if self._began is None else self._began)
        if self._loop is not None:
            self.stats.oldest = now - min(list(self._deadlines.values()), default=now)
        return self.stats


@contextmanager
def draining(*flows: Flow, notify: Callable[[str], object] = logger.warning) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, let the requests in flight finish; on the second, stop at once.

    The first signal calls [`~Flow.drain`] on every flow, the second [`~Flow.abort`]. With the
    second the former handlers are back, so a third does what it did before this was entered
    (Ctrl-C: `KeyboardInterrupt`); so does the second when nothing is in flight. Not sooner,
    because an exception thrown into the middle of an event loop can leave it hanging.

    This is a plain context manager, since it must also go around code that runs an event loop
    of its own, such as `datasets.Dataset.map` with an async function; inside a coroutine it
    works just as well. Python delivers signals to the main thread only: in other threads it
    does nothing.

    Args:
        flows ([`Flow`]): What to drain.
        notify (`Callable`): Told in one line what happens now.

    Raises:
        Interrupted: When a signal came, even if the work within then ended by itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former: dict[signal.Signals, Any] = {}
    received: list[str] = []

    def put_back() -> None:
        for number, handler in former.items():
            # `None` stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def on_signal(number: int, _frame: object) -> None:
        received.append(signal.Signals(number).name)
        waiting = sum(flow.stats.in_flight for flow in flows)
        if len(received) == 1:
            for flow in flows:
                flow.drain()
            notify(
                f"{received[0]}: finishing {waiting} requests in flight, at most "
                f"{DRAIN_SECONDS:g} s; again to stop at once"
            )
            return
        put_back()
        for flow in flows:
            flow.abort()
        if not waiting:
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        former[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        put_back()
    if received:
        raise Interrupted(f"stopped by {received[0]}; run the same command again to continue")
