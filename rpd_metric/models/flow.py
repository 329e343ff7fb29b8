"""The flow of requests to a chat model: keeps the server busy, loses no reply, bounds the cost.

A `ServerError` is one request's failure. `Interrupted`, `BudgetSpent`, `ServerUnavailable` and a
`StoreError` (a reply that cannot be kept is money lost) end the run. They are raised only once the
requests in flight have ended, so whoever cancels the other tasks on the first error cancels
nothing that was paid for. How many are sent at once and when a run gives up: `patience.py`.
"""

import asyncio
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from rpd_metric.errors import InputError, ModelError, RPDError, StoreError
from rpd_metric.models.chat import (
    Chat,
    ChatReply,
    ChatRequest,
    answered_by,
    before_resend,
    ends_in_loop,
)
from rpd_metric.models.failures import (
    BudgetSpent,
    Interrupted,
    ServerError,
    ServerUnavailable,
    backoff,
)
from rpd_metric.models.patience import GivingUp, Places
from rpd_metric.models.requests import RequestOptions, Share, Spending
from rpd_metric.models.store import Replies, RequestKeys

logger = logging.getLogger(__name__)

# Requests at once where neither the options nor the server say how many.
IN_FLIGHT = 64
# What is in flight when a run is asked to stop has so long to end.
DRAIN_SECONDS = 60.0


@dataclass
class FlowStats:
    """Counts of a run, kept by [`Flow`]; tokens are as the server counted them."""

    done: int = 0  # replies that came from the model
    cached: int = 0  # replies that came from the store
    shared: int = 0  # calls answered by an equal request under way
    failed: int = 0  # requests that no reply could be had for
    retried: int = 0  # attempts repeated after a failure
    extended: int = 0  # asked again with more tokens because the reply was cut
    kept_cut: int = 0  # of those, whose longer reply did not come
    looping: int = 0  # cut replies that ended in a loop, not asked for again
    paid_twice: int = 0  # of `done`, those that another run had answered meanwhile
    in_flight: int = 0  # attempts under way now
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0  # from the first request to the latest event
    trouble: Counter[str] = field(default_factory=Counter)  # failed attempts by reason

    @property
    def _speed(self) -> float:
        return self.completion_tokens / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        """One line for a progress bar."""
        return (
            f"{self.done:,} done, {self.cached:,} cached, {self.failed:,} failed, "
            f"{self.retried:,} retried, {self.in_flight:,} in flight, {self._speed:,.0f} tokens/s"
        )

    def summary(self) -> str:
        """Several lines for the end of a run."""
        events = {
            "retries": self.retried,
            "asked again with more tokens": self.extended,
            "looped until they were cut": self.looping,
            "kept as they were cut": self.kept_cut,
            "paid for twice, because another run on this store was first": self.paid_twice,
            **{f"attempts failed by {reason}": count for reason, count in self.trouble.items()},
        }
        happened = ", ".join(f"{count:,} {event}" for event, count in events.items() if count)
        return (
            f"{self.done + self.cached + self.shared + self.failed:,} requests: {self.done:,} "
            f"answered by the model, {self.cached:,} from the store, {self.shared:,} shared, "
            f"{self.failed:,} failed\n{self.prompt_tokens:,} prompt and "
            f"{self.completion_tokens:,} new tokens in {self.seconds:,.1f} s ({self._speed:,.0f} "
            f"new tokens/s){happened and '; '}{happened}"
        )


class Flow:
    """A chat model around another: answers from the store what it holds, sends equal requests once,
    repeats what failed for a passing reason. Serves one event loop at a time.
    """

    def __init__(
        self, chat: Chat, options: RequestOptions | None = None, *, store: Replies | None = None
    ) -> None:
        self.chat = chat
        self.model = chat.model
        self.options = options or RequestOptions()
        self.store = store
        self.spending = Spending(self.options)
        self.stats = FlowStats()
        self._giving_up = GivingUp(chat.model, self.options.timeout, self.options.keep_going)
        self.sharers = 1  # processes that ask this server, this one included: each has its part
        self._began: float | None = None
        self._ending: RPDError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request from the store (`cached=True`) or by the model.

        Raises [`ModelError`] where the server refuses it or retries did not help; any other
        `RPDError` ends the run.
        """
        self._attach()
        keys = RequestKeys.of(self.model, request)
        key = keys.exact
        shared = key in self._asking
        if not shared:
            self._asking[key] = asyncio.create_task(self._answer(request, keys))
        self._waiting[key] += 1
        try:
            reply = await asyncio.shield(self._asking[key])
        except ModelError:
            self.stats.failed += 1
            raise
        except RPDError as error:
            self._end(error)
            await asyncio.wait(self._asking.values())
            raise
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:  # it is done, or nobody wants it any more
                del self._waiting[key]
                self._asking.pop(key).cancel()
            self.tick()
        self.stats.shared += shared
        if (served := answered_by.get()) is not None and reply.served_by:
            served[self.model, *reply.served_by] += 1
        return reply

    def judge_reply(self, reply: ChatReply, fault: str | None = None) -> None:
        """Note whether a reply could be used, and its fault where not: such a run ends soon."""
        self._give_up(self._giving_up.judged(reply, fault))

    async def give_up(self, why: str) -> None:
        """End the run, once the requests in flight have ended, unless it is to keep going."""
        if not self.options.keep_going:
            self._give_up(why)
            if self._asking:
                await asyncio.wait(self._asking.values())
            self._check()

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Start no new request; calls raise [`Interrupted`] once what is in flight has ended, at
        most so many seconds later. May be called from a signal handler or another thread.
        """
        where = " (replies so far are in the store)" if self.store else ""
        message = f"stopped on request; run the same command again to continue{where}"
        self._end(Interrupted(message), seconds)

    def tick(self) -> FlowStats:
        """Bring the clock's figures in `stats` up to date; for a display's timer."""
        if self._began is not None:
            self.stats.seconds = time.monotonic() - self._began
            self.stats.in_flight = self._places.in_flight
        return self.stats

    def _attach(self) -> None:
        """Begin anew when the event loop is another one than last time."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise InputError("a Flow serves one event loop at a time; make one per thread")
        limits = (self.options.max_in_flight, getattr(self.chat, "max_concurrency", None))
        known = [limit for limit in limits if limit is not None]
        most = max(1, min(known, default=IN_FLIGHT) // self.sharers)
        self._places = Places(most, known=bool(known))
        self._asking: dict[str, asyncio.Task[ChatReply]] = {}
        self._waiting: Counter[str] = Counter()  # calls that wait for each of them
        self._deadlines: set[asyncio.Timeout] = set()
        self._halt: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._began = self._began or time.monotonic()
        if self._ending is not None:
            self._end_within(0.0)

    async def _answer(self, request: ChatRequest, keys: RequestKeys) -> ChatReply:
        before_resend.set(self.spending.resend)
        reply = await self._fetch(request, keys)
        sampling = request.sampling
        tokens = self.options.longer(sampling.max_tokens)
        if reply.finish_reason == "length" and tokens > sampling.max_tokens:
            if ends_in_loop(reply.text):
                self.stats.looping += not reply.cached
            else:
                longer = replace(request, sampling=replace(sampling, max_tokens=tokens))
                try:
                    reply = await self._fetch(longer, RequestKeys.of(self.model, longer), once=True)
                    self.stats.extended += not reply.cached
                except ServerError:
                    # Too slow, or more tokens than the context holds. The cut reply is kept.
                    self.stats.kept_cut += 1
        self.stats.cached += reply.cached
        self.stats.done += not reply.cached
        return reply

    async def _fetch(
        self, request: ChatRequest, keys: RequestKeys, *, once: bool = False
    ) -> ChatReply:
        if not isinstance(self._ending, BudgetSpent):  # what is stored costs nothing
            self._check()
        # Not in a thread: a reader of the file does not wait for its writers.
        if self.store is not None and (reply := self.store.find(keys)) is not None:
            return reply
        failed: Counter[str] = Counter()
        for attempt in count(1):
            # A retry waits behind the others: while a server is down, none is tried to its end.
            await self._places.take(begun=once)
            try:
                return await self._attempt(request, keys)
            except ServerError as error:
                failure = error
            finally:
                self._places.leave()
            failed[failure.kind] += 1
            self.stats.trouble[failure.reason] += 1
            if (once and failure.status != 429) or not self.options.repeats(failure, failed):
                break
            self.stats.retried += 1
            await asyncio.wait((self._halt,), timeout=backoff(attempt, failure))
        if failure.refuses_key and not (self.options.keep_going and failure.status == 403):
            self._give_up(str(failure))
        self._check()
        raise failure

    async def _attempt(self, request: ChatRequest, keys: RequestKeys) -> ChatReply:
        try:
            reply = await self._pay(request)
        except ServerError as error:
            if not error.refuses_key:
                raise
            # A gateway may do so once by mistake. The place is held: others would be refused, too.
            self.stats.retried += 1
            await asyncio.wait((self._halt,), timeout=backoff(1, error))
            reply = await self._pay(request)
        self.stats.prompt_tokens += reply.prompt_tokens or 0
        self.stats.completion_tokens += reply.completion_tokens or 0
        if self.store is None:
            return reply
        try:
            # In a thread, because another process may be writing. The place is held meanwhile: a
            # store that is stuck must hold up the requests.
            stored = await asyncio.to_thread(self.store.keep, keys, reply)
        except StoreError as error:
            self._end(error)  # before leaving, which lets the next one start
            raise
        self.stats.paid_twice += stored.cached
        return replace(stored, cached=False)

    async def _pay(self, request: ChatRequest) -> ChatReply:
        share = await self._afford(request)
        reply, charged = None, True
        try:
            reply = await self._send(request)
            return reply
        except ServerError as error:
            charged = error.status is None
            raise
        except BudgetSpent:  # before a further send of this attempt
            charged = False
            raise
        finally:
            self.spending.settle(share, reply, charged=charged)

    async def _afford(self, request: ChatRequest) -> Share:
        """Set the most that an attempt can cost aside, or end the run."""
        while True:
            self._check()
            if (share := self.spending.take(request)) is not None:
                return share
            if not self.spending.aside:
                self._end(self.spending.used_up())
            # What is in flight may cost less than was set aside for it.
            await asyncio.wait((self._halt,), timeout=0.05)

    async def _send(self, request: ChatRequest) -> ChatReply:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self.options.timeout) as deadline:
                self._deadlines.add(deadline)
                reply = await self.chat(request)
        except TimeoutError:
            self._check()
            failure = ServerError(
                f"{self.model} did not reply in time ({self.options.timeout:g} s). Send fewer "
                "requests at once (--max-in-flight), or raise --timeout",
                kind="timeout",
            )
        except ServerError as error:
            failure = error
        else:
            self._places.replied()
            self._giving_up.replied()
            return replace(reply, seconds=time.monotonic() - started)
        finally:
            self._deadlines.discard(deadline)
        if failure.retryable:
            self._places.failed(failure)
        self._give_up(self._giving_up.failed(failure))
        raise failure

    def _give_up(self, why: str | None) -> None:
        if why is not None:
            stored = " Replies so far are kept." if self.store else ""
            self._end(ServerUnavailable(f"{why.rstrip('.')}.{stored}"))

    def _end(self, error: RPDError, seconds: float = DRAIN_SECONDS) -> None:
        self._ending = self._ending or error
        if self._loop is not None and not self._loop.is_closed():
            # Also wakes a loop that waits for the network when a signal handler called.
            self._loop.call_soon_threadsafe(self._end_within, seconds)

    def _end_within(self, seconds: float) -> None:
        if not self._halt.done():
            self._halt.set_result(None)
        self._places.close()
        latest = asyncio.get_running_loop().time() + seconds
        for deadline in self._deadlines:
            end = deadline.when()
            if not deadline.expired() and (end is None or end > latest):
                deadline.reschedule(latest)

    def _check(self) -> None:
        if self._ending is not None:
            raise self._ending.with_traceback(None)


@contextmanager
def draining(*flows: Flow, notify: Callable[[str], object] = logger.warning) -> Iterator[None]:
    """On Ctrl-C or SIGTERM, let the requests in flight finish; on the second, stop at once.

    Then the former handlers are back and hear both: those of a command end it there and then. An
    interrupt that they raise is passed on only where nothing is in flight: thrown into the middle
    of an event loop it can leave that hanging. Other threads than the main one hear no signals:
    there it does nothing. `notify` is told what happens now.
    """
    if not flows or threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = 0

    def restore() -> None:
        for number, handler in former.items():
            # `None` means a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def handle(number: int, _frame: object) -> None:
        nonlocal heard
        heard += 1
        waiting = sum(flow.tick().in_flight for flow in flows)
        for flow in flows:
            flow.drain(DRAIN_SECONDS if heard == 1 else 0.0)
        if heard == 1:
            notify(
                f"{signal.Signals(number).name}: finishing {waiting} requests in flight, at most "
                f"{DRAIN_SECONDS:g} s; again to stop at once"
            )
            return
        restore()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(number)  # the first one, which they have not heard
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if not waiting:
                raise

    for number in former:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
