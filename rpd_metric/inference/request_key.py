"""The key that a reply is stored under: a hash of everything that decided it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

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
    return _hash(model, request, dict(vars(request.sampling)))  # asdict copies deeply


@dataclass(frozen=True)
class RequestKeys:
    """How a request is found in a store.

    Args:
        exact (`str`): See [`request_key`].
        family (`str`): The same, of everything but the limit on the reply's length.
        max_tokens (`int`): That limit.
        model, template (`str`): What a store counts replies by, see [`ChatRequest`].

    Example:

    >>> from rpd_metric.inference.chat import ChatRequest, Sampling
    >>> short, long = (
    ...     RequestKeys.of("tiny", ChatRequest((), Sampling(max_tokens=n))) for n in (10, 20)
    ... )
    >>> short.exact == long.exact, short.family == long.family
    (False, True)
    """

    exact: str
    family: str
    max_tokens: int
    model: str
    template: str

    @classmethod
    def of(cls, model: str, request: ChatRequest) -> RequestKeys:
        """The keys of a request."""
        any_length = {**vars(request.sampling), "max_tokens": None}
        return cls(
            request_key(model, request),
            _hash(model, request, any_length),
            request.sampling.max_tokens,
            model,
            request.template,
        )


def _hash(model: str, request: ChatRequest, sampling: dict[str, object]) -> str:
    for name in ("temperature", "top_p"):
        sampling[name] = float(getattr(request.sampling, name))
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
