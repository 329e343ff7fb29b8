"""all-MiniLM-L6-v2 on a CPU, with torch, safetensors and tokenizers alone.

Importing sentence-transformers takes several times as long as importing torch, and longer than
encoding the solutions of a dozen problems: it brings peft, bitsandbytes, scikit-learn and torch's
compiler along. The packaged model is one fixed file, so its forward pass is written out here; the
tests compare it with sentence-transformers'.

Not here: batches, padding, other models, other devices. `sentence_transformer.py` has these.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional

from rpd_metric.inference.embedders import Dtype
from rpd_metric.inference.packed_linear import pack_linears

LAYERS = 6
HEADS = 12
WIDTH = 384
EPSILON = 1e-12
# Word pieces that are read, [CLS] and [SEP] included; the model was trained for so many.
LONGEST = 256

Weights = dict[str, torch.Tensor]


class MiniLM(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """The model, called as a `SentenceTransformer` is, with one text at a time.

    Args:
        folder (`Path`): With `model.safetensors` and `tokenizer.json`.
        dtype (`str`): The weights' type; in float32 linear layers are packed, see
            [`~rpd_metric.inference.packed_linear.pack_linears`].
    """

    def __init__(self, folder: Path, dtype: Dtype = "float32") -> None:
        super().__init__()
        weights = {
            name: weight.to(getattr(torch, dtype)) if weight.is_floating_point() else weight
            for name, weight in load_file(folder / "model.safetensors").items()
        }
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"]
        # A text is no second sentence of a pair.
        self._first_sentence = weights["embeddings.token_type_embeddings.weight"][0]
        self.norm = _norm(weights, "embeddings.LayerNorm")
        self.layers = torch.nn.ModuleList(
            _Layer(weights, f"encoder.layer.{number}") for number in range(LAYERS)
        )
        pack_linears(self)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(LONGEST)
        self.device = torch.device("cpu")

    def preprocess(self, texts: Sequence[str], prompt: str = "") -> dict[str, torch.Tensor]:
        """The word pieces of one text, as a `(1, n)` tensor."""
        (text,) = texts
        return {"input_ids": torch.tensor([self._tokenizer.encode(prompt + text).ids])}

    def forward(self, features: dict[str, Any]) -> dict[str, torch.Tensor]:
        """The text's vector of unit length, as `"sentence_embedding"` of shape `(1, 384)`."""
        (pieces,) = features["input_ids"]
        hidden = self._words[pieces] + self._first_sentence + self._places[: len(pieces)]
        hidden = self.norm(hidden[None])
        for layer in self.layers:
            hidden = layer(hidden)
        mean = hidden.sum(1) / len(pieces)
        return {"sentence_embedding": functional.normalize(mean, p=2, dim=1)}

    def get_embedding_dimension(self) -> int:
        """Length of the vectors."""
        return WIDTH


class _Layer(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Attention, and two linear layers with a GELU between them; each is added to its input."""

    def __init__(self, weights: Weights, name: str) -> None:
        super().__init__()
        self.query = _linear(weights, f"{name}.attention.self.query")
        self.key = _linear(weights, f"{name}.attention.self.key")
        self.value = _linear(weights, f"{name}.attention.self.value")
        self.joined = _linear(weights, f"{name}.attention.output.dense")
        self.joined_norm = _norm(weights, f"{name}.attention.output.LayerNorm")
        self.wide = _linear(weights, f"{name}.intermediate.dense")
        self.narrow = _linear(weights, f"{name}.output.dense")
        self.narrow_norm = _norm(weights, f"{name}.output.LayerNorm")

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """From `(1, n, 384)` to the same."""
        heads = (*hidden.shape[:2], HEADS, WIDTH // HEADS)
        query, key, value = (
            linear(hidden).view(heads).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value)
        seen = seen.transpose(1, 2).reshape(hidden.shape)
        hidden = self.joined_norm(self.joined(seen) + hidden)
        changed: torch.Tensor = self.narrow(functional.gelu(self.wide(hidden)))
        normed: torch.Tensor = self.narrow_norm(changed + hidden)
        return normed


def _linear(weights: Weights, name: str) -> torch.nn.Linear:
    weight = weights[f"{name}.weight"]
    # On no device: nothing is drawn, which would change what the caller draws next.
    return _filled(torch.nn.Linear(*reversed(weight.shape), device="meta"), weights, name)


def _norm(weights: Weights, name: str) -> torch.nn.LayerNorm:
    return _filled(torch.nn.LayerNorm(WIDTH, eps=EPSILON, device="meta"), weights, name)


def _filled(layer: Any, weights: Weights, name: str) -> Any:
    layer.weight = torch.nn.Parameter(weights[f"{name}.weight"], requires_grad=False)
    layer.bias = torch.nn.Parameter(weights[f"{name}.bias"], requires_grad=False)
    return layer
