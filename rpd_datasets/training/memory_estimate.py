"""How much memory training with LoRA takes, estimated from a model's shape alone.

The weights are counted exactly, on a model without storage; activations are a rule of thumb for
gradient checkpointing. Left out: fragmentation, the CUDA context (about 0.5 GB), rollouts of
reinforcement learning and sharding over several devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rpd_metric.errors import ModelError, first_line

GB = 1e9
# NF4 keeps half a byte per weight and one float32 scale per block of 64.
NF4_BYTES = 0.5 + 4 / 64
# Float32 weight, gradient and AdamW's two moments.
TRAINED_BYTES = 16
# Tensors of the hidden size and of the MLP's inner size that one layer keeps while it is
# recomputed for its gradient.
HIDDEN_COPIES = 12
INNER_COPIES = 4
# Dropout keeps a float32 value for every input of every adapted layer.
DROPOUT_BYTES = 4


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of one device, in bytes."""

    weights: float
    optimizer: float
    activations: float

    def __str__(self) -> str:
        total = self.weights + self.optimizer + self.activations
        return (
            f"about {total / GB:.1f} GB on a device (weights {self.weights / GB:.1f}, "
            f"adapter and optimizer {self.optimizer / GB:.1f}, activations "
            f"{self.activations / GB:.1f}; an estimate)"
        )


def estimate_memory(
    model: str,
    *,
    revision: str | None = None,
    four_bit: bool,
    lora_rank: int | None,
    lora_dropout: float = 0.0,
    tokens: int,
    cached_only: bool = False,
) -> MemoryEstimate:
    """Estimate the memory of one training process; of the model only `config.json` is read.

    Args:
        four_bit (`bool`): Whether linear layers are kept in NF4; other weights are bfloat16.
        lora_rank (`int`, *optional*): Of adapters on all linear layers; `None` trains all weights.
        tokens (`int`): Tokens in the largest batch of one device.
        cached_only (`bool`): Do not ask the Hub, only its cache.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(model, revision=revision, local_files_only=cached_only)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot load the configuration of {model}: {first_line(error)}"
        ) from error
    with torch.device("meta"):
        shape = AutoModelForCausalLM.from_config(config)
    head = shape.get_output_embeddings()
    linear = [
        module
        for module in shape.modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    ]
    total = trained = sum(weight.numel() for weight in shape.parameters())
    weights = 2.0 * total
    if four_bit:
        weights -= (2 - NF4_BYTES) * sum(layer.weight.numel() for layer in linear)
    text: Any = config.get_text_config()
    hidden, layers = text.hidden_size, text.num_hidden_layers
    checkpoints = layers * hidden
    layer = HIDDEN_COPIES * hidden + INNER_COPIES * text.intermediate_size
    activations = 2.0 * tokens * (checkpoints + layer)
    if lora_rank is not None:
        trained = sum(lora_rank * (one.in_features + one.out_features) for one in linear)
        if lora_dropout:
            per_layer = sum(one.in_features for one in linear) / layers
            activations += DROPOUT_BYTES * tokens * per_layer
    return MemoryEstimate(weights, float(TRAINED_BYTES * trained), activations)
