"""A chat model in this process, through transformers: `hf:model-id`.

One request at a time, by `generate`: a reply is drawn by its request's own seed and depends on
nothing else, which no batch of the library's can promise. For many requests take `vllm:model-id`
or a server.

Of the model's own settings only top-k is heeded, from its generation_config.json. A
request's schema is ignored; the parser checks the reply.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from rpd_metric.errors import ModelError, first_line, needs_extra
from rpd_metric.models.chat import ChatOptions, ChatReply, ChatRequest, Sampling


@lru_cache(maxsize=2)
def load(name: str, options: ChatOptions) -> InProcessChat:
    """Load the model that follows `hf:`; the same arguments give one object.

    Raises [`MissingExtraError`] and [`ModelError`].
    """
    with needs_extra(f"chat model 'hf:{name}'", "local"):
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            place = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
            tokenizer = AutoTokenizer.from_pretrained(name)
            # accelerate's way: weights that were saved in 4 bits cannot be moved afterwards.
            model = AutoModelForCausalLM.from_pretrained(
                name, dtype=options.dtype, device_map={"": place}
            )
        except (OSError, ValueError) as error:
            raise ModelError(
                f"cannot load the chat model {name!r}: {first_line(error)} Check the id or path."
            ) from error
    check_template(tokenizer, name)
    return InProcessChat(name, model=model.eval(), tokenizer=tokenizer)


def check_template(tokenizer: Any, model: str) -> None:
    """Refuse a model that is not a chat model. Raises [`ModelError`]."""
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            f"{model!r} has no chat template, so it is not a chat model; take an instruct model"
        )


def encode_prompt(tokenizer: Any, request: ChatRequest, model: str, context: Any) -> list[int]:
    """A request's tokens. Raises [`ModelError`] where they and the reply do not fit `context`."""
    # Templates without such a switch ignore it.
    text = tokenizer.apply_chat_template(
        [dict(message) for message in request.messages],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=request.sampling.thinking,
    )
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if isinstance(context, int) and len(ids) + request.sampling.max_tokens > context:
        raise ModelError(
            f"a prompt of {len(ids)} tokens and {request.sampling.max_tokens} new ones do not fit "
            f"the {context} of {model!r}; lower max_tokens or shorten the solutions"
        )
    return ids


def encode_turn(
    tokenizer: Any, prompt: str, reply: str, model: str, context: int
) -> tuple[list[int], list[int]]:
    """The tokens of a prompt, and of a reply to it. Raises [`ModelError`] over `context`."""
    messages = [{"role": "user", "content": prompt}]
    # Not as a finished turn: some templates change or drop parts of a reply.
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    before, after = (
        tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, reply)
    )
    if (count := len(before) + len(after)) > context:
        raise ModelError(
            f"a solution with its problem has {count} tokens, over the {context} of {model!r}; "
            "leave long ones out"
        )
    return before, after


class InProcessChat:
    """A transformers model, on its device, that answers chat requests."""

    max_concurrency: int | None = 1

    def __init__(self, name: str, *, model: Any, tokenizer: Any) -> None:
        self.model = name
        self._model = model
        self._tokenizer = tokenizer
        end = model.generation_config.eos_token_id
        if end is None:
            end = tokenizer.eos_token_id
        self._ends = end if isinstance(end, list) else [] if end is None else [end]
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpd-generate")

    async def __call__(self, request: ChatRequest) -> ChatReply:
        """Answer one request; see [`~chat.Chat`]."""
        context = getattr(self._model.config, "max_position_embeddings", None)
        prompt = encode_prompt(self._tokenizer, request, self.model, context)
        ends = self._ends + [self._token(stop) for stop in request.stop]
        given_up = threading.Event()
        try:
            written = await asyncio.get_running_loop().run_in_executor(
                self._worker, self._generate, prompt, request.sampling, ends, given_up
            )
        finally:
            given_up.set()
        ended = bool(written) and written[-1] in ends
        return ChatReply(
            text=self._tokenizer.decode(
                written[:-1] if ended else written, skip_special_tokens=True
            ),
            finish_reason="stop" if ended else "length",
            prompt_tokens=len(prompt),
            completion_tokens=len(written),
        )

    def surprise(self, prompt: str, reply: str) -> float:
        """Mean surprise of a reply to a prompt, per token in nats: one forward pass.

        Raises [`ModelError`] where they do not fit the model or its memory.
        """
        import torch

        before, after = encode_turn(
            self._tokenizer, prompt, reply, self.model, self._model.config.max_position_embeddings
        )
        ids = torch.tensor([before + after], device=self._model.device)
        try:
            with torch.inference_mode():
                logits = self._model(ids, logits_to_keep=len(after) + 1).logits[0, :-1].float()
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"a solution of {len(after)} tokens does not fit the memory of {ids.device}; leave "
                "long ones out"
            ) from error
        return float(torch.nn.functional.cross_entropy(logits, ids[0, len(before) :]))

    def _token(self, stop: str) -> int:
        ids: list[int] = self._tokenizer(stop, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ModelError(
                f"{stop!r} is {len(ids)} tokens of {self.model!r}, which stops at single tokens in "
                "this process; leave it out, or ask a server"
            )
        return ids[0]

    def _generate(
        self,
        prompt: list[int],
        sampling: Sampling,
        ends: Sequence[int],
        given_up: threading.Event,
    ) -> list[int]:
        import torch
        from transformers import GenerationConfig, StoppingCriteriaList

        def stopped(ids: Any, _scores: Any) -> Any:
            return torch.full((len(ids),), given_up.is_set(), device=ids.device)

        drawing: dict[str, Any] = {"do_sample": False}
        if sampling.temperature > 0:
            drawing = {
                "do_sample": True,
                "temperature": float(sampling.temperature),
                "top_p": float(sampling.top_p),
                "top_k": self._model.generation_config.top_k or 0,
            }
        settings = GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            eos_token_id=list(ends) or None,
            pad_token_id=ends[0] if ends else 0,
            **drawing,
        )
        seed = secrets.randbits(32)
        if sampling.seed is not None:  # requests on many problems share it
            seed = zlib.crc32(repr((sampling.seed, prompt)).encode())
        device = self._model.device
        ids = torch.tensor([prompt], device=device)
        try:
            with torch.inference_mode(), torch.random.fork_rng([device] if ids.is_cuda else []):
                torch.manual_seed(seed)
                sequences = self._model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=settings,
                    stopping_criteria=StoppingCriteriaList([stopped]),
                )
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"a prompt of {len(prompt)} tokens does not fit the memory of {device}; lower "
                "max_tokens"
            ) from error
        written: list[int] = sequences[0, len(prompt) :].tolist()
        return written
