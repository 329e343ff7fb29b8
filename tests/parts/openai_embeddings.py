"""An embedding server over the packaged MiniLM: real vectors, real HTTP, faults on demand."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiohttp import web

from parts.http_server import LocalServer
from rpd_metric.models.spec import load_embedder

Vectors = list[list[float]]


class OpenAIEmbeddings(LocalServer):
    """`/v1/embeddings`, for a model called `minilm`.

    Args:
        max_batch: Larger batches are refused.
        refusals: `(status, headers)` to answer first.
        too_large: The status of a refused batch.
        spoil: Changes the vectors before they are sent.
        most_words: Longer texts are a 400, as on vLLM; a word counts as a token.
        truncates: Whether it knows vLLM's `truncate_prompt_tokens`.
        seconds: How long it takes for a batch.
    """

    def __init__(
        self,
        *,
        max_batch: int = 32,
        refusals: Iterable[tuple[int, Mapping[str, str]]] = (),
        too_large: int = 400,
        spoil: Callable[[Vectors], Any] = lambda vectors: vectors,
        most_words: int | None = None,
        truncates: bool = True,
        seconds: float = 0.0,
    ) -> None:
        super().__init__()
        self.max_batch = max_batch
        self.refusals = list(refusals)
        self.too_large = too_large
        self.spoil = spoil
        self.most_words = most_words
        self.truncates = truncates
        self.seconds = seconds
        self.requests: list[dict[str, Any]] = []
        self._minilm = load_embedder("minilm")
        self._turn = asyncio.Lock()

    @property
    def sizes(self) -> list[int]:
        """Texts of each request that came, in order."""
        return [len(body["input"]) for body in self.requests]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/embeddings", self._embeddings)
        return app

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return _refusal(status, "Model is overloaded", headers)
        if len(body["input"]) > self.max_batch:
            return _refusal(self.too_large, "batch too large")
        limit = self.most_words if self.truncates and "truncate_prompt_tokens" in body else None
        texts = [" ".join(text.split()[:limit]) for text in body["input"]]
        if self.most_words and any(len(text.split()) > self.most_words for text in texts):
            return _refusal(400, "This model's maximum context length is exceeded")
        # One batch at a time, as on one accelerator; beside the loop, so that others can queue.
        async with self._turn:
            await asyncio.sleep(self.seconds)
            vectors = self.spoil((await asyncio.to_thread(self._minilm.encode, texts)).tolist())
        rows = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        # Backwards: the protocol promises an index, not an order.
        reply = {"object": "list", "data": rows[::-1], "model": "minilm", "usage": usage}
        return web.json_response(reply)


def _refusal(status: int, said: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"message": said}}, status=status, headers=headers)
