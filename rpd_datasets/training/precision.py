"""Adapters are trained in float32 by exact gradients, whatever the weights they are added to.

bfloat16 has 8 bits of precision: an update of 5e-5 to a weight of 0.01 is rounded away, so that an
adapter in bfloat16 learns next to nothing at the learning rates of the paper. TRL 1.16 makes
adapters bfloat16 in two places: when a trainer is made for a base in 4 bits, and before
transformers' continuous batching samples completions. Sharding 4-bit weights (FSDP) asks for one
type for all weights and is refused. DeepSpeed keeps a float32 copy of what it trains by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rpd_metric.errors import InputError


def keep_adapters_exact(model: Any) -> None:
    """Turn every weight that is trained into float32.

    Args:
        model (`torch.nn.Module`): A trainer's model, before training starts. A resumed run loads
            its adapter in float32, so that it would otherwise be another run, too.
    """
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def keep_gradients_exact(model: Any) -> None:
    """Let evaluations on a CPU leave 4-bit weights in the form that gradients pass through.

    Where the processor knows AVX512-BF16, bitsandbytes 0.50 packs a layer's weights anew when it
    is first used without training, and never back. What it then computes has no derivative: after
    the first evaluation, training would go on with the gradients of the residual stream alone.

    Args:
        model (`torch.nn.Module`): A trainer's model, before training starts.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


@contextmanager
def without_casts(model: Any) -> Iterator[None]:
    """Let `model.to(dtype)` do nothing for a while.

    Before continuous batching, TRL casts the whole model in place, adapters and the frequencies
    of the rotary embedding included, and never casts back. PEFT runs float32 adapters on a
    bfloat16 base as they are, so that the cast is not needed.

    Args:
        model (`torch.nn.Module`): The unwrapped model that samples.
    """
    model.to = lambda *_args, **_kwargs: model
    try:
        yield
    finally:
        del model.to


def check_precision(training: Any, model: Any) -> None:
    """Refuse FSDP with 4-bit weights, where adapters would have to be bfloat16.

    Args:
        training (`transformers.TrainingArguments`): Of the run.
        model (`trl.ModelConfig`): Of the run.

    Raises:
        [`InputError`]: With what to do in its place.
    """
    launched = os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes")
    if model.load_in_4bit and (training.fsdp or launched):
        raise InputError(
            "FSDP shards weights of one type only, so that adapters of a 4-bit model would be "
            "bfloat16 and learn nothing at these learning rates; use recipes/accelerate/ddp.yaml, "
            "or pass --load_in_4bit false"
        )
