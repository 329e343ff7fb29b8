"""A chat model in this process, through transformers: `hf:model-id`, `hf:model-id?4bit`.

Requests that are in flight together are generated together, on a GPU continuously
(`continuous_batches.py`), on a CPU in batches (`static_batches.py`), unless told otherwise. Either
way a reply is drawn by its request's own seed, whatever else is in the batch, except that other
neighbours move scores in the last digits, so that near-ties may fall otherwise; the store keeps
what came first. Torch and transformers are imported when a model is loaded, never by importing
this module.

Of the model's own settings only top-k is heeded, as it stands in its generation_config.json.

Not done here: guided decoding (a request's schema is ignored; the parser checks the reply).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from rpd_metric.errors import InputError, MissingExtraError, ModelError, SpecError, first_line
from rpd_metric.models.chat import Batching, ChatOptions, ChatReply, ChatRequest, Sampling
from rpd_metric.models.continuous_batches import GPU_SLOTS, ContinuousBatches
from rpd_metric.models.static_batches import StaticBatches

CPU_BATCH = 8


def load(name: str, options: ChatOptions) -> InProcessChat:
    """Load the model that follows `hf:`; see [`load_in_process`]."""
    return load_in_process(
        name,
        device=options.device,
        dtype=options.dtype,
        batch_size=options.batch_size,
        batching=options.batching,
    )


@lru_cache(maxsize=2)
def load_in_process(
    name: str,
    *,
    device: str | None = None,
    dtype: str = "auto",
    batch_size: int | None = None,
    batching: Batching = "auto",
) -> InProcessChat:
    """Load a model into this process; the same arguments give the same object.

    Args:
        name (`str`): Model id or folder, with `?4bit` for NF4 weights through bitsandbytes.
        device (`str`, *optional*): `"cpu"`, `"cuda"`, `"cuda:1"`, ...; the first GPU, else the
            CPU, if unset.
        dtype (`str`): Weights' type, e.g. `"bfloat16"`; as the model was saved if `"auto"`.
        batch_size (`int`, *optional*): Requests that are generated at once.
        batching (`str`): `"static"`, `"continuous"`, or `"auto"`.

    Returns:
        [`InProcessChat`]

    Raises:
        [`SpecError`]: An option after `?` is not known.
        [`MissingExtraError`]: The packages for it are not installed.
        [`ModelError`]: The model cannot be loaded, or has no chat template.
    """
    if batch_size is not None and batch_size < 1:
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
    return InProcessChat(
        name,
        model=model.eval(),
        tokenizer=tokenizer,
        batch_size=batch_size,
        batching=batching,
    )


class Batches(Protocol):
    """Who generates, and how many requests it takes at once."""

    max_concurrency: int

    async def reply(self, prompt: list[int], sampling: Sampling, seed: int) -> list[int]:
        """The tokens of one reply, the one that ends it included."""
        ...


class InProcessChat:
    """A transformers model that answers chat requests.

    Args:
        name (`str`): What cards and store keys call it.
        model: A causal language model, on its device.
        tokenizer: Its tokenizer, with a chat template.
        batch_size (`int`, *optional*): Requests that are generated at once.
        batching (`str`): `"static"` or `"continuous"`; `"auto"` is the second on a GPU.
    """

    def __init__(
        self,
        name: str,
        *,
        model: Any,
        tokenizer: Any,
        batch_size: int | None = None,
        batching: Batching = "auto",
    ) -> None:
        self.model = name
        self._model = model
        self._tokenizer = tokenizer
        end = model.generation_config.eos_token_id
        if end is None:
            end = tokenizer.eos_token_id
        self._ends = frozenset(end if isinstance(end, list) else () if end is None else (end,))
        on_cpu = model.device.type == "cpu"
        self._batches: Batches
        if batching == "continuous" or (batching == "auto" and not on_cpu):
            slots = batch_size or (CPU_BATCH if on_cpu else GPU_SLOTS)
            self._batches = ContinuousBatches(model, ends=self._ends, slots=slots)
        else:
            pad = tokenizer.pad_token_id
            self._batches = StaticBatches(
                model,
                ends=self._ends,
                pad=pad if pad is not None else min(self._ends, default=0),
                batch_size=batch_size or CPU_BATCH,
            )
        self.max_concurrency: int | None = self._batches.max_concurrency

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
        seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        written = await self._batches.reply(prompt, sampling, seed)
        ended = bool(written) and written[-1] in self._ends
        return ChatReply(
            text=self._tokenizer.decode(
                written[:-1] if ended else written, skip_special_tokens=True
            ),
            finish_reason="stop" if ended else "length",
            prompt_tokens=len(prompt),
            completion_tokens=len(written),
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
