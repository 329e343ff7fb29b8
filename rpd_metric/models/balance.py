"""Several servers with the same model: which of them a request goes to.

    tgi:http://a:8080,http://b:8080            openai:http://a/v1,http://b/v1#model
    tei:http://a:8081,http://b:8081

A request goes to the server with the smallest share of its places taken. One that cannot be
reached is left alone for a while, then tried with a single request. A failed attempt is not
repeated here: whoever repeats it (`scheduler.py`, `embedding_servers.py`) comes by again and is
sent elsewhere.

Every process counts its own requests only. Equally loaded servers are therefore chosen at random,
or many processes with few requests each would all begin with the first one.
"""

from __future__ import annotations

import asyncio
import random as random_module
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rpd_metric.errors import SpecError
from rpd_metric.models.chat import Chat, ChatReply, ChatRequest
from rpd_metric.models.failures import TROUBLE, ServerError

FIRST_REST = 1.0
LONGEST_REST = 60.0

Server = TypeVar("Server")


def the_same(names: Sequence[str], what: str) -> str:
    """The name that all servers give their model.

    Raises:
        [`SpecError`]: They serve different models.
    """
    if len(set(names)) > 1:
        raise SpecError(
            f"the {what}s of one spec must serve the same model; these serve "
            f"{', '.join(sorted(set(names)))}"
        )
    return names[0]


@dataclass
class _State:
    in_flight: int = 0
    failures: int = 0  # in a row, those of one burst counted once
    rests_until: float = 0.0


class Balance(Generic[Server]):
    """Gives out servers in turn; may be used from several threads.

    Args:
        servers (`Sequence`): The servers.
        places (`Sequence`, *optional*): Requests that each takes at once; equal if unset.
        clock, random (`Callable`): Time in seconds and a draw from [0, 1); given by tests.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        places: Sequence[int] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self._servers = list(servers)
        self._places = list(places or [1] * len(servers))
        self._states = [_State() for _ in servers]
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[Server]:
        """The server for one request, which is made within; its outcome is taken note of."""
        with self._lock:
            index = self._choose()
            state = self._states[index]
            state.in_flight += 1
        try:
            yield self._servers[index]
        except ServerError as error:
            with self._lock:
                if error.kind in ("connection", "timeout") or error.status in TROUBLE:
                    self._failed(state)
                else:
                    state.failures = 0
            raise
        else:
            with self._lock:
                state.failures = 0
                state.rests_until = 0.0
        finally:
            with self._lock:
                state.in_flight -= 1

    def _choose(self) -> int:
        now = self._clock()
        well = [
            index
            for index, state in enumerate(self._states)
            # After its rest, one request finds out for all.
            if state.failures == 0 or (state.rests_until <= now and state.in_flight == 0)
        ]
        if not well:
            return min(range(len(self._states)), key=lambda i: self._states[i].rests_until)
        return min(
            well, key=lambda i: (self._states[i].in_flight / self._places[i], self._random())
        )

    def _failed(self, state: _State) -> None:
        now = self._clock()
        if state.rests_until <= now:
            state.failures += 1
            rest = min(LONGEST_REST, FIRST_REST * 2.0 ** (state.failures - 1))
            state.rests_until = now + rest


class ChatServers:
    """Several chat servers with one model; a [`~chat.Chat`].

    Args:
        chats (`Sequence[Chat]`): One client for each server.

    Raises:
        [`SpecError`]: They serve different models.
    """

    def __init__(self, chats: Sequence[Chat]) -> None:
        self.model = the_same([chat.model for chat in chats], "chat server")
        self._chats = list(chats)
        limits = [getattr(chat, "max_concurrency", None) for chat in chats]
        known = [limit for limit in limits if limit is not None]
        whole = len(known) == len(limits)
        self.max_concurrency: int | None = sum(known) if whole else None
        self._balance = Balance(self._chats, known if whole else None)

    def __repr__(self) -> str:
        return f"ChatServers({self._chats!r})"

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Send one request to one of them; see [`~chat.Chat`]. Raises [`ServerError`]."""
        with self._balance.turn() as chat:
            return await chat(request)

    async def at_once(self) -> int | None:
        """Requests to begin with, where every server works on many at once; `None`: not known."""
        asked = [getattr(chat, "at_once", None) for chat in self._chats]
        found = await asyncio.gather(*(ask() for ask in asked if ask is not None))
        known = [count for count in found if count is not None]
        return sum(known) if len(known) == len(self._chats) else None

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        for chat in self._chats:
            close: Any = getattr(chat, "aclose", None)
            if close is not None:
                await close()
