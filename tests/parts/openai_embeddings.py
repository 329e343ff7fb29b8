"""Embedding servers over the packaged MiniLM: real vectors, two protocols, real HTTP.

`OpenAIEmbeddings` speaks OpenAI's `/v1/embeddings`, `FakeTEI` Text Embeddings Inference's `/` and
`/info`. Both refuse batches above their limit as the real ones do, and both take a list of
`(status, headers)` to answer first. `spoil` changes the vectors before they are sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web

from parts.http_server import LocalServer
from rpd_metric.models.kinds import load_embedder

Vectors = list[list[float]]


class _EmbeddingServer(LocalServer):
    def __init__(
        self,
        *,
        max_batch: int = 32,
        refusals: Iterable[tuple[int, Mapping[str, str]]] = (),
        spoil: Callable[[Vectors], Any] = lambda vectors: vectors,
        key: str | None = None,
    ) -> None:
        super().__init__()
        self.max_batch = max_batch
        self.refusals = list(refusals)
        self.spoil = spoil
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self._minilm = load_embedder("minilm")
        self._turn = asyncio.Lock()

    async def _read(self, request: web.Request) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.headers.append(dict(request.headers))
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            raise web.HTTPUnauthorized(text=f"wrong key {request.headers.get('Authorization')}")
        if self.refusals:
            status, headers = self.refusals.pop(0)
            raise _status(status, headers)
        self.requests.append(body)
        return body

    async def _vectors(self, texts: list[str]) -> Any:
        # One at a time, as on one accelerator; beside the loop, so that others can queue.
        async with self._turn:
            vectors = await asyncio.to_thread(self._minilm.encode, texts)
        return self.spoil(vectors.tolist())


class OpenAIEmbeddings(_EmbeddingServer):
    """`/v1/embeddings` and `/v1/models`, for a model called `minilm`.

    Args:
        most_words: Longer texts are a 400, as on vLLM; a word counts as a token.
        truncates: Whether it knows vLLM's `truncate_prompt_tokens`.
    """

    def __init__(
        self, *, most_words: int | None = None, truncates: bool = True, **options: Any
    ) -> None:
        super().__init__(**options)
        self.most_words = most_words
        self.truncates = truncates

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/embeddings", self._embeddings)
        return app

    async def _models(self, request: web.Request) -> web.Response:
        row: dict[str, Any] = {"id": "minilm", "object": "model", "created": 0, "owned_by": "tests"}
        if self.most_words is not None:
            row["max_model_len"] = self.most_words
        return web.json_response({"object": "list", "data": [row]})

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        if body["model"] != "minilm":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        if len(body["input"]) > self.max_batch:
            return web.json_response({"error": {"message": "batch too large"}}, status=400)
        limit = body.get("truncate_prompt_tokens") if self.truncates else None
        texts = [" ".join(text.split()[:limit]) for text in body["input"]]
        if self.most_words and any(len(text.split()) > self.most_words for text in texts):
            error = "This model's maximum context length is exceeded"
            return web.json_response({"error": {"message": error}}, status=400)
        vectors = await self._vectors(texts)
        rows = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        # Backwards: the protocol promises an index, not an order.
        reply = {"object": "list", "data": rows[::-1], "model": "minilm", "usage": usage}
        return web.Response(text=json.dumps(reply), content_type="application/json")


class FakeTEI(_EmbeddingServer):
    """TEI's feature extraction, for the model `sentence-transformers/all-MiniLM-L6-v2`."""

    model_type: Mapping[str, Any] = {"embedding": {"pooling": "mean"}}

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/info", self._info)
        app.router.add_post("/", self._embed)
        return app

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_id": "sentence-transformers/all-MiniLM-L6-v2",
                "model_sha": None,
                "model_dtype": "float32",
                "model_type": self.model_type,
                "max_concurrent_requests": 512,
                "max_input_length": 256,
                "max_batch_tokens": 16384,
                "max_batch_requests": None,
                "max_client_batch_size": self.max_batch,
                "auto_truncate": False,
                "tokenization_workers": 2,
                "version": "1.8.0",
            }
        )

    async def _embed(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        unknown = set(body) - {"inputs", "truncate", "normalize", "prompt_name", "dimensions"}
        if unknown or not isinstance(body["inputs"], list):
            return web.json_response(
                {"error": str(unknown), "error_type": "Validation"}, status=422
            )
        if len(body["inputs"]) > self.max_batch:
            text = f"batch size {len(body['inputs'])} > maximum allowed batch size"
            return web.json_response({"error": text, "error_type": "Validation"}, status=422)
        vectors = await self._vectors(body["inputs"])
        return web.Response(text=json.dumps(vectors), content_type="application/json")


def _status(status: int, headers: Mapping[str, str]) -> web.HTTPException:
    class Refusal(web.HTTPException):
        status_code = status

    return Refusal(
        text=json.dumps({"error": "Model is overloaded", "error_type": "Overloaded"}),
        headers=headers,
        content_type="application/json",
    )
