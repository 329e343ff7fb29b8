"""Model specs: read in one place, and every kind that is registered can be loaded."""

import base64
import contextlib
import re
import traceback
from importlib.util import find_spec
from pkgutil import resolve_name

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpd_metric.errors import MissingExtraError, SpecError
from rpd_metric.models.spec import (
    CHAT_MODELS,
    EMBEDDERS,
    Address,
    ModelSpec,
    chat_spec,
    load_chat,
    load_embedder,
)
from rpd_metric.steps.summarizers import (
    SUMMARIZERS,
    asks_chat_model,
    load_summarizer,
    summarizer_spec,
)

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize("key", [SECRET, SECRET[:-1], SECRET[:-2], "hf_?>?>?>~~~"])
@pytest.mark.parametrize("before", ["", "a", "user:", "Bearer ", '{"key": "'])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_is_cut_out_of_a_text_in_base64_too(key, before, encode):
    said = encode(f"{before}{key}{before and 'and more'}".encode()).decode()
    shown = Address("http://a", None, key).hide(f"wrong key {said}, {key}.")
    words = [word[at:] for word in re.findall(r"[\w+/-]+", shown) for at in range(4)]
    readable = [base64.b64decode(word[: len(word) // 4 * 4], b"-_") for word in words]
    assert key not in shown
    assert not any(key[at : at + 3].encode() in b"".join(readable) for at in range(len(key) - 2))


@pytest.mark.parametrize("kind", [*CHAT_MODELS.values(), *EMBEDDERS.values()])
def test_every_kind_has_a_loader_and_its_own_form_is_a_spec(kind):
    assert callable(resolve_name(kind.loader))
    kinds = CHAT_MODELS if kind in CHAT_MODELS.values() else EMBEDDERS
    spec = ModelSpec.parse(kind.form.replace(":port", ":80"), kinds)
    assert kinds[spec.kind] == kind
    assert spec.runs_here != kind.is_server


@pytest.mark.parametrize(
    ("text", "url", "model", "here", "gpu"),
    [
        ("tgi:http://a:80", "http://a:80", None, False, False),
        ("openai: https://a/v1/#m", "https://a/v1", "m", False, False),
        ("hf:org/model", None, "org/model", True, True),
    ],
)
def test_a_chat_spec_is_taken_apart(text, url, model, here, gpu):
    spec = chat_spec(text)
    assert (spec.address and spec.address.url) == url
    assert (spec.model, spec.runs_here, spec.needs_gpu) == (model, here, gpu)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("tgl:http://host:80", "did you mean tgi:http://host:port?"),
        ("http://host:80", "did you mean openai:http://host:port/v1#model?"),
        ("auto:http://host:80", "unknown chat model 'auto:...'"),
        ("", "The forms are: openai:http://host:port/v1#model, tgi:"),
        ("tgi:", "write tgi:http://host:port"),
        ("hf:", "write hf:model-id"),
        ("tgi:host:8080", "write tgi:http://host:port"),
        ("openai:ftp://host/v1#m", "write openai:http://host:port"),
        ("openai:http:///v1#m", "write openai:http://host:port"),
        ("tgi:http://host:notaport", "is not a server's URL"),
        ("tgi:http://[::1", "is not a server's URL"),
        ("openai:http://a/v1,http://b/v1#m", "put a router before them"),
    ],
)
def test_a_spec_that_names_nothing_is_refused_with_the_forms(bad, said):
    with pytest.raises(SpecError) as caught:
        load_chat(bad)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_no_text_after_the_kind_breaks_the_parser(text):
    with contextlib.suppress(SpecError):
        url = chat_spec(f"tgi:{text}").address.url
        assert url.startswith(("http://", "https://"))
        assert "@" not in url.split("/")[2]


@pytest.mark.parametrize(
    "bad",
    [
        f"tgi:http://user:{SECRET}@host:80",
        f"openai:https://{SECRET}@host/v1#m",
        f"openai:https://host/v1?api_key={SECRET}#m",
        f"http://user:{SECRET}@host",
        f"tgi:http://user:{SECRET}@host:notaport",
        f"tgi:user:{SECRET}@host:80",
        f"openai:https://host:{SECRET}/v1#m",
        f"openai:{SECRET}",
    ],
)
def test_a_secret_in_a_spec_is_refused_without_being_repeated(bad):
    with pytest.raises(SpecError) as caught:
        load_chat(bad)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_summarizer_is_any_chat_model_or_one_that_needs_none():
    assert set(CHAT_MODELS) < set(SUMMARIZERS)
    assert not asks_chat_model("extractive")
    assert asks_chat_model("hf:org/model")
    with pytest.raises(SpecError, match=r"unknown summarizer 'extractiv'; did you mean extractive"):
        load_summarizer("extractiv")
    with pytest.raises(SpecError, match=r"takes nothing after it; write extractive"):
        summarizer_spec("extractive:x")
    with pytest.raises(SpecError, match="an embedder is a spec string"):
        load_embedder(7)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_vllm_in_process_says_what_to_install_where_it_is_missing():
    with pytest.raises(MissingExtraError, match=r"pip install -c constraints.txt -e .*\[vllm\]"):
        load_chat("vllm:org/model")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("tgi:http://localhost:8080", "hf"),
        ("tgi:http://my.server:8080", None),
        ("tgi:https://evil.example/x.hf.jobs", None),
        ("tgi:https://job--8000.hf.jobs", "hf"),
        ("openai:https://job--8000.hf.jobs/v1#m", "hf"),
        ("openai:https://a.b.endpoints.huggingface.cloud/v1#m", "hf"),
        ("openai:http://my.server/v1#m", "sk"),
    ],
)
def test_the_hubs_token_goes_to_hugging_face_and_to_this_machine_only(text, key, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf")
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert chat_spec(text).address.key == key


@pytest.mark.parametrize("key", ["sk-vérité-1234", "“sk-1234567890”", "sk-12\x0134", "two words"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(SpecError, match="OPENAI_API_KEY holds characters that no key has") as error:
        chat_spec("openai:http://host/v1#m")
    assert key not in str(error.value)
