"""Fine-tuning by a plain loop: a LoRA on float32 weights, with matrix products in bfloat16.

Logits are computed only where a token is learnt. `recipes/sft.py` computes those of prompts, too,
and their entropy: with 49,152 tokens in the vocabulary, much of a small model's time on a CPU.
"""

import math
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import AutoModelForCausalLM, AutoTokenizer

RANK, ALPHA, BATCH = 16, 32, 16
# The model's own template puts a system message of 25 tokens before every problem.
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}"
    "{% endif %}"
)


def prompt_tokens(tokenizer: Any, problem: str) -> list[int]:
    """A problem as the model is asked it."""
    messages = [{"role": "user", "content": problem}]
    text = tokenizer.apply_chat_template(
        messages, chat_template=TEMPLATE, add_generation_prompt=True, tokenize=False
    )
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def save(network: Any, tokenizer: Any, folder: Path) -> None:
    """Save a model with all its weights, whole or not at all."""
    rough = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(rough, ignore_errors=True)
    network.save_pretrained(rough)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(rough)
    rough.rename(folder)


def solution_tokens(tokenizer: Any, solution: str) -> list[int]:
    """A solution with the token that ends it."""
    return [*tokenizer(solution)["input_ids"], tokenizer.eos_token_id]


def load(folder: Path, device: str, adapter: Path | None = None, share: float = 1.0) -> Any:
    """A model, with an adapter merged into it, or so much of one (WiSE-FT)."""
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device)
    if adapter is None:
        return network.eval()
    tuned = PeftModel.from_pretrained(network, adapter)
    for module in tuned.modules():
        if isinstance(module, LoraLayer):
            module.scaling = {name: share * scale for name, scale in module.scaling.items()}
    return tuned.merge_and_unload().eval()


def fine_tune(
    base: Path,
    samples: Sequence[tuple[str, str]],
    adapter: Path,
    *,
    rate: float,
    epochs: float,
    seed: int,
    device: str,
) -> float:
    """Train an adapter on pairs of a problem and a solution; returns the mean loss of the end.

    AdamW, a cosine schedule, batches of 16. `epochs` may be a fraction.
    """
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    network = load(base, device)
    settings = LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    tuned = get_peft_model(network, settings)
    learnt = [weight for weight in tuned.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=rate, weight_decay=0.0)
    rows = [
        (prompt_tokens(tokenizer, problem), solution_tokens(tokenizer, solution))
        for problem, solution in samples
    ]
    steps = math.ceil(epochs * len(rows) / BATCH)
    order: list[int] = []
    losses = []
    for step in range(steps):
        if len(order) < BATCH:
            order += torch.randperm(len(rows)).tolist()
        batch, order = [rows[place] for place in order[:BATCH]], order[BATCH:]
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
        loss = _loss(network, batch, tokenizer.pad_token_id)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if step % 10 == 0:
            clock = time.strftime("%H:%M:%S")
            sys.stderr.write(f"{clock} step {step + 1} of {steps}: loss {losses[-1]:.3f}\n")
    rough = adapter.with_name(f"{adapter.name}.partial")
    shutil.rmtree(rough, ignore_errors=True)
    tuned.save_pretrained(rough)
    adapter.parent.mkdir(parents=True, exist_ok=True)
    rough.rename(adapter)
    last = losses[-max(1, steps // 5) :]
    return sum(last) / len(last)


def _loss(network: Any, batch: Sequence[tuple[list[int], list[int]]], padding: int) -> Any:
    device = network.device
    longest = max(len(prompt) + len(solution) for prompt, solution in batch)
    ids = torch.full((len(batch), longest), padding)
    attended, targets = torch.zeros_like(ids), torch.full_like(ids, -1)
    for row, (prompt, solution) in enumerate(batch):
        whole = torch.tensor(prompt + solution)
        ids[row, : len(whole)], attended[row, : len(whole)] = whole, 1
        targets[row, len(prompt) - 1 : len(whole) - 1] = whole[len(prompt) :]
    ids, attended, targets = ids.to(device), attended.to(device), targets.to(device)
    with torch.autocast(device.type, torch.bfloat16):
        hidden = network.model(input_ids=ids, attention_mask=attended).last_hidden_state
        logits = network.lm_head(hidden[targets >= 0])
    return torch.nn.functional.cross_entropy(logits.float(), targets[targets >= 0])
