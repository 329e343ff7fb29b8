"""Generation in which a finished reply makes room for the next one at once.

transformers' continuous batching, with a draw of our own (`draws.py`): a reply does not depend on
what else is in the batch, but by the last digits of the scores. The manager runs while requests are
in flight and is stopped after the last of them, so that nothing keeps the process or its memory.

Not used: CUDA graphs and asynchronous batches, in which a request's tokens are known one step late.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from concurrent.futures import Future
from typing import Any, ClassVar

from rpd_metric.errors import ModelError, first_line
from rpd_metric.models.chat import Sampling
from rpd_metric.models.draws import GREEDY, draw, request_key, token_key

# Of a CPU's memory, which also serves everything else. Left to itself it takes 60 %.
CPU_MEMORY = 0.05
# Prompt tokens that a step takes in beside the replies' next ones; the library's 8192 cost memory.
CPU_BATCH_TOKENS = 512
# Of a GPU, how many replies are written at once where the memory for their caches allows it.
GPU_SLOTS = 256
# Between two looks at whether anything is left to do.
_PAUSE = 0.1
_LOGGER = "ContinuousBatchingLogger"


class ContinuousBatches:
    """A model that generates as many replies at once as it has slots.

    Args:
        model: A causal language model, on its device.
        ends (`frozenset[int]`): Tokens that end a reply.
        slots (`int`): Replies that are written at once, at most.
    """

    def __init__(self, model: Any, *, ends: frozenset[int], slots: int) -> None:
        # Half as many again as run at once: the next ones wait where they need not travel.
        self.max_concurrency = slots + slots // 2
        self._model = model
        self._ends = ends
        self._slots = slots
        self._names = itertools.count()
        self._waiting: dict[str, Future[list[int]]] = {}
        self._manager: Any = None
        self._level = logging.WARNING
        self._lock = threading.Lock()

    async def reply(self, prompt: list[int], sampling: Sampling, seed: int) -> list[int]:
        """The tokens of one reply, the one that ends it included.

        Raises:
            [`ModelError`]: It could not be generated.
        """
        name, future = self._submit(prompt, sampling, seed)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            with self._lock:
                if self._waiting.pop(name, None) is not None:
                    self._manager.cancel_request(name)
            raise

    def _submit(
        self, prompt: list[int], sampling: Sampling, seed: int
    ) -> tuple[str, Future[list[int]]]:
        drawn = sampling.temperature > 0
        future: Future[list[int]] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._manager is None:
                self._manager = self._start()
            name = f"rpd-{next(self._names)}"
            self._waiting[name] = future
            accepted = self._manager.add_request(
                prompt,
                request_id=name,
                max_new_tokens=sampling.max_tokens,
                eos_token_id=sorted(self._ends) or -1,
                temperature=float(sampling.temperature) if drawn else 1.0,
                top_p=float(sampling.top_p) if drawn else 1.0,
                draw_key=request_key(seed, prompt) if drawn else GREEDY,
                prompt_tokens=len(prompt),
            )
            if accepted is None:  # it has failed; the next request gets another one
                error = self._error()
                self._end()
                raise error
        return name, future

    def _start(self) -> Any:
        from transformers import GenerationConfig
        from transformers.generation.configuration_utils import ContinuousBatchingConfig

        on_cpu = self._model.device.type == "cpu"
        manager = self._model.init_continuous_batching(
            # Greedy: what is drawn is the largest score that the processors leave.
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1),
            continuous_batching_config=ContinuousBatchingConfig(
                max_requests_per_batch=self._slots,
                max_memory_percent=CPU_MEMORY if on_cpu else None,
                max_batch_tokens=CPU_BATCH_TOKENS if on_cpu else None,
                use_async_batching=False,
                use_cuda_graph=False,
            ),
        )
        manager.logit_processor = _processors(self._model.generation_config.top_k)
        # What it would say with a traceback reaches the caller as an error.
        self._level = logging.getLogger(_LOGGER).level
        logging.getLogger(_LOGGER).setLevel(logging.CRITICAL)
        manager.start()
        threading.Thread(
            target=self._deliver, args=(manager,), name="rpd-replies", daemon=True
        ).start()
        return manager

    def _deliver(self, manager: Any) -> None:
        """Hand out replies until none is waited for, then stop the manager."""
        while True:
            result = manager.get_result(timeout=_PAUSE)
            with self._lock:
                if self._manager is not manager:
                    return  # it failed, and the request that found out has ended it
                if result is not None and result.is_finished():
                    self._hand_out(result)
                failed = result is None and not manager.is_running()
                if failed or not self._waiting:
                    self._end()
                    return

    def _end(self) -> None:
        """Stop the manager, with an error for each reply that is still waited for."""
        for future in self._waiting.values():
            future.set_exception(self._error())
        self._waiting.clear()
        manager, self._manager = self._manager, None
        manager.stop(block=True)
        manager.destroy()
        logging.getLogger(_LOGGER).setLevel(self._level)

    def _error(self) -> ModelError:
        return _failed(self._manager.background_thread_status.fatal_error)

    def _hand_out(self, result: Any) -> None:
        future = self._waiting.pop(result.request_id, None)
        if future is None:
            return  # its caller gave up
        if result.error is None:
            future.set_result(list(result.generated_tokens))
        else:
            future.set_exception(_failed(result.error))


def _failed(why: object) -> ModelError:
    """The error about a reply that could not be generated."""
    detail = first_line(why) if isinstance(why, BaseException) else str(why)
    return ModelError(
        f"a reply could not be generated: {detail}. If its caches do not fit the memory, lower "
        "batch_size or max_tokens, or take static batches"
    )


def _processors(top_k: int | None) -> Any:
    """What scores go through: temperature and nucleus of each request, then its draw."""
    import torch
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
    from transformers.generation.continuous_batching import cb_logits_processors as continuous
    from transformers.generation.logits_process import LogitsProcessorList

    class Drawing(continuous.ContinuousBatchingLogitsProcessor):  # type: ignore[misc]
        supported_kwargs: ClassVar[dict[str, type]] = {"draw_key": int, "prompt_tokens": int}
        ignored_kwargs: ClassVar[tuple[str, ...]] = ()

        def fill_defaults(self, int32_tensor: Any) -> None:
            int32_tensor.fill_(GREEDY)

        def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Any:
            keys = []
            for request in requests_with_new_token:
                state = request.state
                asked = state.logit_processor_kwargs
                # What was written before the cache ran full has become part of the prompt.
                written = len(state.initial_tokens) + len(state.generated_tokens)
                place = written - asked["prompt_tokens"]
                keys.append(token_key(asked["draw_key"], place))
            return torch.tensor(keys, dtype=torch.int32)

        def __call__(self, scores: Any, tensor_arg: Any) -> Any:
            tokens = draw(scores, tensor_arg[: scores.shape[0]]).unsqueeze(-1)
            return torch.full_like(scores, -torch.inf).scatter(-1, tokens, 0.0)

    # Their own values are defaults that no request leaves standing.
    chain: list[Any] = [
        continuous.ContinuousBatchingTemperatureLogitsWarper(TemperatureLogitsWarper(0.5))
    ]
    if top_k:
        chain.append(continuous.ContinuousBatchingTopKLogitsWarper(TopKLogitsWarper(top_k)))
    chain.append(continuous.ContinuousBatchingTopPLogitsWarper(TopPLogitsWarper(0.5)))
    chain.append(Drawing())
    processors = continuous.ContinuousBatchingLogitsProcessorList(LogitsProcessorList(chain))
    processors.tensors_required = len(chain)
    return processors
