"""Adapters are trained in float32, whatever the precision of the weights they are added to.

bfloat16 has 8 bits of precision: an update of 5e-5 to a weight of 0.01 is rounded away, so that an
adapter in bfloat16 learns next to nothing at the learning rates of the paper. TRL 1.16 makes
adapters bfloat16 when the base is in 4 bits.
"""

from __future__ import annotations

from typing import Any


def keep_adapters_exact(model: Any) -> None:
    """Turn every weight that is trained into float32.

    Args:
        model (`torch.nn.Module`): A trainer's model, before training starts. A resumed run loads
            its adapter in float32, so that it would otherwise be another run, too.
    """
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
