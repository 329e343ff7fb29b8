"""What this project changes in TRL's trainers: exact adapters, base and gradients, short batches.

In bfloat16 an update of 5e-5 to a weight of 0.01 is rounded away, so that an adapter learns next to
nothing at the paper's learning rates. TRL 1.16 casts adapters to bfloat16 for a base in 4 bits. For
vLLM it merges the adapter into the base and subtracts it again; the same rounding wears the frozen
base away.
"""

from collections.abc import Callable, Iterator
from typing import Any

from rpd_metric.errors import InputError


def keep_adapters_exact(model: Any) -> None:
    """Turn every trained weight into float32, as a resumed run loads its adapter."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def keep_gradients_exact(model: Any) -> None:
    """Keep 4-bit weights differentiable after an evaluation on a CPU.

    With AVX512-BF16, bitsandbytes 0.50 repacks a layer's weights when it is first used without
    training, and never back; the result has no derivative.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def log_changed_weights(trainer: Any, log: Callable[[str], None]) -> None:
    """Log once what share of the trained weights the first step changed.

    Weights without a gradient are left out, as the first matrices of a new adapter and unused
    experts are; a step of learning rate 0 is too. Of a large tensor a sample is compared.
    """
    from transformers.trainer_callback import TrainerCallback

    def sample(weight: Any) -> Any:
        shard = (weight.to_local() if hasattr(weight, "to_local") else weight).detach().flatten()
        return shard[:: max(1, shard.numel() // 65_536)]

    class ChangedWeights(TrainerCallback):  # type: ignore[misc]
        before: tuple[Any, ...] = ()
        logged = False

        def on_pre_optimizer_step(self, *_: Any, model: Any, optimizer: Any, **__: Any) -> None:
            if not self.logged and any(group["lr"] for group in optimizer.param_groups):
                trained = [weight for weight in model.parameters() if weight.grad is not None]
                self.before = tuple((w, sample(w).clone(), sample(w.grad) != 0) for w in trained)

        def on_optimizer_step(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if total := sum(int(moved.sum()) for _, _, moved in self.before):
                changed = [
                    (sample(weight) != values) & moved for weight, values, moved in self.before
                ]
                share = sum(int(part.sum()) for part in changed) / total
                log(f"step {state.global_step + 1} changed {share:.1%} of the trained weights")
                self.before, self.logged = (), True

    trainer.add_callback(ChangedWeights())


def keep_base_exact(generation: Any, log: Callable[[str, float], None]) -> None:
    """Let TRL's weight sync with vLLM leave the frozen base of a LoRA model as it is.

    In bfloat16 (w + d) - d is not w, so that the base would drift with every sync. Here vLLM gets
    merged copies. `generation` is the trainer's `VLLMGeneration`; `log` gets, for each sync, the
    norm of the avoided drift relative to the norm of what the adapter adds, and how many adapted
    tensors vLLM took. In server mode they are sent, and not confirmed.

    Raises:
        [`InputError`]: An adapted tensor did not reach vLLM, which would sample from the base.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    model, walk = generation.model, generation._iter_named_params
    adapted = {}
    for name, module in model.named_modules():
        if isinstance(module, BaseTunerLayer):
            # Adapters of several parameters of one module, as of experts, wrap each other.
            path = name.removeprefix("base_model.model.").replace(".base_layer", "")
            adapted[f"{path}.{_adapted_parameter(module)}"] = module
    reached: set[str] = set()
    if generation.mode == "colocate":
        worker = generation.llm.llm_engine.model_executor.driver_worker
        engine, load = worker.model_runner.model, worker.model_runner.model.load_weights

        def load_weights(named: list[tuple[str, Any]]) -> Any:
            # An empty set of loaded names: vLLM skipped the tensor. Some models return None.
            if (loaded := load(named)) is not None and not loaded:
                reached.difference_update(name for name, _ in named)
            return loaded

        engine.load_weights = load_weights

    def merged_weights() -> Iterator[tuple[str, Any]]:
        drift = added = 0.0
        reached.clear()
        model.merge_adapter = model.unmerge_adapter = lambda: None
        try:
            for name, weight in walk():
                if (layer := adapted.get(name)) is None:
                    yield name, weight
                    continue
                merged, back = _merged_beside(layer)
                drift += (back - weight).float().square().sum()
                added += (merged - weight).float().square().sum()
                reached.add(name)
                yield name, merged
        finally:
            del model.merge_adapter, model.unmerge_adapter
        if missing := sorted(adapted.keys() - reached):
            raise InputError(
                f"{len(missing)} of {len(adapted)} adapted tensors did not reach vLLM, as "
                f"{missing[0]}: leave them out of the adapter, or pass --use_vllm false"
            )
        log("sampling/avoided_drift", float(drift / added) ** 0.5 if added else 0.0)
        log("sampling/adapted_tensors", len(reached))

    generation._iter_named_params = merged_weights


def _adapted_parameter(layer: Any) -> str:
    """The name of the parameter that a layer of PEFT adapts; `target_parameters` have their own."""
    return str(getattr(layer, "parameter_name", "weight"))


def _merged_beside(layer: Any) -> tuple[Any, Any]:
    """A layer's weight with its adapter, and without it again; the layer stays as it is."""
    weight = getattr(layer.get_base_layer(), _adapted_parameter(layer))
    base = weight.data
    weight.data = base.clone()
    layer.merge()
    merged, weight.data = weight.data, weight.data.clone()
    layer.unmerge()
    back, weight.data = weight.data, base
    return merged, back


def sampling_exactly(kind: type) -> type:
    """A GRPO trainer with an exact base, and without padding.

    TRL pads all completions of a step to the longest; here each micro-batch is trimmed to its own
    longest prompt and completion. It logs `tokens/computed`, `tokens/useful` and, from
    [`keep_base_exact`], `sampling/avoided_drift`.
    """

    class Exact(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.use_vllm and hasattr(self.model, "peft_config"):
                keep_base_exact(self.vllm_generation, self._note)

        def _note(self, name: str, value: float) -> None:
            self._metrics["train" if self.model.training else "eval"][name].append(value)

        def _get_per_token_logps_and_entropies(
            self,
            model: Any,
            input_ids: Any,
            attention_mask: Any,
            logits_to_keep: int,
            batch_size: int | None = None,
            **more: Any,
        ) -> tuple[Any, Any, Any]:
            """As TRL's, on columns that hold a token of some sample; the others come back as 0."""
            from torch import cat, stack
            from torch.nn.functional import pad

            parts, size = [], batch_size or len(input_ids)
            for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
                used = mask.any(dim=0).nonzero()
                start, stop = int(used.min()), int(used.max()) + 1
                # A completion that is masked as truncated has no token; one is computed anyway.
                stop = max(stop, ids.shape[1] - logits_to_keep + 1)
                ids, mask = ids[:, start:stop], mask[:, start:stop]
                blank = input_ids.shape[1] - stop
                logps, entropies, auxiliary = super()._get_per_token_logps_and_entropies(
                    model, ids, mask, logits_to_keep - blank, **more
                )
                self._note("tokens/computed", float(ids.numel()))
                self._note("tokens/useful", float(mask.sum()))
                padded = [x if x is None else pad(x, (0, blank)) for x in (logps, entropies)]
                parts.append((*padded, auxiliary))
            logps, entropies, auxiliary = zip(*parts, strict=True)
            entropies = None if entropies[0] is None else cat(entropies)
            auxiliary = None if auxiliary[0] is None else stack(auxiliary).mean()
            return cat(logps), entropies, auxiliary

    return Exact
