"""Step extraction: from a chain of thought to the short, ordered list of what it does.

RPD compares solutions by their steps (Sec. 3.1, stage 1 of the paper). This module holds
the protocol that every summarizer follows and what they share; `extractive.py` works
without a language model, `summarizer.py` asks one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rpd_metric.errors import SpecError

Result = TypeVar("Result")

MIN_STEPS = 3
MAX_STEPS = 5


@dataclass(frozen=True)
class Summary:
    """The steps of one solution, or the reason why there are none.

    Args:
        steps (`tuple[str, ...]`): In the order of the solution; empty when extraction failed.
        reason (`str`, *optional*): A short code that failures are counted by
            (`"empty_solution"`, `"no_envelope"`, ...); `None` on success.
        detail (`str`, *optional*): One line for a person about the failure.
    """

    steps: tuple[str, ...]
    reason: str | None = None
    detail: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is at least one step."""
        return self.reason is None and bool(self.steps)


class Summarizer(Protocol):
    """Turns solutions of one problem into steps.

    `name` is the spec that made it, for cards and reports; `fingerprint` changes whenever the
    same solution could give other steps (algorithm version, prompt hash, model, sampling).
    One solution's failure is an `Summary` with a reason, never an exception.
    """

    name: str
    fingerprint: str

    async def summarize(self, problem: str | None, solutions: Sequence[str]) -> list[Summary]:
        """Extract the steps of each solution, in order."""
        ...


def load_summarizer(
    spec: str | Summarizer, *, store: Path | None = None, **options: Any
) -> Summarizer:
    """Make the step summarizer that a spec names.

    Args:
        spec (`str` or [`Summarizer`]): `"extractive"` (no language model), or a chat model
            that writes the summaries: `"tgi:<url>"`, `"openai:<url>#<model>"`, `"hf:<model>"`,
            `"auto:<url>"`. An object with an `summarize` method is returned as it is.
        store (`Path`, *optional*): The file that keeps every reply of a chat model.
        options: For a chat model, see [`~rpd_metric.steps.summarizer.ChatSummarizer`].

    Returns:
        [`Summarizer`]: One made of a chat model has it, wrapped in a
        [`~rpd_metric.inference.scheduler.Flow`], as `chat`.

    Raises:
        [`SpecError`]: The spec has none of these forms.
        [`ModelError`], [`StoreError`]: The model or the store cannot be used.
    """
    if not isinstance(spec, str):
        if not callable(getattr(spec, "summarize", None)):
            raise SpecError(
                "a summarizer is a spec string or an object with an async summarize(problem, "
                f"solutions), not {type(spec).__name__}"
            )
        return spec
    if spec == "extractive":
        from rpd_metric.steps.extractive import ExtractiveSummarizer

        return ExtractiveSummarizer()
    from rpd_metric.inference.scheduler import Flow
    from rpd_metric.inference.servers import FORMS, load_chat
    from rpd_metric.inference.store import ReplyStore
    from rpd_metric.steps.summarizer import ChatSummarizer

    if spec.partition(":")[0] not in FORMS:
        raise SpecError(
            f"unknown summarizer {spec!r}; use extractive (no language model) or a chat model: "
            + ", ".join(FORMS.values())
        )
    chat = load_chat(spec)
    return ChatSummarizer(Flow(chat, store=ReplyStore(store) if store else None), **options)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end from synchronous code, inside a notebook's loop too."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
