"""A chat model in this process, through transformers: `hf:model-id`, `hf:model-id?4bit`.

Requests that are in flight together are answered together: while one batch is generated, the
next one gathers. Torch and transformers are imported when a model is loaded, never by
importing this module.

Not done here: guided decoding (a request's schema is ignored; the parser checks the reply), and
replies that do not depend on what else was in the batch (padding moves logits in the last
digits, so near-ties may fall otherwise; the store keeps what came first).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rpd_metric.errors import InputError, MissingExtraError, ModelError, SpecError, first_line
from rpd_metric.inference.chat import ChatOptions, ChatReply, ChatRequest, Sampling

# How long the first request of a batch waits for others that were sent with it.
GATHER_SECONDS = 0.01


def load(name: str, options: ChatOptions) -> InProcessChat:
    """Load the model that follows `hf:`; see [`load_in_process`]."""
    return load_in_process(
        name, device=options.device, dtype=options.dtype, batch_size=options.batch_size
    )


@lru_cache(maxsize=2)
def load_in_process(
    name: str, *, device: str | None = None, dtype: str = "auto", batch_size: int = 8
) -> InProcessChat:
    """Load a model into this process; the same arguments give the same object.

    Args:
        name (`str`): Model id or folder, with `?4bit` for NF4 weights through bitsandbytes.
        device (`str`, *optional*): `"cpu"`, `"cuda"`, `"cuda:1"`, ...; the first GPU, else the
            CPU, if unset.
        dtype (`str`): Weights' type, e.g. `"bfloat16"`; as the model was saved if `"auto"`.
        batch_size (`int`): Requests that are generated at once.

    Returns:
        [`InProcessChat`]

    Raises:
        [`SpecError`]: An option after `?` is not known.
        [`MissingExtraError`]: The packages for it are not installed.
        [`ModelError`]: The model cannot be loaded, or has no chat template.
    """
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; it must be 1 or more")
    model_id, _, option = name.partition("?")
    if option not in ("", "4bit"):
        raise SpecError(f"hf:{model_id} has no option {option!r}; write hf:{model_id}?4bit")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if option == "4bit":
            # accelerate places the quantised weights.
            import accelerate  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
            import bitsandbytes  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"chat model 'hf:{name}'", extra="local", module=error.name or "transformers"
        ) from error
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    options: dict[str, Any] = {"dtype": dtype}
    if option == "4bit":
        from transformers import BitsAndBytesConfig

        options["device_map"] = {"": place}
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_id)
        model = AutoModelForCausalLM.from_pretrained(model_id, **options)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the chat model {model_id!r}: {first_line(error)} Check the id or path."
        ) from error
    if not option:
        model = model.to(place)
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            f"{model_id!r} has no chat template, so it is no chat model; take an instruct model"
        )
    return InProcessChat(name, model=model.eval(), tokenizer=tokenizer, batch_size=batch_size)


@dataclass
class _Batch:
    """Prompts that are answered together; `replies` comes when they are."""

    prompts: list[list[int]] = field(default_factory=list)
    replies: Future[list[ChatReply]] = field(default_factory=Future)


class InProcessChat:
    """A transformers model that answers chat requests in batches.

    Args:
        name (`str`): What cards and store keys call it.
        model: A causal language model, on its device.
        tokenizer: Its tokenizer, with a chat template.
        batch_size (`int`): Requests that are generated at once.
    """

    def __init__(self, name: str, *, model: Any, tokenizer: Any, batch_size: int) -> None:
        self.model = name
        # Twice the batch: one set is generated while the next gathers.
        self.max_concurrency: int | None = 2 * batch_size
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._open: dict[Sampling, _Batch] = {}
        self._lock = threading.Lock()
        # One thread, because a model generates one batch at a time.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpd-generate")

    def __repr__(self) -> str:
        return f"InProcessChat({self.model!r})"

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request; see [`Chat`].

        Raises:
            [`ModelError`]: The prompt and its reply do not fit the model's context, or its
                memory.
        """
        started = time.perf_counter()
        sampling = request.sampling
        prompt = self._encode(request.messages, thinking=sampling.thinking)
        context = getattr(self._model.config, "max_position_embeddings", None)
        if isinstance(context, int) and len(prompt) + sampling.max_tokens > context:
            raise ModelError(
                f"a prompt of {len(prompt)} tokens and {sampling.max_tokens} new ones do not fit "
                f"the {context} of {self.model!r}; lower max_tokens or shorten the solutions"
            )
        with self._lock:
            batch = self._open.get(sampling)
            if batch is None:
                batch = self._open[sampling] = _Batch()
                batch.replies = self._worker.submit(self._run, batch, sampling)
            place = len(batch.prompts)
            batch.prompts.append(prompt)
            if len(batch.prompts) == self._batch_size:
                del self._open[sampling]
        # Shielded: one caller who gives up must not cancel the others' batch.
        replies = await asyncio.shield(asyncio.wrap_future(batch.replies))
        reply = replies[place]
        return ChatReply(
            text=reply.text,
            finish_reason=reply.finish_reason,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            seconds=time.perf_counter() - started,
        )

    def _encode(self, messages: tuple[Mapping[str, str], ...], *, thinking: bool) -> list[int]:
        # Templates without such a switch ignore it.
        text = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=thinking,
        )
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _run(self, batch: _Batch, sampling: Sampling) -> list[ChatReply]:
        time.sleep(GATHER_SECONDS)
        with self._lock:
            if self._open.get(sampling) is batch:
                del self._open[sampling]
        return self._generate(batch.prompts, sampling)

    def _generate(self, prompts: list[list[int]], sampling: Sampling) -> list[ChatReply]:
        import torch

        ends = self._end_ids()
        pad = self._tokenizer.pad_token_id
        pad = pad if pad is not None else min(ends, default=0)
        width = max(map(len, prompts))
        # Padded on the left, so that every reply starts in the same column.
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        if sampling.seed is not None:
            torch.manual_seed(sampling.seed)
        choice: dict[str, Any] = {"do_sample": sampling.temperature > 0}
        if sampling.temperature > 0:
            choice.update(temperature=sampling.temperature, top_p=sampling.top_p)
        else:
            # The model's own defaults would only draw a warning that greedy ignores them.
            choice.update(temperature=None, top_p=None, top_k=None)
        try:
            with torch.inference_mode():
                rows = self._model.generate(
                    input_ids=ids.to(self._model.device),
                    attention_mask=mask.to(self._model.device),
                    max_new_tokens=sampling.max_tokens,
                    pad_token_id=pad,
                    **choice,
                )
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"{len(prompts)} prompts of up to {width} tokens do not fit the memory of "
                f"{self._model.device}; lower batch_size or max_tokens, or add ?4bit"
            ) from error
        replies = []
        for prompt, row in zip(prompts, rows[:, width:].tolist(), strict=True):
            end = next((place for place, token in enumerate(row) if token in ends), None)
            written = row if end is None else row[:end]
            replies.append(
                ChatReply(
                    text=self._tokenizer.decode(written, skip_special_tokens=True),
                    finish_reason="length" if end is None else "stop",
                    prompt_tokens=len(prompt),
                    completion_tokens=len(row) if end is None else end + 1,
                )
            )
        return replies

    def _end_ids(self) -> frozenset[int]:
        end = self._model.generation_config.eos_token_id
        if end is None:
            end = self._tokenizer.eos_token_id
        return frozenset(end if isinstance(end, list) else () if end is None else (end,))
