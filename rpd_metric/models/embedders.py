"""Encoders behind one protocol: texts in, one float32 vector per text out.

`sentence_transformer.py` runs them in this process, `embedding_servers.py` asks servers, and
`registry.py` knows them by their specs.
"""

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
    """How an encoder is loaded.

    Args:
        device (`str`, *optional*): For a model of this process: where it runs; the library's
            choice if unset.
        batch_size (`int`): For a model of this process: texts per forward pass.
        dtype (`"float32"`, `"bfloat16"` or `"float16"`): For a model of this process: the
            weights' type.
        truncate_dim (`int`, *optional*): For a model of this process: keep the first so many
            dimensions, renormalised.
        threads (`int`): For a model of this process on a CPU: forward passes at once, each on one
            core. The vectors do not depend on it.
        server_batch (`int`, *optional*): For a server: texts per request, at most what it takes;
            that, or 64, if unset.
        timeout (`float`): For a server: seconds for one request.
        in_flight (`int`): For a server: requests at once; servers batch them further.
    """

    device: str | None = None
    batch_size: int = 64
    dtype: Dtype = "float32"
    truncate_dim: int | None = None
    threads: int = 1
    server_batch: int | None = None
    timeout: float = 120.0
    in_flight: int = 4

    def __post_init__(self) -> None:
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise InputError(f"truncate_dim is {self.truncate_dim}; it must be 1 or more")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be 1 or more")
        for size in (self.batch_size, self.server_batch):
            if size is not None and size < 1:
                raise InputError(f"batch_size is {size}; it must be 1 or more")
