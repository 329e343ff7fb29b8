"""An embedding server behind a spec, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable

from rpd_metric.models.embedders import EmbedderOptions
from rpd_metric.models.embedding_servers import EmbeddingServer
from rpd_metric.models.kinds import EMBEDDERS, embedder_spec
from rpd_metric.models.spec import load_models


def embedding_server(
    spec: str,
    *,
    batch_size: int | None = None,
    timeout: float = 120.0,
    in_flight: int = 4,
    waits: list[float] | None = None,
    random: Callable[[], float] = lambda: 1.0,
) -> EmbeddingServer:
    """The server; it writes down how long it was to wait, instead of waiting."""
    waited = [] if waits is None else waits

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    clients = load_models(embedder_spec(spec), EMBEDDERS, EmbedderOptions(server_batch=batch_size))
    return EmbeddingServer(
        clients, in_flight=in_flight, timeout=timeout, sleep=sleep, random=random
    )
