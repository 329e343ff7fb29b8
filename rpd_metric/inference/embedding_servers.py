"""Embedding servers behind a spec string, as encoders: texts in, float32 vectors out.

    tei:http://host:port               Text Embeddings Inference (feature extraction)
    openai:http://host:port/v1#model   vLLM, SGLang, TEI's /v1, hosted APIs
    auto:http://host:port              asks the server which of the two it is

Several servers with one model are named with commas, see `balance.py`.

`encode` blocks until all vectors are there: it cuts its texts into batches that the server
takes, keeps a few of them in flight, and waits and asks again on 429, 503, timeouts and lost
connections. A reply that holds anything but one finite vector of one length per text is an
error. Texts longer than the model takes are cut by the server, as sentence-transformers does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import httpx2
import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError, MissingExtraError, SpecError
from rpd_metric.inference.balance import Balance, addresses, the_same
from rpd_metric.inference.http import (
    CONNECT_SECONDS,
    NO_KEY,
    Address,
    get_json,
    http_error,
    only_model,
    parse_address,
    protocol_error,
    timeout_error,
    transport_error,
    unknown_spec,
)
from rpd_metric.inference.scheduler import ServerError

Floats = npt.NDArray[np.float32]

FORMS = {
    "tei": "tei:http://host:port",
    "openai": "openai:http://host:port/v1#model",
    "auto": "auto:http://host:port",
}

# TEI's own default; its /info page says what a given server takes.
TEI_BATCH = 32
ATTEMPTS = 7
LONGEST_WAIT = 30.0


class _Endpoint(Protocol):
    """One request for one batch; raises `ServerError`."""

    def __call__(self, texts: list[str]) -> Any: ...


class EmbeddingServer:
    """Encodes texts on a server; an [`~embedding.Embedder`].

    Args:
        name (`str`): What cards and manifests call it.
        ask (`Callable`): Sends one batch of texts and returns what should be its vectors.
        address ([`~connection.Address`]): For error texts.
        batch_size (`int`): Texts per request.
        in_flight (`int`): Requests at once.
        attempts (`int`): Times that one batch is tried.
        sleep, jitter: The clock and the dice of the waiting in between.
    """

    def __init__(
        self,
        name: str,
        ask: _Endpoint,
        *,
        address: Address,
        batch_size: int,
        in_flight: int = 4,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.batch_size = batch_size
        self._ask = ask
        self._address = address
        self._in_flight = in_flight
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter
        self._dimension: int | None = None

    def __repr__(self) -> str:
        return f"EmbeddingServer({self._address.url!r}, name={self.name!r})"

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order; equal texts travel once.

        Raises:
            [`ServerError`]: The server refused, stayed away, or sent no usable vectors.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return np.zeros((0, self._dimension or 0), dtype=np.float32)
        size = self.batch_size
        batches = [distinct[start : start + size] for start in range(0, len(distinct), size)]
        with ThreadPoolExecutor(max_workers=min(self._in_flight, len(batches))) as pool:
            parts = list(pool.map(self._encode_batch, batches))
        widths = {part.shape[1] for part in parts} | {self._dimension or parts[0].shape[1]}
        if len(widths) > 1:
            raise protocol_error(self._address, f"vectors of lengths {sorted(widths)}")
        (self._dimension,) = widths
        row_of = {text: row for row, text in enumerate(distinct)}
        return np.concatenate(parts)[[row_of[text] for text in texts]]

    def _encode_batch(self, batch: list[str]) -> Floats:
        # A lone surrogate cannot be written in UTF-8.
        sendable = [text.encode("utf-8", "replace").decode("utf-8") for text in batch]
        attempt = 1
        while True:
            try:
                return self._check(self._ask(sendable), len(batch))
            except ServerError as error:
                # A malformed reply would only come again.
                if not error.retryable or error.kind == "protocol" or attempt == self._attempts:
                    raise
                backoff = self._jitter() * min(0.5 * 2**attempt, LONGEST_WAIT)
                self._sleep(max(backoff, error.retry_after or 0.0))
            attempt += 1

    def _check(self, reply: Any, rows: int) -> Floats:
        try:
            vectors = np.asarray(reply, dtype=np.float32)
        except (TypeError, ValueError) as error:  # ragged, or not numbers
            raise protocol_error(self._address, f"no vectors ({error})") from None
        if vectors.ndim != 2 or vectors.shape[0] != rows or vectors.shape[1] == 0:
            what = f"an array of shape {vectors.shape} for {rows} texts"
            raise protocol_error(self._address, what)
        if not np.isfinite(vectors).all():
            raise protocol_error(self._address, "vectors with NaN or infinity in them")
        return vectors


def load_embedding_server(
    spec: str, *, batch_size: int | None = None, timeout: float = 120.0, in_flight: int = 4
) -> EmbeddingServer:
    """Load the embedding server that a spec names.

    `tei:` and `auto:` ask the server for its model and limits; `openai:` asks only when no
    model is given after `#`.

    Args:
        spec (`str`): One of the forms above.
        batch_size (`int`, *optional*): Texts per request, at most what the server takes. If
            unset, that (TEI says it on /info), or 64.
        timeout (`float`): Seconds for one request.
        in_flight (`int`): Requests at once; servers batch them further.

    Returns:
        [`EmbeddingServer`]

    Raises:
        [`SpecError`]: The spec has none of these forms, or holds a secret.
        [`ServerError`]: The server cannot be asked for its model.
        [`MissingExtraError`]: The packages for it are not installed.
    """
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; it must be 1 or more")
    kind, _, rest = spec.strip().partition(":")
    if kind not in FORMS:
        raise unknown_spec(kind, FORMS, "embedding server")
    if len(several := addresses(rest)) > 1:
        return _together(
            [
                load_embedding_server(
                    f"{kind}:{one}", batch_size=batch_size, timeout=timeout, in_flight=in_flight
                )
                for one in several
            ]
        )
    if kind == "auto":
        kind = (
            "tei" if _tei_info(parse_address("auto", rest, key_variable="HF_TOKEN")) else "openai"
        )
        if kind == "openai":
            address = parse_address("auto", rest, key_variable="OPENAI_API_KEY")
            rest = f"{address.root}/v1#{address.model or ''}"
    if kind == "tei":
        address = parse_address("tei", rest, key_variable="HF_TOKEN")
        info = _tei_info(address)
        if info is None:
            raise SpecError(
                f"{address.url} has no /info page as TEI has for an embedding model; for an "
                f"OpenAI-style server write openai:{address.root}/v1#model"
            )
        served = str(info["model_id"])
        if address.model not in (None, served):
            raise SpecError(
                f"{address.url} serves {served!r}, not {address.model!r}; "
                "mend what stands after '#', or leave it out"
            )
        most = info.get("max_client_batch_size")
        most = most if isinstance(most, int) and most > 0 else TEI_BATCH
        return EmbeddingServer(
            f"tei:{served}",
            _TEI(address, timeout),
            address=address,
            batch_size=min(batch_size or most, most),
            in_flight=in_flight,
        )
    address = parse_address("openai", rest, key_variable="OPENAI_API_KEY")
    model = address.model or only_model(address, "openai")
    return EmbeddingServer(
        f"openai:{model}",
        _OpenAI(address, model, timeout),
        address=address,
        batch_size=batch_size or 64,
        in_flight=in_flight,
    )


def _together(servers: Sequence[EmbeddingServer]) -> EmbeddingServer:
    """Several servers as one that takes the requests of all."""
    balance = Balance([server._ask for server in servers])

    def ask(texts: list[str]) -> Any:
        with balance.turn() as one:
            return one(texts)

    return EmbeddingServer(
        the_same([server.name for server in servers], "embedding server"),
        ask,
        address=servers[0]._address,
        batch_size=min(server.batch_size for server in servers),
        in_flight=sum(server._in_flight for server in servers),
    )


def _tei_info(address: Address) -> dict[str, Any] | None:
    info = get_json(address, "/info")
    if not isinstance(info, dict) or "model_id" not in info or "model_type" not in info:
        return None
    kind = info["model_type"]
    # {"embedding": {"pooling": ...}}; rerankers and classifiers answer here too.
    return info if "embedding" in kind else None


class _TEI:
    """Feature extraction through `huggingface_hub.InferenceClient`."""

    def __init__(self, address: Address, timeout: float) -> None:
        from huggingface_hub import InferenceClient

        http = httpx2.Client(
            timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS), follow_redirects=True
        )

        # The client's own connections are shared by the whole process and refuse every host,
        # localhost too, under HF_HUB_OFFLINE=1, which is about the Hub.
        class Client(InferenceClient):
            def _inner_post(self, request_parameters: Any, **_: Any) -> Any:
                asked = request_parameters
                reply = http.post(asked.url, json=asked.json, headers=asked.headers)
                if reply.status_code != 200:
                    raise http_error(address, reply.status_code, reply.headers, reply.text)
                return reply.content

        self._address = address
        self._client = Client(base_url=address.url, token=address.key or NO_KEY)

    def __call__(self, texts: list[str]) -> Any:
        try:
            return self._client.feature_extraction(texts, truncate=True)
        except httpx2.HTTPError as error:
            raise transport_error(self._address, error) from None
        except (TypeError, ValueError) as error:  # not JSON, or ragged
            raise protocol_error(self._address, str(error)) from None


class _OpenAI:
    """Embeddings through `openai.OpenAI`."""

    def __init__(self, address: Address, model: str, timeout: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError(
                "a spec 'openai:...'", extra="servers", module=error.name or "openai"
            ) from error
        self._openai = openai
        self._address = address
        self._model = model
        self._timeout = timeout
        self._client = openai.OpenAI(
            base_url=address.url,
            api_key=address.key or NO_KEY,
            max_retries=0,
            timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
        )

    def __call__(self, texts: list[str]) -> Any:
        openai = self._openai
        try:
            # The client's default, base64, is not understood everywhere.
            reply = self._client.embeddings.create(
                model=self._model, input=texts, encoding_format="float"
            )
        except openai.APITimeoutError:
            raise timeout_error(self._address, f"{self._timeout:g} s") from None
        except openai.APIStatusError as error:
            answer = error.response
            raise http_error(
                self._address, answer.status_code, answer.headers, answer.text
            ) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise transport_error(self._address, cause) from None
        except httpx2.HTTPError as error:
            raise transport_error(self._address, error) from None
        except ValueError as error:
            raise protocol_error(self._address, str(error)) from None
        rows = getattr(reply, "data", None)
        if not isinstance(rows, list) or not all(hasattr(row, "embedding") for row in rows):
            raise protocol_error(self._address, "no embeddings in it")
        # The protocol promises an index, not an order.
        by_index = {getattr(row, "index", None): row.embedding for row in rows}
        if len(rows) != len(texts) or by_index.keys() != set(range(len(texts))):
            raise protocol_error(self._address, f"{len(rows)} vectors for {len(texts)} texts")
        return [by_index[index] for index in range(len(texts))]
