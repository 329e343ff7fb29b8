"""Embedding servers as one encoder: texts in, float32 vectors out.

`encode` blocks until all vectors are there: it cuts its texts into batches that the server takes,
keeps a few of them in flight, and waits and asks again on 429, 503, timeouts and lost connections.
A reply that holds anything but one finite vector of one length per text is an error. Texts longer
than the model takes are cut, as sentence-transformers does: TEI does so silently, for OpenAI-style
servers they are counted.

The wire is `tei.py`'s and `openai.py`'s.
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np

from rpd_metric.models.balance import Balance, the_same
from rpd_metric.models.concurrency import run
from rpd_metric.models.embedders import Floats
from rpd_metric.models.failures import ServerError
from rpd_metric.models.http import protocol_error, timeout_error
from rpd_metric.models.retry import Retries
from rpd_metric.models.spec import Address

RETRIES = Retries(attempts=7, longest=30.0)


class EmbeddingClient(Protocol):
    """One server: a call is one attempt at one batch.

    `name` is what cards and manifests call it, `batch_size` how many texts it takes at a time.
    """

    name: str
    batch_size: int
    address: Address

    async def __call__(self, texts: list[str]) -> Any:
        """Send one batch; returns what should be its vectors. Raises [`ServerError`]."""
        ...


class EmbeddingServer:
    """Encodes texts on one server, or on several with one model; an [`~embedders.Embedder`].

    Args:
        clients (`Sequence` of [`EmbeddingClient`]): One for each server.
        in_flight (`int`): Requests at once, to each.
        timeout (`float`): Seconds for one request.
        retries ([`~retry.Retries`]): When to repeat an attempt.
        sleep, random (`Callable`): An async sleep, and a draw from [0, 1); given by tests.

    Raises:
        [`SpecError`]: They serve different models.
    """

    def __init__(
        self,
        clients: Sequence[EmbeddingClient],
        *,
        in_flight: int = 4,
        timeout: float = 120.0,
        retries: Retries = RETRIES,
        sleep: Callable[[float], Coroutine[Any, Any, object]] = asyncio.sleep,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.name = the_same([client.name for client in clients], "embedding server")
        self.batch_size = min(client.batch_size for client in clients)
        self._address = clients[0].address
        self._clients = list(clients)
        self._balance = Balance(clients)
        self._in_flight = in_flight * len(clients)
        self._timeout = timeout
        self._retries = retries
        self._sleep = sleep
        self._random = random
        self._dimension: int | None = None

    def __repr__(self) -> str:
        return f"EmbeddingServer({self._address.url!r}, name={self.name!r})"

    @property
    def texts_cut(self) -> int:
        """Texts so far that were longer than the model takes, where that could be counted."""
        return sum(getattr(client, "texts_cut", 0) for client in self._clients)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order; equal texts travel once.

        Raises:
            [`ServerError`]: The server refused, stayed away, or sent no usable vectors.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return np.zeros((0, self._dimension or 0), dtype=np.float32)
        size = self.batch_size
        batches = [distinct[start : start + size] for start in range(0, len(distinct), size)]
        parts = run(self._encode(batches))
        widths = {part.shape[1] for part in parts} | {self._dimension or parts[0].shape[1]}
        if len(widths) > 1:
            raise protocol_error(self._address, f"vectors of lengths {sorted(widths)}")
        (self._dimension,) = widths
        row_of = {text: row for row, text in enumerate(distinct)}
        return np.concatenate(parts)[[row_of[text] for text in texts]]

    async def _encode(self, batches: Sequence[list[str]]) -> list[Floats]:
        places = asyncio.Semaphore(self._in_flight)

        async def one(batch: list[str]) -> Floats:
            async with places:
                return await self._encode_batch(batch)

        tasks = [asyncio.ensure_future(one(batch)) for batch in batches]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _encode_batch(self, batch: list[str]) -> Floats:
        # A lone surrogate cannot be written in UTF-8.
        sendable = [text.encode("utf-8", "replace").decode("utf-8") for text in batch]
        for attempt in count(1):
            try:
                with self._balance.turn() as client:
                    reply = await self._ask(client, sendable)
                return self._check(reply, len(batch))
            except ServerError as error:
                # A malformed reply would only come again.
                final = error.kind == "protocol"
                wait = None if final else self._retries.wait(attempt, error, self._random)
                if wait is None:
                    raise
            await self._sleep(wait)
        raise AssertionError("attempts are counted without end")

    async def _ask(self, client: EmbeddingClient, texts: list[str]) -> Any:
        try:
            return await asyncio.wait_for(client(texts), self._timeout)
        except TimeoutError:
            raise timeout_error(client.address, f"{self._timeout:g} s") from None

    def _check(self, reply: Any, rows: int) -> Floats:
        try:
            vectors = np.asarray(reply, dtype=np.float32)
        except (TypeError, ValueError) as error:  # ragged, or not numbers
            raise protocol_error(self._address, f"no vectors ({error})") from None
        if vectors.ndim != 2 or vectors.shape[0] != rows or vectors.shape[1] == 0:
            what = f"an array of shape {vectors.shape} for {rows} texts"
            raise protocol_error(self._address, what)
        if not np.isfinite(vectors).all():
            raise protocol_error(self._address, "vectors with NaN or infinity in them")
        return vectors
