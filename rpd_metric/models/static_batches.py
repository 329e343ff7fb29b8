"""Requests that are in flight together are answered together; the longest reply holds its batch.

While one batch is generated, the next one gathers. A reply does not depend on its batch but by the
last digits of the scores, which padding moves (see `draws.py`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from rpd_metric.errors import ModelError
from rpd_metric.models.chat import Sampling
from rpd_metric.models.draws import draw, request_key, token_key

# How long the first request of a batch waits for others that were sent with it.
GATHER_SECONDS = 0.01


@dataclass
class _Batch:
    """Prompts that are answered together; `replies` comes when they are."""

    prompts: list[list[int]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    replies: Future[list[list[int]]] = field(default_factory=Future)


class StaticBatches:
    """A model that generates batches of a fixed size.

    Args:
        model: A causal language model, on its device.
        ends (`frozenset[int]`): Tokens that end a reply.
        pad (`int`): The token that prompts are padded with.
        batch_size (`int`): Requests that are generated at once.
    """

    def __init__(self, model: Any, *, ends: frozenset[int], pad: int, batch_size: int) -> None:
        # Twice the batch: one set is generated while the next gathers.
        self.max_concurrency = 2 * batch_size
        self._model = model
        self._ends = ends
        self._pad = pad
        self._batch_size = batch_size
        self._open: dict[Sampling, _Batch] = {}
        self._lock = threading.Lock()
        # One thread, because a model generates one batch at a time.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpd-generate")

    async def reply(self, prompt: list[int], sampling: Sampling, seed: int) -> list[int]:
        """The tokens of one reply, the one that ends it included.

        Raises:
            [`ModelError`]: The batch does not fit the memory.
        """
        shared = replace(sampling, seed=None)
        with self._lock:
            batch = self._open.get(shared)
            if batch is None:
                batch = self._open[shared] = _Batch()
                batch.replies = self._worker.submit(self._run, batch, shared)
            place = len(batch.prompts)
            batch.prompts.append(prompt)
            batch.keys.append(request_key(seed, prompt))
            if len(batch.prompts) == self._batch_size:
                del self._open[shared]
        # Shielded: one caller who gives up must not cancel the others' batch.
        return (await asyncio.shield(asyncio.wrap_future(batch.replies)))[place]

    def _run(self, batch: _Batch, sampling: Sampling) -> list[list[int]]:
        time.sleep(GATHER_SECONDS)
        with self._lock:
            if self._open.get(sampling) is batch:
                del self._open[sampling]
        return self._generate(batch.prompts, batch.keys, sampling)

    def _generate(
        self, prompts: list[list[int]], keys: list[int], sampling: Sampling
    ) -> list[list[int]]:
        import torch
        from transformers import LogitsProcessorList

        width = max(map(len, prompts))
        # Padded on the left, so that every reply starts in the same column.
        ids = torch.tensor([[self._pad] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        chosen = LogitsProcessorList()
        if sampling.temperature > 0:
            chosen.append(_drawing(keys, sampling, self._model.generation_config.top_k, width))
        try:
            with torch.inference_mode():
                rows = self._model.generate(
                    input_ids=ids.to(self._model.device),
                    attention_mask=mask.to(self._model.device),
                    max_new_tokens=sampling.max_tokens,
                    pad_token_id=self._pad,
                    logits_processor=chosen,
                    # What is drawn is the largest score that the processor leaves. The model's own
                    # defaults would only draw a warning that greedy ignores them.
                    do_sample=False,
                    temperature=None,
                    top_p=None,
                    top_k=None,
                )
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"{len(prompts)} prompts of up to {width} tokens do not fit the memory of "
                f"{self._model.device}; lower batch_size or max_tokens, or add ?4bit"
            ) from error
        return [self._until_end(row) for row in rows[:, width:].tolist()]

    def _until_end(self, row: list[int]) -> list[int]:
        end = next((place for place, token in enumerate(row) if token in self._ends), None)
        return row if end is None else row[: end + 1]


def _drawing(keys: list[int], sampling: Sampling, top_k: int | None, width: int) -> Any:
    """A logits processor that leaves of each row the token that is drawn."""
    import torch
    from transformers import (
        LogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    warpers: list[Any] = [TemperatureLogitsWarper(sampling.temperature)]
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))

    class Drawing(LogitsProcessor):  # type: ignore[misc,unused-ignore]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            position = input_ids.shape[1] - width
            for warper in warpers:
                scores = warper(input_ids, scores)
            now = torch.tensor([token_key(key, position) for key in keys], device=scores.device)
            tokens = draw(scores, now).unsqueeze(-1)
            return torch.full_like(scores, -torch.inf).scatter(-1, tokens, 0.0)

    return Drawing()
