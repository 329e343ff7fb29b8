"""What this project changes in TRL's trainers: adapters in float32, exact gradients, the card.

bfloat16 has 8 bits of precision: an update of 5e-5 to a weight of 0.01 is rounded away, so that an
adapter in bfloat16 learns next to nothing at the learning rates of the paper. TRL 1.16 makes
adapters bfloat16 in two places: when a trainer is made for a base in 4 bits, and before
transformers' continuous batching samples completions. Sharding 4-bit weights (FSDP) asks for one
type for all weights and is refused. DeepSpeed keeps a float32 copy of what it trains by itself.
`SFTTrainer` and `GRPOTrainer` stay TRL's; the classes here derive from what they are given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rpd_metric.errors import InputError

History = Sequence[Mapping[str, Any]]


def check_precision(training: Any, model: Any) -> None:
    """Refuse FSDP with 4-bit weights, where adapters would have to be bfloat16."""
    launched = os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true", "yes")
    if model.load_in_4bit and (training.fsdp or launched):
        raise InputError(
            "FSDP shards weights of one type only, so that adapters of a 4-bit model would be "
            "bfloat16 and learn nothing at these learning rates; use recipes/accelerate/ddp.yaml, "
            "or pass --load_in_4bit false"
        )


def keep_adapters_exact(model: Any) -> None:
    """Turn every weight that is trained into float32, before training starts.

    A resumed run loads its adapter in float32, so that it would otherwise be another run, too.
    """
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def keep_gradients_exact(model: Any) -> None:
    """Let evaluations on a CPU leave 4-bit weights in the form that gradients pass through.

    Where the processor knows AVX512-BF16, bitsandbytes 0.50 packs a layer's weights anew when it
    is first used without training, and never back. What it then computes has no derivative: after
    the first evaluation, training would go on with the gradients of the residual stream alone.
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
    """
    model.to = lambda *_args, **_kwargs: model
    try:
        yield
    finally:
        del model.to


def described(kind: type, write_card: Callable[[History], None]) -> type:
    """A trainer with this project's card, written from the log, in place of TRL's draft."""

    class Described(kind):  # type: ignore[misc]
        def create_model_card(self, *_args: Any, **_kwargs: Any) -> None:
            if self.is_world_process_zero():
                write_card(self.state.log_history)

    return Described


def sampling_exactly(kind: type, change: Callable[[Any], Any] | None = None) -> type:
    """A GRPO trainer that keeps float32 adapters and logs how often its correction is limited.

    With vLLM, TRL multiplies each token's loss by the ratio of the trainer's probability to
    vLLM's, cut at `vllm_importance_sampling_clip_max`. `sampling/importance_sampling_ratio/limited`
    is the share of tokens (of completions, in the `sequence_*` modes) that were cut or masked.
    `change` maps advantages after the group's scaling to advantages.
    """

    class Exact(kind):  # type: ignore[misc]
        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            # `model_wrapped` exists from the start of training; before, nothing is sampled.
            with without_casts(self.accelerator.unwrap_model(self.model_wrapped)):
                return super()._generate_single_turn(*args, **kwargs)

        def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
            output = super()._generate_and_score_completions(*args, **kwargs)
            if change is not None:
                output["advantages"] = change(output["advantages"])
            ratio = output.get("importance_sampling_ratio")
            if ratio is not None:
                share = limited_share(
                    ratio,
                    output["completion_mask"],
                    low=self.args.vllm_importance_sampling_clip_min,
                    high=self.args.vllm_importance_sampling_clip_max,
                )
                mode = "train" if self.model.training else "eval"
                everywhere = self.accelerator.gather(share).nanmean().item()
                self._metrics[mode]["sampling/importance_sampling_ratio/limited"].append(everywhere)
            return output

    return Exact


def limited_share(ratio: Any, mask: Any, *, low: float | None, high: float | None) -> Any:
    """The share of ratios that were cut to a bound, or masked because they were beyond it.

    Ratios are (B, T) per token, or (B, 1) per completion; the mask is 1 for its tokens.
    """
    limited = ratio == 0
    if high is not None:
        limited |= ratio >= high
    if low is not None:
        limited |= ratio <= low
    # A batch without a token has no share.
    return (limited if ratio.shape[1] == 1 else limited[mask.bool()]).float().mean()
