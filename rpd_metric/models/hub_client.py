"""`huggingface_hub.AsyncInferenceClient` for servers of one's own: TGI and TEI.

Left as it is, the client pools 100 connections, and under HF_HUB_OFFLINE=1, which is about the
Hub, it refuses every host, localhost too. Its public way out is the factory that it takes its
connections from, which holds for the whole process and for these asynchronous clients only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx2

from rpd_metric.models.http import (
    NO_KEY,
    PATIENT,
    http_error,
    protocol_error,
    transport_error,
)
from rpd_metric.models.spec import Address

if TYPE_CHECKING:
    from huggingface_hub import AsyncInferenceClient


def hub_client(address: Address) -> AsyncInferenceClient:
    """A client for one server.

    It waits for a reply as long as its caller does.

    Args:
        address ([`~spec.Address`]): Where it listens.
    """
    from huggingface_hub import AsyncInferenceClient, set_async_client_factory

    set_async_client_factory(_connections)
    return AsyncInferenceClient(
        base_url=address.url,
        token=address.key or NO_KEY,
        timeout=cast(Any, PATIENT),  # handed on to httpx as it is
    )


def _connections() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        follow_redirects=True,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        event_hooks={"request": [_refuse_hub_when_offline]},
    )


async def _refuse_hub_when_offline(request: httpx2.Request) -> None:
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    if constants.is_offline_mode() and request.url.host == urlsplit(constants.ENDPOINT).hostname:
        raise OfflineModeIsEnabled(
            f"cannot reach {request.url}: HF_HUB_OFFLINE is set; unset it to use the Hub"
        )


@contextmanager
def hub_errors(address: Address) -> Iterator[None]:
    """The client's errors as [`~errors.ServerError`]s."""
    from huggingface_hub.errors import HfHubHTTPError, InferenceTimeoutError

    try:
        yield
    except InferenceTimeoutError as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise transport_error(address, cause) from None
    except HfHubHTTPError as error:
        answer = error.response
        raise http_error(address, answer.status_code, answer.headers, answer.text) from None
    except httpx2.HTTPError as error:
        raise transport_error(address, error) from None
    except (TypeError, ValueError) as error:  # not JSON, or JSON of another shape
        raise protocol_error(address, str(error)) from None
