"""A chat model in this process through vLLM: `vllm:model-id` or `vllm:FOLDER`.

One engine, which batches whatever is in flight; every request has its own seed, length and schema.
It runs on an event loop of its own: an engine belongs to one loop for as long as it lives.

The engine's own settings come from the environment (`VLLM_*`), and from RPD_VLLM_ARGS as JSON for
what has no variable: `{"max_model_len": 16384, "tensor_parallel_size": 2}`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
from functools import lru_cache
from typing import Any
from uuid import uuid4

from rpd_metric.errors import InputError, ModelError, first_line, needs_extra
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest
from rpd_metric.models.concurrency import run, submit
from rpd_metric.models.in_process import check_template, encode_prompt, encode_turn

ARGS_VARIABLE = "RPD_VLLM_ARGS"


def load(name: str, options: ChatOptions) -> VLLMChat:
    """Load the model that follows `vllm:`; the same name gives the same engine.

    Raises [`MissingExtraError`], [`InputError`] (RPD_VLLM_ARGS) and [`ModelError`].
    """
    return _load(name, options.dtype, os.environ.get(ARGS_VARIABLE, "{}"))


@lru_cache(maxsize=1)
def _load(name: str, dtype: str, settings: str) -> VLLMChat:
    with needs_extra(f"chat model 'vllm:{name}'", "vllm"):
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
    try:
        given = json.loads(settings)
    except ValueError as error:
        raise InputError(f"{ARGS_VARIABLE} is not JSON: {error}") from error

    async def start() -> tuple[Any, Any]:
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=name, dtype=dtype, **given))
        return engine, engine.get_tokenizer()

    try:
        engine, tokenizer = run(start())
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise ModelError(
            f"vLLM cannot load {name!r}: {first_line(error)} Check the id or path, and "
            f"{ARGS_VARIABLE}"
        ) from error
    check_template(tokenizer, name)
    # Its processes would be found dead by each other where one of them is ended first.
    atexit.register(engine.shutdown)
    return VLLMChat(name, engine=engine, tokenizer=tokenizer)


class VLLMChat:
    """A vLLM engine (`AsyncLLM`, started on the background loop) that answers chat requests."""

    def __init__(self, name: str, *, engine: Any, tokenizer: Any) -> None:
        self.model = name
        # Half as many again as run at once: the next ones wait where they need not travel.
        self.max_concurrency = int(1.5 * engine.vllm_config.scheduler_config.max_num_seqs)
        self._engine = engine
        self._tokenizer = tokenizer

    def context_length(self) -> int:
        """Tokens that prompt and reply may have together."""
        return int(self._engine.model_config.max_model_len)

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request; see [`~chat.Chat`]."""
        return await asyncio.wrap_future(submit(self._generate(request)))

    def surprise(self, prompt: str, reply: str) -> float:
        """Mean surprise of a reply to a prompt, per token in nats: one forward pass.

        Not to be called on the event loop. Raises [`ModelError`] where they do not fit the model.
        """
        # The engine always writes a token.
        context = self.context_length() - 1
        before, after = encode_turn(self._tokenizer, prompt, reply, self.model, context)
        surprise: float = run(self._read(before + after, len(before)))
        return surprise

    async def _read(self, ids: list[int], start: int) -> float:
        from vllm import SamplingParams

        sampling, last = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0), None
        prompt = {"prompt_token_ids": ids}
        async for output in self._engine.generate(prompt, sampling, uuid4().hex):
            # With the first output only.
            last = last or output.prompt_logprobs
        read: Any = last
        surprises = [-float(read[place][ids[place]].logprob) for place in range(start, len(ids))]
        return sum(surprises) / len(surprises)

    async def _generate(self, request: ChatRequest) -> ChatReply:
        ids = encode_prompt(self._tokenizer, request, self.model, self.context_length())
        prompt = {"prompt_token_ids": ids}
        last: Any = None
        try:
            async for output in self._engine.generate(prompt, _sampling(request), uuid4().hex):
                last = output
        except ValueError as error:  # e.g. a schema that it cannot follow
            raise ModelError(f"{self.model!r} refuses a request: {first_line(error)}") from error
        written = last.outputs[0]
        return ChatReply(
            text=written.text,
            finish_reason=written.finish_reason,
            prompt_tokens=len(last.prompt_token_ids),
            completion_tokens=len(written.token_ids),
        )


def _sampling(request: ChatRequest) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    sampling, schema = request.sampling, request.schema
    return SamplingParams(
        temperature=max(sampling.temperature, 0.0),
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        seed=sampling.seed,
        stop=list(request.stop),
        # Special tokens are dropped before a stop is looked for.
        skip_special_tokens=not request.stop,
        output_kind=RequestOutputKind.FINAL_ONLY,
        structured_outputs=None if schema is None else StructuredOutputsParams(json=dict(schema)),
    )
