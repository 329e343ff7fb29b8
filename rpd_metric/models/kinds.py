"""Which chat models and encoders there are, one entry each, and loading them by their specs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rpd_metric.errors import SpecError
from rpd_metric.models.chat import Chat, ChatOptions
from rpd_metric.models.embedders import Embedder, EmbedderOptions
from rpd_metric.models.spec import Kind, ModelSpec, load_named
from rpd_metric.plugins import Registry

CHAT_MODELS = Registry(
    "chat model",
    Kind,
    {
        "openai": Kind(
            "openai:http://host:port/v1#model",
            "rpd_metric.models.openai:OpenAIChat.load",
            is_server=True,
            key_variable="OPENAI_API_KEY",
        ),
        "tgi": Kind(
            "tgi:http://host:port",
            "rpd_metric.models.tgi:TGIChat.load",
            is_server=True,
            key_variable="HF_TOKEN",
        ),
        "hf": Kind("hf:model-id", "rpd_metric.models.in_process:load", needs_gpu=True),
        "vllm": Kind("vllm:model-id", "rpd_metric.models.vllm:load", needs_gpu=True),
    },
)

EMBEDDERS = Registry(
    "embedder",
    Kind,
    {
        "minilm": Kind("minilm", "rpd_metric.models.sentence_transformer:load_minilm"),
        "taught": Kind("taught", "rpd_metric.models.sentence_transformer:load_taught"),
        "static": Kind("static", "rpd_metric.models.static:StaticEmbedder"),
        "st": Kind("st:model-id", "rpd_metric.models.sentence_transformer:load", needs_gpu=True),
        "openai": Kind(
            "openai:http://host:port/v1#model",
            "rpd_metric.models.embedding_servers:OpenAIEmbeddings.load",
            is_server=True,
            key_variable="OPENAI_API_KEY",
        ),
    },
    group="rpd.embedders",
)


def chat_spec(text: str) -> ModelSpec:
    """Read the spec of a chat model. Raises [`SpecError`]."""
    return ModelSpec.parse(text, CHAT_MODELS)


def embedder_spec(text: str) -> ModelSpec:
    """Read the spec of an encoder. Raises [`SpecError`]."""
    return ModelSpec.parse(text, EMBEDDERS)


def load_chat(spec: str | Chat, options: ChatOptions | None = None) -> Chat:
    """Load the chat model that a spec names; a chat model is returned as it is.

    Raises [`SpecError`], [`ModelError`] and [`MissingExtraError`].
    """
    if not isinstance(spec, str):
        if not callable(spec):
            raise SpecError(f"a chat model is a spec string or a Chat, not {type(spec).__name__}")
        return spec
    from rpd_metric.models.http import Servers

    chats: list[Chat] = load_named(chat_spec(spec), CHAT_MODELS, options or ChatOptions())
    return chats[0] if len(chats) == 1 else Servers(chats)


def load_embedder(spec: str | Embedder, **options: Any) -> Embedder:
    """Load the encoder that a spec names; the same spec and options give the same object.

    An object with an `encode` method is returned as it is. `options` are the fields of
    [`~embedders.EmbedderOptions`]. Raises [`SpecError`], [`ModelError`] and [`MissingExtraError`].
    """
    embedder = _load(spec, EmbedderOptions(**options)) if isinstance(spec, str) else spec
    if not (callable(getattr(embedder, "encode", None)) and hasattr(embedder, "name")):
        raise SpecError(
            "an embedder is a spec string or an object with a name and encode(texts), "
            f"not {type(embedder).__name__}"
        )
    return embedder


@lru_cache(maxsize=4)
def _load(text: str, options: EmbedderOptions) -> Embedder:
    from rpd_metric.models.embedding_servers import EmbeddingServer

    spec = embedder_spec(text)
    models: list[Any] = load_named(spec, EMBEDDERS, options)
    embedder: Embedder = models[0] if spec.runs_here else EmbeddingServer(models, options)
    return embedder
