"""Which summarizers there are: one entry each, and every chat model.

One that needs no chat model is a function without arguments that makes it, entered here or, by
another package, as an entry point of the group `rpd.summarizers`.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from rpd_metric.errors import SpecError
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import CHAT_MODELS, Kind, ModelSpec, load_chat
from rpd_metric.plugins import Registry
from rpd_metric.steps.protocol import Summarizer

_EXTRACTIVE = Kind("extractive", "rpd_metric.steps.extractive:ExtractiveSummarizer")
SUMMARIZERS = Registry(
    "summarizer", Kind, {"extractive": _EXTRACTIVE, **CHAT_MODELS}, "rpd.summarizers"
)


def summarizer_spec(text: str) -> ModelSpec:
    """Read the spec of a summarizer. Raises [`SpecError`]."""
    return ModelSpec.parse(text, SUMMARIZERS)


@lru_cache
def asks_chat_model(text: str) -> bool:
    """Whether a summarizer's spec names a chat model. Raises [`SpecError`]."""
    return summarizer_spec(text).kind in CHAT_MODELS


def load_summarizer(
    spec: str | Summarizer,
    *,
    store: Path | None = None,
    requests: RequestOptions | None = None,
    **options: Any,
) -> Summarizer:
    """Make the step summarizer that a spec names.

    Args:
        spec (`str` or [`Summarizer`]): `"extractive"`, or a chat model's, which then writes the
            summaries. An object with a `summarize` method is returned as it is.
        store (`Path`, *optional*): The file that keeps every reply of a chat model.
        requests: How a chat model is asked; the summarizer has its flow as `chat`.
        options: For a chat model, see [`~rpd_metric.steps.chat_summarizer.ChatSummarizer`].
    """
    if not isinstance(spec, str) or not asks_chat_model(spec):
        summarizer: Any = spec
        if isinstance(spec, str):
            summarizer = SUMMARIZERS[summarizer_spec(spec).kind].load()
        if not (callable(getattr(summarizer, "summarize", None)) and hasattr(summarizer, "name")):
            raise SpecError(
                "a summarizer is a spec string or an object with a name, a fingerprint and an "
                f"async summarize(problem, solutions), not {type(summarizer).__name__}"
            )
        return summarizer  # type: ignore[no-any-return]
    from rpd_metric.models.flow import Flow
    from rpd_metric.models.store import ReplyStore
    from rpd_metric.steps.chat_summarizer import ChatSummarizer

    flow = Flow(load_chat(spec), requests, store=ReplyStore(store) if store else None)
    return ChatSummarizer(flow, **options)
