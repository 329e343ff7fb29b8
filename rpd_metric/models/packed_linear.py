"""Linear layers of a model on a CPU, with their weights laid out for oneDNN.

PyTorch multiplies float32 matrices by MKL, whose fastest kernels are for Intel's processors only.
oneDNN, which PyTorch brings along for bfloat16 and for compiled models, has them for others, too.
The operator is the one that `torch.compile` puts into its code for a CPU. Sums differ from MKL's in
the last bits (some 1e-7 of an embedding), and are the same for any number of rows.

Not here: other types (PyTorch takes oneDNN for bfloat16 by itself), other devices, training.
"""

from __future__ import annotations

import torch

# Rows that the layout is chosen for: a sentence or two.
ROWS = 64


class PackedLinear(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A linear layer that can only be applied.

    Args:
        linear (`torch.nn.Linear`): In float32, on a CPU.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self._bias = linear.bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """`rows @ weight.T + bias`."""
        packed: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, "none", [], ""
        )
        return packed


def pack_linears(model: torch.nn.Module) -> int:
    """Put packed layers in the place of a model's linear ones, where this PyTorch has oneDNN.

    Args:
        model (`torch.nn.Module`): In float32, on a CPU; changed in place. Its code must only apply
            its layers, and not look at their weights.

    Returns:
        `int`: How many layers were packed; 0 without oneDNN.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(
        torch.ops.mkldnn, "_linear_pointwise"
    ):
        return 0
    packed = 0
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32:
                setattr(parent, name, PackedLinear(layer))
                packed += 1
    return packed
