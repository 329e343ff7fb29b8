"""Embedding servers, `openai:http://host:port/v1#model`: texts in, float32 vectors out.

vLLM, SGLang, Text Embeddings Inference, llama.cpp and hosted APIs serve `/v1/embeddings`. A few
batches are in flight at a time. One that the server refuses is halved; where that was all it
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
from rpd_metric.models.failures import UNFIT_REQUEST, ServerError, backoff
from rpd_metric.models.http import (
    ServerClient,
    only_model,
    protocol_error,
    read_json,
    timeout_error,
)
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import Address, EmbedderOptions, Floats

logger = logging.getLogger(__name__)
# What servers say of a text that is longer than the model takes.
_TOO_LONG = re.compile(r"token|length|too long|context", re.IGNORECASE)
# Requests at once; servers batch them further.
IN_FLIGHT = 4
# How often a failed attempt is repeated.
RETRIES = RequestOptions(max_retries=6)
# A server that asks for a longer wait is not waited for.
PATIENCE = 600.0
# Bytes of a vector's number in JSON, and of all else about the vector.
NUMBER_BYTES, ROW_BYTES = 32, 2**10
# Numbers of a vector, at most, as long as no reply has shown how many there are.
MOST_NUMBERS = 8192


class EmbeddingServer(ServerClient):
    """Encodes texts on a server; an [`~spec.Embedder`]."""

    def __init__(self, address: Address, options: EmbedderOptions, *, model: str) -> None:
        super().__init__(address, model=model)
        self.name = f"openai:{model}"
        self.batch_size = options.batch_size
        self.texts_cut = 0
        self._timeout = options.timeout
        self._dimension: int | None = None

    @classmethod
    def load(cls, address: Address, options: EmbedderOptions) -> EmbeddingServer:
        """A client for a server, which is asked for its model where none is named."""
        return cls(address, options, model=address.model or only_model(address))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order. Raises [`ServerError`]."""
        return np.stack(run(self._encode(texts)))

    async def _encode(self, texts: Sequence[str]) -> list[Floats]:
        size = self.batch_size
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        parts = run_bounded(batches, self._batch, max_in_flight=IN_FLIGHT)
        async with aclosing(parts):
            return [vector async for part in parts for vector in part]

    async def _batch(self, texts: Sequence[str]) -> list[Floats]:
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
            logger.warning("%s takes %d texts at a time", self.address.url, half)
            self.batch_size = half
        return vectors

    async def _ask(self, texts: Sequence[str]) -> list[Any]:
        # A lone surrogate cannot be written in UTF-8.
        sendable = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        failed: Counter[str] = Counter()
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._send(sendable)
            except TimeoutError:
                error = timeout_error(self.address, self._timeout)
            except ServerError as failure:
                error = failure
            failed[error.reason] += 1
            if not RETRIES.repeats(error, failed):
                raise error
            if (seconds := error.retry_after or 0) > PATIENCE:
                limit = f"it asks to wait {seconds:,.0f} s; {PATIENCE:g} s are the most"
                raise ServerError(f"{error} And {limit}", status=error.status)
            await asyncio.sleep(backoff(failed.total(), error))

    async def _ask_cut(self, text: str, error: ServerError) -> Any:
        """The vector of the beginning of a text that is too long, cut by the server if it can."""
        if error.status != 413 and not _TOO_LONG.search(str(error)):
            raise error
        if not self.texts_cut:
            logger.warning("%s cuts texts that are too long: %s", self.address.url, error)
        self.texts_cut += 1
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:  # -1: as many tokens as the model takes
                        return (await self._send([text], truncate_prompt_tokens=-1))[0]
                    except ServerError as refusal:
                        if refusal.status not in UNFIT_REQUEST or len(text) < 2:
                            raise
                        text = text[: len(text) // 2]
        except (ServerError, TimeoutError):
            raise error from None

    async def _send(self, texts: Sequence[str], **extra: int) -> list[Any]:
        """One attempt at one batch; what should be its vectors, in order."""
        request = {"model": self.model, "input": texts, "encoding_format": "float", **extra}
        most = len(texts) * (ROW_BYTES + NUMBER_BYTES * (self._dimension or MOST_NUMBERS))
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
            f"{self.address.url} sent no vector that can be used (finite numbers, not all 0, as "
            f"many as in others) for the text {self.address.hide(text)[:100]!r}",
            kind="protocol",
        )
