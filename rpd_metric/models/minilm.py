"""all-MiniLM-L6-v2 on a CPU, with torch, safetensors and tokenizers alone.

Importing sentence-transformers takes longer than encoding the solutions of a dozen problems; the
tests compare this forward pass with its own.

Texts go through the linear layers one behind the other, as rows of one matrix: a few rows would
keep a core waiting for the weights. Nothing is padded, and attention never leaves a text. So a
text's vector is bit for bit the one it has alone, wherever a row's sums do not depend on how many
rows there are. oneDNN's kernels are like that; `MiniLM.blocks` tries it before it relies on it. In
float32 PyTorch multiplies by oneDNN only what is in oneDNN's own layout, in bfloat16 everything.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from io import BytesIO
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional

from rpd_metric.errors import ModelError
from rpd_metric.models.spec import Dtype

LAYERS = 6
HEADS = 12
WIDTH = 384
EPSILON = 1e-12
TAUGHT = Path(__file__).with_name("taught.npz")
TAUGHT_SHA256 = "494e590d1401f0ec2dc0e5d974db45d052535dbbeb52881025f297594b74fc68"
# Word pieces that are read, [CLS] and [SEP] included; the model was trained for so many.
LONGEST = 256
# Word pieces of a block. More do not make a core faster, and leave its cache.
BLOCK = 256
# Lengths of the texts that are tried: alike and different, within a kernel's rows and beyond.
TRIED = (3, 3, 5, 8, 13, 13, 21, 34, 55)

Weights = dict[str, torch.Tensor]
# From `(rows, width)` to the same, or to another width.
Part = Callable[[torch.Tensor], torch.Tensor]
# The word pieces of some texts, those of equal length side by side.
Pieces = Sequence[Sequence[int]]
# Of texts that lie one behind the other: how many there are of a length, and the length.
Runs = Sequence[tuple[int, int]]


class MiniLM:
    """The model, called with one block of texts at a time."""

    device = torch.device("cpu")

    def __init__(self, folder: Path, dtype: Dtype = "float32") -> None:
        weights = {
            name: weight.to(getattr(torch, dtype)) if weight.is_floating_point() else weight
            for name, weight in self._weights(folder).items()
        }
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"]
        # A text is no second sentence of a pair.
        self._first_sentence = weights["embeddings.token_type_embeddings.weight"][0]
        self._norm = _norm(weights, "embeddings.LayerNorm")
        self.layers = [_Layer(weights, f"encoder.layer.{number}") for number in range(LAYERS)]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(LONGEST)

    def _weights(self, folder: Path) -> Weights:
        return load_file(folder / "model.safetensors")

    def pieces(self, text: str) -> list[int]:
        """The word pieces that are read of a text."""
        pieces: list[int] = self._tokenizer.encode(text).ids
        return pieces

    def blocks(self, texts: Sequence[str]) -> list[tuple[list[int], Pieces]]:
        """For each block of texts that no vector depends on: their positions and word pieces."""
        pieces = [self.pieces(text) for text in texts]
        blocks: list[tuple[list[int], list[list[int]]]] = []
        rows = BLOCK
        for place in sorted(range(len(pieces)), key=lambda place: len(pieces[place])):
            rows += len(pieces[place])
            if rows > BLOCK or not self._rows_are_independent:
                blocks.append(([], []))
                rows = len(pieces[place])
            blocks[-1][0].append(place)
            blocks[-1][1].append(pieces[place])
        return list(blocks)

    @cached_property
    def _rows_are_independent(self) -> bool:
        """Whether on this machine some texts have the same vectors in blocks as alone."""
        tried = [list(range(length, 2 * length)) for length in TRIED]
        half = len(tried) // 2
        with torch.inference_mode():
            alone = torch.cat([self([pieces]) for pieces in tried])
            blocks = (
                self(tried),
                self(tried[::-1]).flip(0),
                torch.cat([self(tried[:half]), self(tried[half:])]),
            )
            return all(torch.equal(vectors, alone) for vectors in blocks)

    def __call__(self, texts: Pieces) -> torch.Tensor:
        """The texts' vectors of unit length, as `(len(texts), 384)`."""
        hidden = self.hidden(texts, LAYERS)
        means = [run.sum(1) / run.shape[1] for run in by_run(hidden, runs_of(texts))]
        return functional.normalize(torch.cat(means), p=2, dim=1)

    def hidden(self, texts: Pieces, layers: int) -> torch.Tensor:
        """What the first so many layers make of the texts' word pieces, as `(pieces, 384)`."""
        pieces = torch.tensor([piece for text in texts for piece in text])
        places = torch.cat([torch.arange(len(text)) for text in texts])
        hidden = self._norm(self._words[pieces] + self._first_sentence + self._places[places])
        for layer in self.layers[:layers]:
            hidden = layer(hidden, runs_of(texts))
        return hidden


class Taught(MiniLM):
    """`taught`: the model, its upper layers taught what a strategy is.

    `taught.npz` has what teaching changed in each weight, a matrix in eight bits with a scale for
    each row. `benchmarks/teach.py` makes it; `taught.md` says of which data, and has the log.
    """

    def _weights(self, folder: Path) -> Weights:
        weights = super()._weights(folder)
        for name, change in read_changes().items():
            weights[name] = weights[name] + change
        return weights


def read_changes() -> Weights:
    """What teaching changed in MiniLM's weights, by their names.

    Raises [`ModelError`]: The file is not the one that belongs to this version.
    """
    content = TAUGHT.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != TAUGHT_SHA256:
        raise ModelError(
            f"{TAUGHT} has sha256 {digest}, not {TAUGHT_SHA256}. Install the package again: "
            "pip install --force-reinstall rpd-metric"
        )
    with np.load(BytesIO(content)) as arrays:
        return {
            name: torch.from_numpy(
                arrays[name].astype(np.float32) * arrays[f"{name}/scale"].astype(np.float32)
            )
            for name in arrays.files
            if not name.endswith("/scale")
        }


class _Layer:
    """Attention, and two linear layers with a GELU between them; each is added to its input."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.query = _linear(weights, f"{name}.attention.self.query")
        self.key = _linear(weights, f"{name}.attention.self.key")
        self.value = _linear(weights, f"{name}.attention.self.value")
        self.joined = _linear(weights, f"{name}.attention.output.dense")
        self.joined_norm = _norm(weights, f"{name}.attention.output.LayerNorm")
        self.wide = _linear(weights, f"{name}.intermediate.dense")
        self.narrow = _linear(weights, f"{name}.output.dense")
        self.narrow_norm = _norm(weights, f"{name}.output.LayerNorm")

    def __call__(self, hidden: torch.Tensor, runs: Runs) -> torch.Tensor:
        """From `(rows, 384)` to the same."""
        packed = _packed(hidden)
        parts = (
            by_run(_plain(linear(packed)), runs) for linear in (self.query, self.key, self.value)
        )
        seen = torch.cat([attention(*run) for run in zip(*parts, strict=True)])
        hidden = self.joined_norm(_plain(self.joined(_packed(seen))) + hidden)
        changed = self.narrow(functional.gelu(self.wide(_packed(hidden))))
        return self.narrow_norm(_plain(changed) + hidden)


def runs_of(texts: Pieces) -> Runs:
    """The runs of these texts."""
    return [(len(list(alike)), length) for length, alike in groupby(map(len, texts))]


def by_run(rows: torch.Tensor, runs: Runs) -> list[torch.Tensor]:
    """The rows of each run of texts, as `(texts, length, 384)`."""
    parts = rows.split([count * length for count, length in runs])
    return [part.view(*run, WIDTH) for part, run in zip(parts, runs, strict=True)]


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """From `(texts, length, 384)` each to `(texts * length, 384)`; each text sees itself."""
    heads = (*query.shape[:2], HEADS, WIDTH // HEADS)
    seen = functional.scaled_dot_product_attention(
        *(part.view(heads).transpose(1, 2) for part in (query, key, value))
    )
    return seen.transpose(1, 2).reshape(-1, WIDTH)


def _packed(rows: torch.Tensor) -> torch.Tensor:
    """Float32 in oneDNN's own layout, where this PyTorch has it."""
    if rows.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        return rows.to_mkldnn()
    return rows


def _plain(rows: torch.Tensor) -> torch.Tensor:
    return rows.to_dense() if rows.is_mkldnn else rows


def _linear(weights: Weights, name: str) -> Part:
    weight, bias = _packed(weights[f"{name}.weight"]), _packed(weights[f"{name}.bias"])
    return lambda rows: functional.linear(rows, weight, bias)


def _norm(weights: Weights, name: str) -> Part:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return lambda rows: functional.layer_norm(rows, (WIDTH,), weight, bias, EPSILON)
