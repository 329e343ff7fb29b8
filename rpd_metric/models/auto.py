"""`auto:http://host:port`: a server is asked what it is.

TGI and TEI have an /info page, servers that speak OpenAI's protocol only /v1/models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpd_metric.errors import SpecError
from rpd_metric.models.chat import Chat, ChatOptions
from rpd_metric.models.failures import ServerError
from rpd_metric.models.http import get_json
from rpd_metric.models.openai import OpenAIChat, OpenAIEmbeddings
from rpd_metric.models.spec import Address, parse_address
from rpd_metric.models.tei import TEIEmbeddings, tei_info
from rpd_metric.models.tgi import TGIChat

if TYPE_CHECKING:
    from rpd_metric.models.embedders import EmbedderOptions
    from rpd_metric.models.embedding_servers import EmbeddingClient


def load_chat(stranger: Address, options: ChatOptions) -> Chat:
    """A client for a chat server of unknown kind.

    Args:
        stranger ([`~spec.Address`]): The server, without a key: which one it takes is not known
            before it has said what it is.
        options ([`~chat.ChatOptions`]): For the client.

    Raises:
        [`SpecError`]: It wants a key first, or serves embeddings.
        [`ServerError`]: It cannot be asked.
    """
    try:
        info = get_json(stranger, "/info")
    except ServerError as error:
        if error.status in (401, 403):
            raise SpecError(
                f"{stranger.url} wants a key before it says what it is; "
                "write tgi:URL (key in HF_TOKEN) or openai:URL#model (key in OPENAI_API_KEY)"
            ) from None
        if error.kind != "http":
            raise
        info = None
    if isinstance(info, dict) and "model_type" in info and "model_id" in info:
        raise SpecError(
            f"{stranger.url} serves embeddings ({info['model_id']}), not chat; "
            f"use it as the embedder: tei:{stranger.url}"
        )
    if isinstance(info, dict) and "max_total_tokens" in info:
        return TGIChat.load(_with_key(stranger, "tgi", stranger.url, "HF_TOKEN"), options)
    return OpenAIChat.load(_openai(stranger), options)


def load_embeddings(stranger: Address, options: EmbedderOptions) -> EmbeddingClient:
    """A client for an embedding server of unknown kind. Raises as [`load_chat`] does."""
    address = _with_key(stranger, "tei", stranger.url, "HF_TOKEN")
    if tei_info(address):
        return TEIEmbeddings.load(address, options)
    return OpenAIEmbeddings.load(_openai(stranger), options)


def _openai(stranger: Address) -> Address:
    return _with_key(stranger, "openai", f"{stranger.root}/v1", "OPENAI_API_KEY")


def _with_key(stranger: Address, kind: str, url: str, key_variable: str) -> Address:
    return parse_address(kind, f"{url}#{stranger.model or ''}", key_variable=key_variable)
