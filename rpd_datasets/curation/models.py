"""The models that a configuration names, loaded: summarizer, embedder, token counter, judges."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import DEFAULT_TEMPLATE, CurationConfig
from rpd_datasets.filters.answer_checks import AnswerChecker
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.tokens import TokenCounter, token_counter
from rpd_metric.errors import InputError
from rpd_metric.models.flow import Flow
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.spec import Embedder, embedder_spec, load_chat, load_embedder
from rpd_metric.models.store import Replies, ReplyStore
from rpd_metric.plugins import border
from rpd_metric.steps.chat_summarizer import ChatSummarizer, steps_schema
from rpd_metric.steps.grouping import StrategyReader
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import asks_chat_model, load_summarizer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Models:
    """What a configuration names, loaded: it can be passed in ready-made instead."""

    summarizer: Summarizer
    embedder: Embedder
    count_tokens: TokenCounter
    judges: CurationJudges | None = None
    reader: StrategyReader | None = None
    answers: AnswerChecker = field(default_factory=AnswerChecker)
    # Where embeddings are made: several threads would each keep buffers, and take turns anyway.
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(max_workers=1), repr=False, compare=False
    )

    async def in_thread(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call what takes long, while the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *args)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The requests to chat models, where there are any; each flow once."""
        chats = [getattr(self.summarizer, "chat", None)]
        if self.judges is not None:
            chats.append(self.judges.chat)
        return tuple(dict.fromkeys(chat for chat in chats if isinstance(chat, Flow)))

    def required_judges(self) -> CurationJudges:
        """The judges, where a configuration asks for them."""
        if self.judges is None:
            raise InputError(
                '"llm" asks a chat model; pass Models(..., judges=CurationJudges(chat))'
            )
        return self.judges

    def required_reader(self) -> StrategyReader:
        """The reader of strategies, where a configuration asks for it."""
        if self.reader is None:
            raise InputError('"groups" asks a chat model; pass Models(..., reader=StrategyReader)')
        return self.reader


class LazyEmbedder:
    """An embedder that is loaded at its first use: perhaps never."""

    def __init__(self, name: str, load: Callable[[], Embedder]) -> None:
        self.name = name
        self._load = load
        self._loaded: Embedder | None = None

    @property
    def texts_cut(self) -> int:
        """Texts that were longer than the encoder takes."""
        return getattr(self._loaded, "texts_cut", 0)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """See [`~rpd_metric.models.spec.Embedder`]."""
        if self._loaded is None:
            self._loaded = self._load()
        with border(f"the embedder {self.name!r}", self._loaded):  # it asks whose code runs
            return self._loaded.encode(texts)


def default_store(file: str | None = None) -> Path:
    """Where replies are kept: the file that is `named`, `$RPD_STORE`, or in the user's cache."""
    if file := file or os.environ.get("RPD_STORE"):
        return Path(file)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rpd" / "replies.sqlite"


def load_flow(spec: str, store: str | None, *, requests: RequestOptions | None = None) -> Flow:
    """A chat model whose replies are kept in a file; [`default_store`] if unset."""
    return Flow(load_chat(spec), requests, store=ReplyStore(default_store(store)))


def load_models(
    config: CurationConfig, *, replies: Replies | None = None, keep_replies: bool = True
) -> Models:
    """Load the summarizer, the embedder, the tokenizer and the judges that a configuration names.

    An encoder of this machine is loaded at its first use: perhaps never. `replies` takes the place
    of the store that the options name. Without `keep_replies` the models are for counting requests
    alone.
    """
    if asks_chat_model(config.summarizer):
        guided = config.guided and config.template == DEFAULT_TEMPLATE
        summarizer = load_summarizer(
            config.summarizer,
            template="summarize_json" if guided else config.template,
            schema=steps_schema() if config.guided else None,
            solution_part=config.solution_part,
            sampling=config.sampling,
            requests=config.requests,
        )
    else:
        summarizer = load_summarizer(config.summarizer)
    load = partial(
        load_embedder,
        config.embedder,
        device=config.device,
        batch_size=config.batch_size,
        timeout=config.requests.timeout,
        dtype=config.dtype,
        threads=config.threads,
    )
    # A server is asked for its model's name even so: cards and fingerprints hold it.
    later = embedder_spec(config.embedder).runs_here or not keep_replies
    reader = None
    if config.asks_groups and isinstance(summarizer, ChatSummarizer):
        # Through the summarizer's own flow: one budget, one store, one count of what is in flight.
        reader = StrategyReader(summarizer.chat, seed=config.seed, guided=config.guided)
    models = Models(
        summarizer=summarizer,
        embedder=LazyEmbedder(config.embedder, load) if later else load(),
        count_tokens=token_counter(config.tokenizer),
        judges=_judges(config, getattr(summarizer, "chat", None)),
        reader=reader,
    )
    if keep_replies and models.flows:
        store = replies or ReplyStore(default_store(config.store))
        for flow in models.flows:
            flow.store = store
    return models


def _judges(config: CurationConfig, flow: Flow | None) -> CurationJudges | None:
    """The judges; those of the summarizer's model go through its flow, and all on one budget."""
    if not config.asks_judge:
        return None
    if flow is not None and config.judge in (None, config.summarizer):
        # Two flows would each think they have the server to themselves.
        return CurationJudges(flow)
    judging = Flow(load_chat(config.judge or config.summarizer), config.requests)
    if flow is not None:
        judging.spending = flow.spending
    return CurationJudges(judging)
