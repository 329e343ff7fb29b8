"""How likely a model finds a text: the log-probabilities of its tokens, given a question.

    likelihood = load_likelihood("openai:http://localhost:8000/v1#student")  # or a folder, an id
    await likelihood("What is 2 + 2?", ["It is 4.", "It is 5."])  # [[-0.2, ...], [-4.1, ...]]

A model runs in this process, or on a vLLM server: that one's `/tokenize` puts the question into the
model's chat template and takes both texts apart, so that no tokenizer is needed here, and its
completions give `prompt_logprobs`. OpenAI's own protocol has neither. Nothing is kept: the score of
a text is written where it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from rpd_metric.errors import ModelError, SpecError, first_line
from rpd_metric.models.failures import UNFIT_REQUEST, ServerError
from rpd_metric.models.http import only_model, timeout_error
from rpd_metric.models.kinds import chat_spec
from rpd_metric.models.openai import OpenAIClient
from rpd_metric.models.retry import Clock, Retries
from rpd_metric.models.spec import Address

RETRIES = Retries(attempts=7, longest=30.0)
TIMEOUT = 600.0
KIND = "openai"


class Likelihood(Protocol):
    """Tells how likely a model finds texts that follow a question.

    Attributes:
        in_flight (`int`): Questions that are worth having in flight at once.
    """

    in_flight: int

    async def __call__(self, question: str, texts: Sequence[str]) -> list[list[float] | None]:
        """Score texts that follow a question.

        Args:
            question (`str`): A user's message, or what stands before the text where the model has
                no chat template.
            texts (`Sequence[str]`): What may follow.

        Returns:
            `list`: Per text the natural logarithm of each token's probability; `None` for a text
                that is empty or does not fit the model's context.
        """
        ...


class LocalLikelihood:
    """A model of this process, one text at a time.

    Args:
        name (`str`): A Hub id or a folder.
        device (`str`): Where it runs.
        max_tokens (`int`, *optional*): Longer texts, with their question, are not scored; the
            model's context in any case.

    Raises:
        [`ModelError`]: It cannot be loaded.
    """

    in_flight = 1

    def __init__(self, name: str, *, device: str = "cpu", max_tokens: int | None = None) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            self._model: Any = AutoModelForCausalLM.from_pretrained(name).to(device).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"cannot load {name}: {first_line(error)}") from error
        context = getattr(self._model.config, "max_position_embeddings", None)
        self._most = min(limit for limit in (max_tokens, context, 1 << 30) if limit)

    async def __call__(self, question: str, texts: Sequence[str]) -> list[list[float] | None]:
        """See [`Likelihood`]."""
        if self._tokenizer.chat_template:
            before = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
            )
        else:
            before = f"{question}\n\n"
        given = self._tokenizer(before, add_special_tokens=False)["input_ids"]
        return [self._score(given, text) for text in texts]

    def _score(self, given: list[int], text: str) -> list[float] | None:
        import torch

        told = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if not given or not told or len(given) + len(told) > self._most:
            return None
        with torch.inference_mode():
            ids = torch.tensor([given + told], device=self._model.device)
            logits = self._model(ids).logits[0, len(given) - 1 : -1].float()
            scores = logits.log_softmax(-1).gather(1, ids[0, len(given) :, None])
        found: list[float] = scores[:, 0].tolist()
        return found


@dataclass(frozen=True)
class _Tokens:
    ids: list[int]
    context: int | None


class ServerLikelihood(OpenAIClient):
    """Log-probabilities by a vLLM server.

    Args:
        address ([`~spec.Address`]): Where it listens; the path ends in `/v1`.
        model (`str`): The model to ask.
        max_tokens (`int`, *optional*): Longer texts, with their question, are not scored; the
            model's context in any case.
        in_flight (`int`): Requests at once.
        timeout (`float`): Seconds for one request.
        retries ([`~retry.Retries`]): When to repeat an attempt.
        clock ([`~retry.Clock`]): Time and chance; given by tests.
    """

    def __init__(
        self,
        address: Address,
        *,
        model: str,
        max_tokens: int | None = None,
        in_flight: int = 16,
        timeout: float = TIMEOUT,
        retries: Retries = RETRIES,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(address, model=model)
        self.in_flight = in_flight
        self._max_tokens = max_tokens
        self._timeout = timeout
        self._retries = retries
        self._clock = clock or Clock()
        self._has_template = True
        self._places: asyncio.Semaphore | None = None

    async def __call__(self, question: str, texts: Sequence[str]) -> list[list[float] | None]:
        """See [`Likelihood`].

        Raises:
            [`ServerError`]: The server refused, stayed away, or is none of vLLM's.
        """
        given = await self._given(question)
        return list(await asyncio.gather(*(self._score(given, text) for text in texts)))

    async def _score(self, given: _Tokens, text: str) -> list[float] | None:
        told = await self._tokenize({"prompt": text, "add_special_tokens": False})
        ids = [*given.ids, *told.ids]
        # A completion has one new token at least.
        context = None if told.context is None else told.context - 1
        limits = [limit for limit in (self._max_tokens, context) if limit is not None]
        if not given.ids or not told.ids or any(len(ids) > limit for limit in limits):
            return None
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        reply = await self._post("/v1/completions", body)
        return self._read(reply, ids)[len(given.ids) :]

    def _read(self, reply: Any, ids: Sequence[int]) -> list[float]:
        """The log-probability of each token, with 0 for the first. Raises [`ServerError`]."""
        choices = reply.get("choices") if isinstance(reply, Mapping) else None
        choice = choices[0] if choices else {}
        rows = choice.get("prompt_logprobs") if isinstance(choice, Mapping) else None
        if not isinstance(rows, list) or len(rows) != len(ids):
            raise self._unfit("its completions have no prompt_logprobs")
        # The first token has nothing before it, and so no probability.
        pairs = zip(rows[1:], ids[1:], strict=True)
        try:
            return [0.0, *(float(row[str(one)]["logprob"]) for row, one in pairs)]
        except (KeyError, TypeError, ValueError) as error:
            raise self._unfit(f"prompt_logprobs without a token's own ({error})") from None

    async def _given(self, question: str) -> _Tokens:
        if self._has_template:
            message = {"role": "user", "content": question}
            try:
                return await self._tokenize({"messages": [message], "add_generation_prompt": True})
            except ServerError as error:
                if error.status not in UNFIT_REQUEST or "chat template" not in str(error):
                    raise
                self._has_template = False
        return await self._tokenize({"prompt": f"{question}\n\n", "add_special_tokens": False})

    async def _tokenize(self, body: Mapping[str, Any]) -> _Tokens:
        try:
            reply = await self._post("/tokenize", body)
        except ServerError as error:
            if error.status == 404:
                raise self._unfit(f"it has no /tokenize, or no such model ({error})") from None
            raise
        ids = reply.get("tokens") if isinstance(reply, Mapping) else None
        if not isinstance(ids, list):
            raise self._unfit("its /tokenize gives no tokens")
        length = reply.get("max_model_len")
        return _Tokens(ids, length if isinstance(length, int) else None)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """One request, with its retries. Raises [`ServerError`]."""
        if self._places is None:
            self._places = asyncio.Semaphore(self.in_flight)
        for attempt in count(1):
            try:
                async with self._places:
                    return await self._attempt(path, body)
            except ServerError as error:
                wait = self._retries.wait(attempt, error, self._clock.draw)
                if wait is None:
                    raise
            await self._clock.sleep(wait)
        raise AssertionError("attempts are counted without end")

    async def _attempt(self, path: str, body: Mapping[str, Any]) -> Any:
        client = self._clients.get().with_options(base_url=self.address.root)
        with self._errors():
            request = client.post(path, cast_to=object, body={"model": self.model, **body})
            try:
                return await asyncio.wait_for(request, self._timeout)
            except TimeoutError:
                raise timeout_error(self.address, f"{self._timeout:g} s") from None

    def _unfit(self, what: str) -> ServerError:
        return ServerError(
            f"{self.address.url} cannot score texts: {what}. A vLLM server can; or name a model's "
            "folder or Hub id, to run it in this process",
            kind="protocol",
            retryable=False,
        )


def load_likelihood(
    spec: str, *, device: str = "cpu", max_tokens: int | None = None, in_flight: int = 16
) -> Likelihood:
    """What scores texts by the model that a spec names.

    Args:
        spec (`str`): A Hub id, a folder, or a vLLM server as `"openai:http://host:port/v1#model"`.
        device (`str`): See [`LocalLikelihood`].
        max_tokens (`int`, *optional*): Likewise.
        in_flight (`int`): See [`ServerLikelihood`].

    Raises:
        [`SpecError`]: It names several servers, or holds a secret.
        [`ServerError`]: The server cannot be asked for its model's name.
        [`ModelError`]: The model cannot be loaded.
    """
    if not spec.startswith(f"{KIND}:"):
        return LocalLikelihood(spec, device=device, max_tokens=max_tokens)
    read = chat_spec(spec)
    if len(read.urls) != 1:
        raise SpecError("texts are scored by one server: write openai:http://host:port/v1#model")
    (address,) = read.addresses("OPENAI_API_KEY")
    model = address.model or only_model(address, KIND)
    return ServerLikelihood(address, model=model, max_tokens=max_tokens, in_flight=in_flight)
