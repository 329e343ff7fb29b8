"""Encoders behind one protocol: texts in, one float32 vector per text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError

Dtype = Literal["float32", "bfloat16", "float16"]
Floats = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Encodes texts. `name` is what cards and manifests call it."""

    name: str

    def encode(self, texts: Sequence[str]) -> Floats:
        """Encode `n` texts as an `(n, d)` float32 array, in order."""
        ...


@dataclass(frozen=True)
class EmbedderOptions:
    """How an encoder is loaded; but for the first two, of this process.

    Args:
        batch_size (`int`): Texts per request or, on a GPU, per forward pass.
        timeout (`float`): Seconds for one attempt at a request to a server.
        device (`str`, *optional*): `"cpu"`, `"cuda"`, `"mps"`, ...; the library's choice if unset.
        dtype (`"float32"`, `"bfloat16"` or `"float16"`): Weights' type; vectors are float32.
        truncate_dim (`int`, *optional*): Keep the first so many dimensions, renormalised to unit
            length, for models trained for it.
        threads (`int`): On a CPU, forward passes at once, each on one core. The vectors do not
            depend on it.
    """

    batch_size: int = 64
    timeout: float = 120.0
    device: str | None = None
    dtype: Dtype = "float32"
    truncate_dim: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "truncate_dim", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be 1 or more")
        if self.timeout <= 0:
            raise InputError(f"timeout is {self.timeout:g} s; it must be above 0")
