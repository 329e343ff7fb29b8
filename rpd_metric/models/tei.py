"""Text Embeddings Inference, `tei:http://host:port`, through `huggingface_hub`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rpd_metric.errors import SpecError
from rpd_metric.models.http import PerLoop, get_json
from rpd_metric.models.hub_client import hub_client, hub_errors
from rpd_metric.models.spec import Address

if TYPE_CHECKING:
    from rpd_metric.models.embedders import EmbedderOptions

# TEI's own default; its /info page says what a given server takes.
TEI_BATCH = 32


class TEIEmbeddings:
    """Feature extraction on one server; an [`~embedding_servers.EmbeddingClient`].

    Args:
        address ([`~spec.Address`]): Where it listens.
        model (`str`): What it serves.
        batch_size (`int`): Texts per request.
    """

    def __init__(self, address: Address, *, model: str, batch_size: int) -> None:
        self.name = f"tei:{model}"
        self.batch_size = batch_size
        self.address = address
        self._clients = PerLoop(lambda: hub_client(address))

    @classmethod
    def load(cls, address: Address, options: EmbedderOptions) -> TEIEmbeddings:
        """Ask a server for its model and limits.

        Raises:
            [`SpecError`]: It is no TEI server with an embedding model, or serves another one.
            [`ServerError`]: It cannot be asked.
        """
        info = tei_info(address)
        if info is None:
            raise SpecError(
                f"{address.url} has no /info page as TEI has for an embedding model; for an "
                f"OpenAI-style server write openai:{address.root}/v1#model"
            )
        served = str(info["model_id"])
        if address.model not in (None, served):
            raise SpecError(
                f"{address.url} serves {served!r}, not {address.model!r}; "
                "correct what stands after '#', or leave it out"
            )
        most = info.get("max_client_batch_size")
        most = most if isinstance(most, int) and most > 0 else TEI_BATCH
        return cls(
            address,
            model=served,
            batch_size=min(options.server_batch or most, most),
        )

    def __repr__(self) -> str:
        return f"TEIEmbeddings({self.address.url!r}, name={self.name!r})"

    async def __call__(self, texts: list[str]) -> Any:
        """Send one batch; returns what should be its vectors. Raises [`ServerError`]."""
        with hub_errors(self.address):
            return await self._clients.get().feature_extraction(texts, truncate=True)

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop()
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]


def tei_info(address: Address) -> dict[str, Any] | None:
    """A TEI server's /info page; `None` where there is none, or the model embeds nothing."""
    info = get_json(address, "/info")
    if not isinstance(info, dict) or "model_id" not in info or "model_type" not in info:
        return None
    kind = info["model_type"]
    # {"embedding": {"pooling": ...}}; rerankers and classifiers answer here too.
    return info if "embedding" in kind else None
