"""Model specs: the strings that name a model, read in one place.

    tgi:http://host:port   openai:http://a/v1,http://b/v1#model   hf:model-id   minilm

A spec is a kind, and behind a colon what that kind needs: a model's id or folder for those that
run in this process, one or more URLs with an optional `#model` for servers. Which kinds there are
is `kinds.py`'s to say. Keys of servers come from the environment and from nowhere else.
"""

from __future__ import annotations

import difflib
import os
import re
from base64 import b64encode
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rpd_metric.errors import SpecError
from rpd_metric.plugins import Registry, border

# The only hosts beyond this machine that HF_TOKEN is sent to.
HUGGING_FACE = (".hf.jobs", ".endpoints.huggingface.cloud")
# A shorter key is a placeholder, such as "none", and may occur in any text.
SHORTEST_SECRET = 8
LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
    addresses: tuple[Address, ...]  # none for models of this process
    model: str | None  # the name after `#`; the id or folder of others
    needs_gpu: bool

    @property
    def runs_here(self) -> bool:
        """Whether this process does the work."""
        return not self.addresses

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
            return cls(text, word, (), rest or None, kind.needs_gpu)
        written, _, model = rest.partition("#")
        urls = re.split(r"\s*,\s*(?=https?://)", written)
        addresses = tuple(_address(word, url, model.strip(), kind.key_variable) for url in urls)
        return cls(text, word, addresses, model.strip() or None, False)


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


def load_named(spec: ModelSpec, kinds: Registry[Kind], options: Any) -> list[Any]:
    """Load what a spec names: one model or client per server, or one of this process."""
    kind = kinds[spec.kind]
    if kind.is_server:
        return [kind.load(address, options) for address in spec.addresses]
    return [kind.load(spec.model, options) if spec.model else kind.load(options)]


def _unknown(word: str, colon: str, kinds: Registry[Kind]) -> SpecError:
    meant = "openai" if word in ("http", "https") else word.lower()
    near = difflib.get_close_matches(meant, list(kinds), n=1, cutoff=0.5)
    hint = f"did you mean {kinds[near[0]].form}? " if near else ""
    shown = f"{word[:40]}:..." if colon else word[:40]
    forms = ", ".join(kind.form for kind in kinds.values())
    return SpecError(f"unknown {kinds.what} '{shown}'; {hint}The forms are: {forms}")
