"""`taught`: all-MiniLM-L6-v2 whose upper layers were taught what a strategy is.

`taught.npz` has what teaching changed in each weight, a matrix in eight bits with a scale for each
row. `benchmarks/teach.py` makes it; `taught.md` says of which data, and has the log.
"""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np
import torch

from rpd_metric.errors import ModelError
from rpd_metric.models.minilm import MiniLM, Weights

FILE = Path(__file__).with_name("taught.npz")
SHA256 = "494e590d1401f0ec2dc0e5d974db45d052535dbbeb52881025f297594b74fc68"


class Taught(MiniLM):
    """The model, called with one block of texts at a time."""

    def _weights(self, folder: Path) -> Weights:
        weights = super()._weights(folder)
        for name, change in read_changes(FILE).items():
            weights[name] = weights[name] + change
        return weights


def read_changes(file: Path) -> Weights:
    """What teaching changed in MiniLM's weights, by their names.

    Raises [`ModelError`]: The file is not the one that belongs to this version.
    """
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise ModelError(
            f"{file} has sha256 {digest}, not {SHA256}. Install the package again: "
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
