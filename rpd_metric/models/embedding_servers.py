"""Embedding servers, `openai:http://host:port/v1#model`: texts in, float32 vectors out.

vLLM, SGLang, Text Embeddings Inference, llama.cpp and hosted APIs serve `/v1/embeddings`. A few
batches are in flight at each server. One that the server refuses is halved; where that was all it
took, later ones have the smaller size. A text that is longer than the model takes is cut, as
sentence-transformers does, and counted. A vector that cannot be used is an error.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import numpy as np

from rpd_metric.models.concurrency import run, run_bounded
from rpd_metric.models.embedders import EmbedderOptions, Floats
from rpd_metric.models.failures import UNFIT_REQUEST, ServerError, backoff
from rpd_metric.models.http import ServerClient, Servers, protocol_error, read_json, timeout_error
from rpd_metric.models.requests import RequestOptions

logger = logging.getLogger(__name__)
# What servers say of a text that is longer than the model takes.
_TOO_LONG = re.compile(r"token|length|too long|context", re.IGNORECASE)
# Requests at once, to each server; servers batch them further.
IN_FLIGHT = 4
# How often a failed attempt is repeated.
RETRIES = RequestOptions(max_retries=6)
# A server that asks for a longer wait is not waited for.
PATIENCE = 600.0
# Bytes of a vector's number in JSON, and of all else about the vector.
NUMBER_BYTES, ROW_BYTES = 32, 2**10
# Numbers of a vector, at most, as long as no reply has shown how many there are.
MOST_NUMBERS = 8192


class OpenAIEmbeddings(ServerClient):
    """One server; a call is one attempt at one batch."""

    dimension = MOST_NUMBERS

    async def __call__(self, texts: Sequence[str], **extra: int) -> list[Any]:
        """Send one batch; returns what should be its vectors, in order. Raises [`ServerError`]."""
        request = {"model": self.model, "input": texts, "encoding_format": "float", **extra}
        most = len(texts) * (ROW_BYTES + NUMBER_BYTES * self.dimension)
        text = await self._post(f"{self.address.url}/embeddings", request, most)
        try:
            body = read_json(text)
            # The protocol promises an index, not an order.
            by_index = {row["index"]: row["embedding"] for row in body["data"]}
        except (KeyError, TypeError, ValueError):
            raise protocol_error(self.address, f"no embeddings in {text[:200]}") from None
        if len(body["data"]) != len(texts) or by_index.keys() != set(range(len(texts))):
            raise protocol_error(self.address, f"{len(by_index)} vectors for {len(texts)} texts")
        return [by_index[index] for index in range(len(texts))]

    async def cut(self, text: str) -> Any:
        """Send the beginning of a text that is too long, cut by the server where it can."""
        while True:
            try:  # -1: as many tokens as the model takes
                return (await self([text], truncate_prompt_tokens=-1))[0]
            except ServerError as error:
                if error.status not in UNFIT_REQUEST or len(text) < 2:
                    raise
                text = text[: len(text) // 2]


class EmbeddingServer:
    """Encodes texts on one server, or on several with one model; an [`~embedders.Embedder`]."""

    def __init__(self, clients: Sequence[OpenAIEmbeddings], options: EmbedderOptions) -> None:
        self._servers = Servers(clients)
        self.name = f"openai:{self._servers.model}"
        self.batch_size = options.batch_size
        self.texts_cut = 0
        self._address = clients[0].address
        self._in_flight = IN_FLIGHT * len(clients)
        self._timeout = options.timeout
        self._dimension: int | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order; equal texts travel once.

        Raises [`ServerError`].
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return np.zeros((0, self._dimension or 0), dtype=np.float32)
        vectors = np.stack(run(self._encode(distinct)))
        row_of = {text: row for row, text in enumerate(distinct)}
        return vectors[[row_of[text] for text in texts]]

    async def _encode(self, texts: list[str]) -> list[Floats]:
        size = self.batch_size
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        parts = run_bounded(batches, self._batch, max_in_flight=self._in_flight)
        async with aclosing(parts):
            return [vector async for part in parts for vector in part]

    async def _batch(self, texts: list[str]) -> list[Floats]:
        """The vectors of a batch, sent in parts if the server wants smaller ones."""
        if len(texts) <= self.batch_size:
            try:
                return list(map(self._vector, texts, await self._ask(texts)))
            except ServerError as error:
                if error.status not in UNFIT_REQUEST:
                    raise
                if len(texts) == 1:
                    return [self._vector(texts[0], await self._ask_cut(texts[0], error))]
        half, cut = (len(texts) + 1) // 2, self.texts_cut
        vectors = [*await self._batch(texts[:half]), *await self._batch(texts[half:])]
        if self.texts_cut == cut and half < self.batch_size:
            logger.warning("%s takes %d texts at a time", self._address.url, half)
            self.batch_size = half
        return vectors

    async def _ask(self, texts: Sequence[str]) -> list[Any]:
        # A lone surrogate cannot be written in UTF-8.
        sendable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        failed: Counter[str] = Counter()
        while True:
            try:
                with self._servers.turn() as client:
                    try:
                        async with asyncio.timeout(self._timeout):
                            client.dimension = self._dimension or MOST_NUMBERS
                            embeddings: list[Any] = await client(sendable)
                            return embeddings
                    except TimeoutError:
                        raise timeout_error(client.address, self._timeout) from None
            except ServerError as error:
                failed[error.reason] += 1
                if not RETRIES.repeats(error, failed):
                    raise
                if (seconds := error.retry_after or 0) > PATIENCE:
                    limit = f"it asks to wait {seconds:,.0f} s; {PATIENCE:g} s are the most"
                    raise ServerError(f"{error} And {limit}", status=error.status) from None
                wait = backoff(failed.total(), error)
            await asyncio.sleep(wait)

    async def _ask_cut(self, text: str, error: ServerError) -> Any:
        if error.status != 413 and not _TOO_LONG.search(str(error)):
            raise error
        if not self.texts_cut:
            logger.warning("%s cuts texts that are too long: %s", self._address.url, error)
        self.texts_cut += 1
        try:
            async with asyncio.timeout(self._timeout):
                with self._servers.turn() as client:
                    return await client.cut(text)
        except (ServerError, TimeoutError):
            raise error from None

    def _vector(self, text: str, embedding: Any) -> Floats:
        try:
            vector = np.asarray(embedding, dtype=np.float32)
        except (OverflowError, TypeError, ValueError):
            vector = np.zeros(0, dtype=np.float32)
        width = self._dimension or vector.size
        if vector.shape == (width,) and np.isfinite(vector).all() and vector.any():
            self._dimension = width
            return vector
        raise ServerError(
            f"{self._address.url} sent no vector that can be used (finite numbers, not all 0, as "
            f"many as in others) for the text {self._address.hide(text)[:100]!r}",
            kind="protocol",
        )
