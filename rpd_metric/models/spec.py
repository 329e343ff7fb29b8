"""Model specs: the strings that name a model, which kinds there are, and loading them.

    tgi:http://host:port   openai:http://host:port/v1#model   hf:model-id   minilm

A spec is a kind, and behind a colon what that kind needs: a model's id or folder for those that
run in this process, a URL with an optional `#model` for a server. Keys of servers come from the
environment and from nowhere else. Chat models follow the protocol of `chat.py`, encoders
[`Embedder`]: texts in, one float32 vector per text out.
"""

from __future__ import annotations

import difflib
import os
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError, SpecError, check_least
from rpd_metric.models.chat import Chat, ChatOptions
from rpd_metric.plugins import Registry, border

# The only hosts beyond this machine that HF_TOKEN is sent to.
HUGGING_FACE = (".hf.jobs", ".endpoints.huggingface.cloud")
# A shorter key is a placeholder, such as "none", and may occur in any text.
SHORTEST_SECRET = 8
LOOPBACK = ("localhost", "127.0.0.1", "::1")
Dtype = Literal["float32", "bfloat16", "float16"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Address:
    """Where a server listens: a URL without a trailing slash, what stood after `#`, its key."""

    url: str
    model: str | None
    key: str | None = field(repr=False)

    @property
    def root(self) -> str:
        """The URL without a trailing `/v1`, where `/info` and `/health` live."""
        return self.url.removesuffix("/v1")

    def hide(self, text: str) -> str:
        """`text` on one line, shortened, with the key cut out wherever it or its base64 appears."""
        if self.key and len(self.key) >= SHORTEST_SECRET:
            text = text.replace(self.key, "[key]")
            for before in range(3):  # bytes in front of the key, in its group of three
                encoded = b64encode(b"_" * before + self.key.encode()).decode().rstrip("=")
                inner = encoded[before and before + 1 : len(encoded) - 1]
                for form in (inner, inner.translate(str.maketrans("+/", "-_"))):
                    text = re.sub(rf"[\w+/-]?{re.escape(form)}[\w+/=-]{{0,3}}", "[key]", text)
        line = " ".join(text.split())
        return line if len(line) <= 300 else f"{line[:300]}..."


@dataclass(frozen=True)
class Kind:
    """One kind of model: what its specs look like, and who loads them.

    The loader, `"package.module:function"`, takes an [`Address`] (servers), the text behind the
    colon (models of this process) or nothing, and then the options.
    """

    form: str  # how its specs are written, e.g. "tgi:http://host:port"
    loader: str
    is_server: bool = False
    needs_gpu: bool = False  # whether it runs in this process and wants a GPU to itself
    key_variable: str = ""  # environment variable with the key for such servers

    def load(self, *arguments: Any) -> Any:
        """Call the loader. Raises [`PluginError`] if that of another package fails."""
        with border(f"the loader {self.loader!r}", self.loader):
            return resolve_name(self.loader)(*arguments)


@dataclass(frozen=True)
class ModelSpec:
    """A model spec, taken apart."""

    text: str  # as it was written
    kind: str
    address: Address | None  # of a server
    model: str | None  # the name after `#`; the id or folder of others
    needs_gpu: bool

    @property
    def runs_here(self) -> bool:
        """Whether this process does the work."""
        return self.address is None

    @classmethod
    def parse(cls, text: str, kinds: Registry[Kind]) -> ModelSpec:
        """Take a spec apart, which names one of these kinds.

        Raises [`SpecError`], which repeats the first word only: the rest may be a password.
        """
        word, colon, rest = text.strip().partition(":")
        rest = rest.strip()
        kind = kinds.get(word)
        if kind is None:
            raise _unknown(word, colon, kinds)
        if bool(rest) != (":" in kind.form):
            wrong = "takes nothing after it" if rest else f"names no {kinds.what}"
            raise SpecError(f"{word}{colon} {wrong}; write {kind.form}")
        if not kind.is_server:
            return cls(text, word, None, rest or None, kind.needs_gpu)
        url, _, model = rest.partition("#")
        address = _address(word, url, model.strip(), kind.key_variable)
        return cls(text, word, address, model.strip() or None, False)


def _address(kind: str, url: str, model: str, key_variable: str) -> Address:
    """Raises [`SpecError`], without a text that may be secret."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port  # raises ValueError when it is no number
    except ValueError:  # its text quotes the URL
        parts = urlsplit("")
    if "@" in parts.netloc or parts.query:
        raise SpecError(
            f"the URL of the {kind}: spec holds a user name, password or query string. Keys come "
            f"from the environment only: set {key_variable} and write {kind}:http://host:port"
        )
    host = parts.hostname
    if "," in url:
        raise SpecError(
            f"the {kind}: spec names several servers; put a router before them, or let one serve "
            "all GPUs (vllm serve --data-parallel-size), and name its address"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise SpecError(
            f"what follows {kind}: is not a server's URL; "
            f"write {kind}:http://host:port or {kind}:https://host"
        )
    # A token of the Hub can write there, so it goes to nobody else.
    if host.endswith(HUGGING_FACE):
        key_variable = key_variable and "HF_TOKEN"
    elif key_variable == "HF_TOKEN" and host not in LOOPBACK:
        key_variable = ""
    clean = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return Address(clean, model or None, _key(key_variable))


def _key(variable: str) -> str | None:
    """The key in an environment variable. Raises [`SpecError`] where it fits into no header."""
    key = os.environ.get(variable, "").strip()
    if not re.fullmatch("[!-~]*", key):
        raise SpecError(
            f"{variable} holds characters that no key has, such as typographic quotes, spaces or "
            "accents; copy the key once more"
        )
    return key or None


def _loaded(spec: ModelSpec, kinds: Registry[Kind], options: Any) -> Any:
    kind, place = kinds[spec.kind], spec.address or spec.model
    return kind.load(place, options) if place else kind.load(options)


def _unknown(word: str, colon: str, kinds: Registry[Kind]) -> SpecError:
    meant = "openai" if word in ("http", "https") else word.lower()
    near = difflib.get_close_matches(meant, list(kinds), n=1, cutoff=0.5)
    hint = f"did you mean {kinds[near[0]].form}? " if near else ""
    shown = f"{word[:40]}:..." if colon else word[:40]
    forms = ", ".join(kind.form for kind in kinds.values())
    return SpecError(f"unknown {kinds.what} '{shown}'; {hint}The forms are: {forms}")


class Embedder(Protocol):
    """Encodes texts. `name` is what cards and manifests call it."""

    name: str

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order."""
        ...


@dataclass(frozen=True)
class EmbedderOptions:
    """How an encoder is loaded; but for the first two, of this process."""

    batch_size: int = 64  # texts per request or, on a GPU, per forward pass
    timeout: float = 120.0  # seconds for one attempt at a request to a server
    device: str | None = None  # "cpu", "cuda", "mps", ...; the library's choice if unset
    dtype: Dtype = "float32"  # of the weights; vectors are float32
    threads: int = 1  # on a CPU, forward passes at once; the vectors do not depend on it

    def __post_init__(self) -> None:
        check_least(1, self, "batch_size", "threads")
        if self.timeout <= 0:
            raise InputError(f"timeout is {self.timeout:g} s; it must be above 0")


CHAT_MODELS = Registry(
    "chat model",
    Kind,
    {
        "openai": Kind(
            "openai:http://host:port/v1#model",
            "rpd_metric.models.openai:OpenAIChat.load",
            is_server=True,
            key_variable="OPENAI_API_KEY",
        ),
        "tgi": Kind(
            "tgi:http://host:port",
            "rpd_metric.models.tgi:TGIChat.load",
            is_server=True,
            key_variable="HF_TOKEN",
        ),
        "hf": Kind("hf:model-id", "rpd_metric.models.in_process:load", needs_gpu=True),
        "vllm": Kind("vllm:model-id", "rpd_metric.models.vllm:load", needs_gpu=True),
    },
)

EMBEDDERS = Registry(
    "embedder",
    Kind,
    {
        "minilm": Kind("minilm", "rpd_metric.models.sentence_transformer:load_minilm"),
        "taught": Kind("taught", "rpd_metric.models.sentence_transformer:load_taught"),
        "static": Kind("static", "rpd_metric.models.static:StaticEmbedder"),
        "st": Kind("st:model-id", "rpd_metric.models.sentence_transformer:load", needs_gpu=True),
        "openai": Kind(
            "openai:http://host:port/v1#model",
            "rpd_metric.models.embedding_servers:EmbeddingServer.load",
            is_server=True,
            key_variable="OPENAI_API_KEY",
        ),
    },
    group="rpd.embedders",
)


def chat_spec(text: str) -> ModelSpec:
    """Read the spec of a chat model. Raises [`SpecError`]."""
    return ModelSpec.parse(text, CHAT_MODELS)


def embedder_spec(text: str) -> ModelSpec:
    """Read the spec of an encoder. Raises [`SpecError`]."""
    return ModelSpec.parse(text, EMBEDDERS)


def load_chat(spec: str | Chat, options: ChatOptions | None = None) -> Chat:
    """Load the chat model that a spec names; a chat model is returned as it is.

    Raises [`SpecError`], [`ModelError`] and [`MissingExtraError`].
    """
    if not isinstance(spec, str):
        if not callable(spec):
            raise SpecError(f"a chat model is a spec string or a Chat, not {type(spec).__name__}")
        return spec
    chat: Chat = _loaded(chat_spec(spec), CHAT_MODELS, options or ChatOptions())
    return chat


def load_embedder(spec: str | Embedder, **options: Any) -> Embedder:
    """Load the encoder that a spec names; the same spec and options give the same object.

    An object with an `encode` method is returned as it is. `options` are the fields of
    [`~embedders.EmbedderOptions`]. Raises [`SpecError`], [`ModelError`] and [`MissingExtraError`].
    """
    embedder = _load(spec, EmbedderOptions(**options)) if isinstance(spec, str) else spec
    if not (callable(getattr(embedder, "encode", None)) and hasattr(embedder, "name")):
        raise SpecError(
            "an embedder is a spec string or an object with a name and encode(texts), "
            f"not {type(embedder).__name__}"
        )
    return embedder


@lru_cache(maxsize=4)
def _load(text: str, options: EmbedderOptions) -> Embedder:
    embedder: Embedder = _loaded(embedder_spec(text), EMBEDDERS, options)
    return embedder
