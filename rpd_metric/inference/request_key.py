"""The key that a reply is stored under: a hash of everything that decided it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rpd_metric.errors import InputError
from rpd_metric.inference.chat import ChatRequest


def request_key(model: str, request: ChatRequest) -> str:
    """Hash everything that decides a reply.

    Two requests share a key exactly when a stored reply to one may stand for the other: order
    of dictionary keys and `0` against `0.0` do not matter, everything else does.

    Args:
        model (`str`): The model's name, as the chat client reports it.
        request ([`ChatRequest`]): The request.

    Returns:
        `str`: 64 hexadecimal digits.

    Raises:
        InputError: When the request holds something that JSON cannot express.

    Example:

    ```python
    >>> from rpd_metric.inference.chat import ChatRequest
    >>> request = ChatRequest(messages=({"role": "user", "content": "2 + 2?"},))
    >>> request_key("tiny", request)[:12]
    '4a76b0284554'

    ```
    """
    sampling = dict(vars(request.sampling))  # asdict copies deeply, for every request
    for name in ("temperature", "top_p"):
        sampling[name] = float(sampling[name])
    content = {
        "model": model,
        "template": request.template,
        "messages": request.messages,
        "sampling": sampling,
        "schema": request.schema,
    }
    try:
        canonical = json.dumps(
            content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"a chat request must be plain JSON throughout: {error}") from error
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")
