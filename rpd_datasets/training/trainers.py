"""What this project changes in TRL's trainers: the card, and two things in GRPO's sampling.

`SFTTrainer` and `GRPOTrainer` stay TRL's; [`described`] and [`sampling_exactly`] derive from what
they are given. Not here: data and rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rpd_datasets.training.precision import without_casts

History = Sequence[Mapping[str, Any]]


def described(kind: type, write_card: Callable[[History], None]) -> type:
    """A trainer with this project's card in place of TRL's draft.

    Args:
        kind (`type`): One of TRL's trainers.
        write_card (`Callable`): Called with the log of the run.
    """

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

    Args:
        kind (`type`): TRL's `GRPOTrainer`.
        change (`Callable`, *optional*): From advantages after the group's scaling to advantages.
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

    Args:
        ratio (`torch.Tensor`): (B, T) per token, or (B, 1) per completion, after cutting.
        mask (`torch.Tensor`): (B, T), 1 for tokens of a completion.
        low, high (`float`, *optional*): The bounds.

    Returns:
        `torch.Tensor`: One number.
    """
    limited = ratio == 0
    if high is not None:
        limited |= ratio >= high
    if low is not None:
        limited |= ratio <= low
    if ratio.shape[1] == 1:
        return limited.float().mean()
    # A batch without a token has no share.
    return limited[mask.bool()].float().mean()
