"""The models that a configuration names, loaded: summarizer, embedder, token counter, judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rpd_datasets.config import DEFAULT_TEMPLATE, CurationConfig
from rpd_datasets.filters.answers import AnswerChecker
from rpd_datasets.judging.judges import CurationJudges
from rpd_datasets.tokens import TokenCounter, token_counter
from rpd_metric.errors import InputError
from rpd_metric.models.embedders import Embedder
from rpd_metric.models.flow import Flow
from rpd_metric.models.kinds import embedder_spec, load_embedder
from rpd_metric.models.requests import RequestOptions
from rpd_metric.models.store import Replies, ReplyStore
from rpd_metric.steps.chat_summarizer import steps_schema
from rpd_metric.steps.protocol import Summarizer
from rpd_metric.steps.summarizers import asks_chat_model, load_summarizer


@dataclass(frozen=True)
class Models:
    """What a configuration names, loaded: it can be passed in ready-made instead."""

    summarizer: Summarizer
    embedder: Embedder
    count_tokens: TokenCounter
    judges: CurationJudges | None = None
    answers: AnswerChecker = field(default_factory=AnswerChecker)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The requests to chat models, where there are any; each flow once."""
        chats = [getattr(self.summarizer, "chat", None)]
        if self.judges is not None:
            chats.append(self.judges.chat)
        return tuple(dict.fromkeys(chat for chat in chats if isinstance(chat, Flow)))

    def required_judges(self) -> CurationJudges:
        """The judges, where a configuration asks for them.

        Raises:
            [`InputError`]: There are none.
        """
        if self.judges is None:
            raise InputError(
                '"llm" asks a chat model; pass Models(..., judges=CurationJudges(chat))'
            )
        return self.judges


class LazyEmbedder:
    """An embedder that is loaded at its first use: in a run of many processes, perhaps never."""

    def __init__(self, name: str, load: Callable[[], Embedder]) -> None:
        self.name = name
        self._load = load

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """See [`~rpd_metric.models.embedders.Embedder`]."""
        return self._load().encode(texts)


def default_store() -> Path:
    """Where replies are kept by default: `$RPD_STORE`, or the user's cache folder."""
    if named := os.environ.get("RPD_STORE"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rpd" / "replies.sqlite"


def load_flow(
    spec: str,
    store: str | None,
    *,
    keep_replies: bool = True,
    requests: RequestOptions | None = None,
) -> Flow:
    """A chat model whose replies are kept.

    Args:
        spec (`str`): See [`~rpd_metric.models.kinds.load_chat`].
        store (`str`, *optional*): The file; [`default_store`] if unset.
        keep_replies (`bool`): Whether replies go there.
        requests ([`~rpd_metric.models.requests.RequestOptions`], *optional*): How it is asked.
    """
    from rpd_metric.models.kinds import load_chat

    path = Path(store) if store else default_store()
    return Flow.with_options(
        load_chat(spec),
        requests or RequestOptions(),
        store=ReplyStore(path) if keep_replies else None,
    )


def configured_summarizer(config: CurationConfig, *, keep_replies: bool = True) -> Summarizer:
    """Load the summarizer that a configuration names.

    Args:
        config ([`CurationConfig`]): The options.
        keep_replies (`bool`): Whether a chat model's replies go to the store.
    """
    if not asks_chat_model(config.summarizer):
        return load_summarizer(config.summarizer)
    guided = config.guided and config.template == DEFAULT_TEMPLATE
    store = Path(config.store) if config.store else default_store()
    return load_summarizer(
        config.summarizer,
        store=store if keep_replies else None,
        template="summarize_json" if guided else config.template,
        schema=steps_schema() if config.guided else None,
        solution_part=config.solution_part,
        sampling=config.sampling,
        requests=config.requests,
    )


def _askers(
    config: CurationConfig, *, keep_replies: bool
) -> tuple[Summarizer, CurationJudges | None]:
    """Who asks chat models; all of them on one budget."""
    summarizer = configured_summarizer(config, keep_replies=keep_replies)
    if not config.asks_judge:
        return summarizer, None
    same = config.judge is None or config.judge == config.summarizer
    # The same model through one flow: two would each think they have its server to themselves.
    flow = getattr(summarizer, "chat", None)
    spec = config.judge or config.summarizer
    if same and isinstance(flow, Flow):
        return summarizer, CurationJudges(flow)
    judging = load_flow(spec, config.store, keep_replies=keep_replies, requests=config.requests)
    if isinstance(flow, Flow):
        judging.budget = flow.budget
    return summarizer, CurationJudges(judging)


def chat_models(config: CurationConfig) -> Models:
    """The chat models that a configuration names, without a store; an encoder is named only."""

    def none() -> Embedder:
        raise InputError("these models are for counting requests; load_models loads an encoder")

    summarizer, judges = _askers(config, keep_replies=False)
    return Models(
        summarizer=summarizer,
        embedder=LazyEmbedder(config.embedder, none),
        count_tokens=token_counter(config.tokenizer),
        judges=judges,
    )


def load_models(
    config: CurationConfig, *, here: bool = True, replies: Replies | None = None
) -> Models:
    """Load the summarizer, the embedder, the tokenizer and the judges that a configuration names.

    Args:
        config ([`CurationConfig`]): The options.
        here (`bool`): Whether scoring happens in this process. Otherwise an embedder of this
            machine is only named, and loaded if it is asked after all.
        replies ([`Replies`], *optional*): Takes the place of the store that the
            options name.

    Raises:
        [`SpecError`], [`MissingExtraError`], [`ModelError`]: As the loaders do.
    """
    summarizer, judges = _askers(config, keep_replies=replies is None)

    def embedder() -> Embedder:
        return load_embedder(
            config.embedder,
            device=config.device,
            batch_size=config.batch_size,
            dtype=config.dtype,
            truncate_dim=config.truncate_dim,
            threads=config.threads,
        )

    elsewhere = not here and embedder_spec(config.embedder).runs_here
    models = Models(
        summarizer=summarizer,
        embedder=LazyEmbedder(config.embedder, embedder) if elsewhere else embedder(),
        count_tokens=token_counter(config.tokenizer),
        judges=judges,
    )
    if replies is not None:
        for flow in models.flows:
            flow.store = replies
    return models
