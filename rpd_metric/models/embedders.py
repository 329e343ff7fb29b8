"""Encoders behind one protocol: texts in, one float32 vector per text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from rpd_metric.errors import InputError, check_least

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
