"""The flow of requests to a chat model: keeps the server full and loses no reply.

`Flow` wraps a chat client, which makes one attempt per call, and is itself a chat model. It
answers from the store what the store holds, sends identical requests once, finds out how many
requests the server takes at a time, repeats what failed for a passing reason, and stops without
losing what is in flight.

A `ServerError` is one request's failure. `Interrupted`, `ServerUnavailable` and a `StoreError`
(a reply that cannot be kept is money lost) end the run. They are raised only once the requests
in flight have ended, so whoever cancels the other tasks on the first error cancels nothing that
was paid for.

What it leaves out: parsing, the wire (`tgi.py`, `openai.py`) and threads. A flow serves one event
loop at a time; it may be used again from another one.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import count
from typing import Any

from rpd_metric.errors import InputError, ModelError, RPDError, StoreError
from rpd_metric.inference.budget import Budget
from rpd_metric.inference.chat import Chat, ChatReply, ChatRequest
from rpd_metric.inference.errors import (
    TROUBLE,
    UNFIT_REQUEST,
    WRONG_SERVER,
    BudgetSpent,
    Interrupted,
    ServerError,
    ServerUnavailable,
)
from rpd_metric.inference.limit import AdaptiveLimit
from rpd_metric.inference.options import RequestOptions
from rpd_metric.inference.progress import FlowStats
from rpd_metric.inference.repetition import ends_in_loop
from rpd_metric.inference.request_key import RequestKeys
from rpd_metric.inference.retry import Retries
from rpd_metric.inference.store import Replies

logger = logging.getLogger(__name__)

# A server that has never answered is asked every so often, and given up after so long.
UNANSWERED_WAIT = 2.0
UNANSWERED_SECONDS = 15.0
# What is in flight when a run is asked to stop has so long to end.
DRAIN_SECONDS = 60.0


class Flow:
    """A chat model that is always answered from the store first and kept busy otherwise.

    Args:
        chat ([`Chat`]): The client; it makes one attempt per call and raises [`ServerError`].
            If it has `max_concurrency`, the server's own limit, the flow starts from that.
        store ([`~store.Replies`], *optional*): Where replies are looked up and kept.
        limit ([`AdaptiveLimit`], *optional*): How many requests may be in flight.
        retries ([`Retries`], *optional*): When to repeat an attempt.
        timeout (`float`, *optional*): Seconds for one attempt, from request to last byte; `None`
            waits for ever.
        longest_reply (`int`, *optional*): A reply cut by length is asked for once more with so
            many tokens: twice the request's if unset, never if 0. If that does not succeed at its
            first attempt, the cut reply stands. One that ends in a loop is never asked for again.
        budget ([`~budget.Budget`], *optional*): What may be spent.
        other_lengths (`bool`): Whether a stored reply to the same request with another limit on
            its length may answer, where it would have been the same or longer.
        stop_after (`int`, *optional*): Requests in a row that may be given up for reasons that
            lie with the server before the run ends; `None` never ends it.
        notify (`Callable`): Called with a line about a server that does not answer.
        clock, sleep, random (`Callable`): Time in seconds, an async sleep, and a draw from
            [0, 1); given by tests.

    Example:

    ```python
    >>> from rpd_metric.inference.chat import ChatReply, ChatRequest
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
        retries: Retries | None = None,
        timeout: float | None = 600.0,
        longest_reply: int | None = None,
        budget: Budget | None = None,
        other_lengths: bool = True,
        stop_after: int | None = 25,
        notify: Callable[[str], object] = logger.warning,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.chat = chat
        self.model = chat.model
        self.store = store
        self.limit = limit or AdaptiveLimit()
        self.max_concurrency: int | None = getattr(chat, "max_concurrency", None)
        if self.max_concurrency is not None:
            self.limit.server_takes(self.max_concurrency)
        self.retries = retries or Retries()
        self.timeout = timeout
        self.longest_reply = longest_reply
        self.budget = budget or Budget()
        self.other_lengths = other_lengths
        self.stop_after = stop_after
        self.stats = FlowStats()
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._began: float | None = None
        self._ending: RPDError | None = None
        self._lost_in_a_row = 0
        self._answered = False  # whether the server has said anything at all
        self._silent_since: float | None = None
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
            retries=Retries(attempts=1 + options.max_retries),
            timeout=options.timeout,
            longest_reply=options.longest_reply,
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
            ServerUnavailable: When `stop_after` requests in a row were given up, or the server is
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
            await self._idle.wait()
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
        self._queue: deque[asyncio.Future[int | None]] = deque()
        # Requests waiting out a Retry-After: while there are any, nothing new starts.
        self._told_to_wait = 0
        self._deadlines: dict[asyncio.Timeout, float] = {}  # with the time that each began
        self._settled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._halt: asyncio.Future[None] = loop.create_future()
        if self._ending is not None:
            self._halt.set_result(None)
        if self._began is None:
            self._began = self._clock()

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
        most = self.longest_reply
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
        self._check()
        if self.store is not None:
            # Not in a thread, unlike `put`: a reader of the file does not wait for its writers,
            # and a look-up takes a fraction of what a thread costs.
            reply = self.store.get(self.model, request, keys=keys, other_lengths=self.other_lengths)
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
                self._settled.set()
            self.stats.trouble[failure.reason] += 1
            timeouts += failure.kind == "timeout"
            wait = self.retries.wait(attempt, failure, self._random, timeouts)
            if attempt == attempts and failure.status != 429:
                raise failure
            wait = self._unanswered(failure, wait)
            if wait is None:
                break
            self.stats.retried += 1
            await self._pause(wait, for_all=failure.retry_after is not None)
        self._give_up(failure)
        raise failure

    async def _afford(self, request: ChatRequest) -> int:
        """Set the most that an attempt can cost aside, or end the run."""
        while (share := self.budget.take(request)) is None:
            self._check()
            if not self.budget.waiting:
                self._end(
                    BudgetSpent(
                        f"the budget is spent: {self.budget.said()}; replies so far are kept. rpd "
                        "plan says what is missing, and the same command with a larger budget "
                        "goes on"
                    )
                )
                self._check()
            # What is in flight may cost less than was set aside for it.
            self._settled.clear()
            await self._settled.wait()
        return share

    def _unanswered(self, failure: ServerError, wait: float | None) -> float | None:
        """Wait less for a server that has never answered, say so, and give it up soon."""
        if self._answered or failure.kind != "connection":
            self._answered = self._answered or failure.status is not None
            return wait
        if self._silent_since is None:
            self._silent_since = self._clock()
            self._notify(f"{failure} It is tried for {UNANSWERED_SECONDS:g} s.")
        wait = None if wait is None else min(wait, UNANSWERED_WAIT)
        if self._clock() - self._silent_since + (wait or 0.0) >= UNANSWERED_SECONDS:
            self._end(ServerUnavailable(str(failure)))
            self._check()
        return wait

    async def _turn(self, *, first: bool) -> int:
        """Wait until a request may start, and start it. Repeated attempts go to the front."""
        self._check()
        waiter: asyncio.Future[int | None] = self._new_future()
        if first:
            self._queue.append(waiter)
        else:
            self._queue.appendleft(waiter)
        self._admit()
        try:
            ticket = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result() is not None:
                self._leave()
            raise
        if ticket is None:
            self._check()
            raise AssertionError("a queue is only emptied when the flow ends")
        return ticket

    def _admit(self) -> None:
        while (
            self._queue and self._ending is None and not self._told_to_wait and not self.limit.full
        ):
            waiter = self._queue.popleft()
            if not waiter.done():
                self._idle.clear()
                waiter.set_result(self.limit.started())
        self.stats.in_flight = self.limit.in_flight

    def _leave(self) -> None:
        self.limit.ended()
        if self.limit.in_flight == 0:
            self._idle.set()
        self._admit()

    async def _attempt(self, request: ChatRequest, keys: RequestKeys, ticket: int) -> ChatReply:
        try:
            reply = await self._send(request, ticket)
            self._lost_in_a_row = 0
            self._answered = True
            self.stats.prompt_tokens += reply.prompt_tokens or 0
            self.stats.completion_tokens += reply.completion_tokens or 0
            if self.store is None:
                return reply
            # In a thread, because another process may be writing. The place is kept until the
            # reply is: a store that stands still must hold up the requests, or replies would be
            # paid for that may have to be thrown away.
            return await asyncio.to_thread(self.store.put, self.model, request, reply, keys=keys)
        except StoreError as error:
            # Before leaving, which lets the next one start.
            self._end(error)
            raise
        finally:
            self._leave()

    async def _send(self, request: ChatRequest, ticket: int) -> ChatReply:
        started = self._clock()
        try:
            async with asyncio.timeout(self.timeout) as deadline:
                self._deadlines[deadline] = started
                reply = await self.chat(request)
        except TimeoutError:
            if self._ending is not None:
                self._check()
            self.limit.troubled(ticket)
            raise ServerError(
                f"{self.model} did not reply in time ({self.timeout} s)", kind="timeout"
            ) from None
        except ServerError as error:
            if error.status == 429:
                self.limit.refused(ticket)
            elif error.status in TROUBLE or error.kind == "timeout":
                self.limit.troubled(ticket)
            raise
        finally:
            self._deadlines.pop(deadline, None)
        seconds = self._clock() - started
        self.limit.replied(seconds)
        return reply if reply.seconds is not None else replace(reply, seconds=seconds)

    async def _pause(self, seconds: float, *, for_all: bool) -> None:
        sleeping = asyncio.create_task(self._sleep(seconds))
        self._told_to_wait += for_all
        try:
            await asyncio.wait((sleeping, self._halt), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            self._told_to_wait -= for_all
            self._admit()

    def _give_up(self, failure: ServerError) -> None:
        """Note that a request failed for good, and end the run when that is all that happens."""
        if failure.status in UNFIT_REQUEST or failure.kind == "protocol":
            return
        if failure.status in WRONG_SERVER and not self.stats.done:
            self._end(ServerUnavailable(str(failure)))
            self._check()
        self._lost_in_a_row += 1
        if self.stop_after is not None and self._lost_in_a_row >= self.stop_after:
            self._end(
                ServerUnavailable(
                    f"{self._lost_in_a_row} requests to {self.model} failed in a row, the last "
                    f"with: {failure}. Fix that and run the same command again: replies so far "
                    "are kept."
                )
            )
            self._check()

    def _end(self, error: RPDError) -> None:
        if self._ending is None:
            self._ending = error
            if self._loop is not None and not self._loop.is_closed():
                # Also wakes a loop that waits for the network when a signal handler called.
                self._loop.call_soon_threadsafe(self._empty_queue)

    def _empty_queue(self) -> None:
        if not self._halt.done():
            self._halt.set_result(None)
        self._end_within(DRAIN_SECONDS)
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)

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
        now = self._clock()
        self.stats.seconds = now - (now if self._began is None else self._began)
        if self._loop is not None:
            self.stats.oldest = now - min(list(self._deadlines.values()), default=now)
        return self.stats
