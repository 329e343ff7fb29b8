"""What is changed in TRL's trainers: against TRL's own code, PEFT's merging and real attention."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peft
import pytest
import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig
from trl.distributed import DistributedBackend
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from parts.tiny_models import tiny_model
from rpd_datasets.training.trainers import (
    keep_adapters_exact,
    keep_base_exact,
    keep_gradients_exact,
    sampling_exactly,
)
from rpd_metric.errors import InputError


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("trainers") / "qwen3", "qwen3")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}
    sizes |= {"moe_intermediate_size": 16, "num_experts": 4, "vocab_size": 320}
    folder = tmp_path_factory.mktemp("trainers") / "mixture"
    config = AutoConfig.for_model("qwen3_moe", tie_word_embeddings=True, **sizes)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def adapted(folder: Path, **options: Any) -> Any:
    """A bfloat16 base with a float32 adapter, of experts too, that has learnt something."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **options)
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear"))
    keep_adapters_exact(model)
    learn(model)
    return model


def learn(model: Any) -> None:
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data += 0.01 * torch.randn_like(weight)


class Engine:
    """What TRL calls of vLLM, in its process or behind its client; tensors are read at the end."""

    def __init__(self, unknown: str = "no such name") -> None:
        self.weights: dict[str, Any] = {}
        self.unknown = unknown
        runner = SimpleNamespace(model=self)
        worker = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        self.llm_engine = SimpleNamespace(model_executor=worker)

    def load_weights(self, named: list[tuple[str, Any]]) -> set[str]:
        loaded = {name: weight for name, weight in named if self.unknown not in name}
        self.weights |= loaded
        return set(loaded)

    def update_named_params(self, metadata: list[Any], named: Iterator[tuple[str, Any]]) -> None:
        self.weights = dict(named)
        assert [name for name, _, _ in metadata] == list(self.weights)

    def reset_prefix_cache(self) -> None:
        """Nothing is cached."""


def syncing(model: Any, mode: str) -> tuple[VLLMGeneration, Engine]:
    generation, engine, accelerator = (
        object.__new__(VLLMGeneration),
        Engine(),
        Accelerator(cpu=True),
    )
    sides = {"llm": engine, "vllm_client": engine, "_dist": DistributedBackend(accelerator)}
    own = {"model": model, "accelerator": accelerator, "mode": mode, "enable_sleep_mode": False}
    vars(generation).update(own | sides | {"_weight_metadata": None})
    return generation, engine


@pytest.mark.parametrize("mode", ["colocate", "server"])
@pytest.mark.parametrize(("kind", "tensors"), [("tiny", 14), ("mixture", 14)])
def test_weight_syncs_with_vllm_leave_every_byte_of_the_base(
    request: pytest.FixtureRequest, mode: str, kind: str, tensors: int
):
    folder, logged = request.getfixturevalue(kind), defaultdict(list)
    model = adapted(folder)
    plain, _ = syncing(adapted(folder), mode)
    generation, engine = syncing(model, mode)
    keep_base_exact(generation, lambda name, value: logged[name].append(value))
    base = {n: w.clone() for n, w in model.named_parameters() if not w.requires_grad}
    for _ in range(5):
        learn(model)
        learn(plain.model)
        generation.sync_weights()
        plain.sync_weights()
    frozen = dict(model.named_parameters())
    assert all(torch.equal(frozen[name], weight) for name, weight in base.items())
    worn = dict(plain.model.named_parameters())
    assert not all(torch.equal(worn[name], weight) for name, weight in base.items()), "as TRL does"
    assert min(logged["sampling/avoided_drift"]) > 0
    assert set(logged["sampling/adapted_tensors"]) == {tensors}
    merged = model.merge_and_unload().state_dict()
    assert engine.weights.keys() == {name for name in merged if name != "lm_head.weight"}
    for name, weight in engine.weights.items():
        assert torch.equal(weight, merged[name]), name


def test_an_adapter_that_vllm_does_not_take_is_refused(mixture: Path):
    generation, engine = syncing(adapted(mixture), "colocate")
    engine.unknown = "experts.down_proj"
    keep_base_exact(generation, lambda *_: None)
    with pytest.raises(InputError, match=r"2 of 1. adapted tensors did not reach vLLM.*down_proj"):
        generation.sync_weights()


@pytest.fixture
def accelerator():
    """One in float32: a process shares its state, which another test may have left at bfloat16."""
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=True, mixed_precision="no")


@pytest.mark.parametrize("batch_size", [None, 2, 1])
def test_padding_is_not_computed_and_changes_no_probability(
    tiny: Path, accelerator, batch_size: int | None
):
    model = AutoModelForCausalLM.from_pretrained(tiny).eval()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    ids = torch.randint(0, 200, (4, 20), generator=torch.Generator().manual_seed(0))
    # Prompts of 8, padded on the left; of completions of 12 one is masked as truncated.
    mask = torch.ones_like(ids)
    for row, (start, stop) in enumerate(((5, 14), (6, 12), (4, 8), (6, 16))):
        mask[row, :start] = mask[row, stop:] = 0
    found, logged = [], defaultdict(list)
    for kind in (GRPOTrainer, sampling_exactly(GRPOTrainer)):
        made: Any = object.__new__(kind)
        made.accelerator, made.model, made._metrics = accelerator, model, {"eval": logged}
        asked = (model, ids, mask, 12, batch_size)
        found.append(made._get_per_token_logps_and_entropies(*asked, compute_entropy=True))
    for plain, ours in zip(found[0][:2], found[1][:2], strict=True):
        assert torch.allclose(ours * mask[:, 8:], plain * mask[:, 8:], atol=1e-5)
    computed = {None: 4 * 12, 2: 2 * 9 + 2 * 12, 1: 9 + 6 + 5 + 10}[batch_size]
    assert sum(logged["tokens/computed"]) == computed < ids.numel()
    assert sum(logged["tokens/useful"]) == mask.sum()


def test_fsdp_shards_a_4_bit_base_with_float32_adapters_to_the_same_loss(tiny: Path):
    nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    model = adapted(tiny, quantization_config=nf4)
    keep_gradients_exact(model)
    ids = torch.arange(12)[None] + 10
    with torch.autocast("cpu", torch.bfloat16):
        whole = model(input_ids=ids, labels=ids).loss.item()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        for part in (*model.base_model.model.model.layers, model):
            fully_shard(part, mp_policy=policy)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        assert loss.item() == pytest.approx(whole, abs=0.02)
        learnt = [weight for weight in model.parameters() if weight.requires_grad]
        assert {one.dtype for w in learnt for one in (w, w.grad)} == {torch.float32}
        assert all(weight.grad.full_tensor().norm() > 0 for weight in learnt)
    finally:
        dist.destroy_process_group()
