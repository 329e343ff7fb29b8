"""The base model: a Qwen3 of some hundred thousand weights, trained from scratch in minutes.

It learns from problems that no training set and no test holds, one attempt each, a share of them
wrong: it can calculate and write the form, and often misses the target, as a pretrained model
does. Its tokens are whole words and numbers. What comes after (SFT, GRPO, sampling) is the
recipes' work on the folder that is saved here.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.loop.task import TOKEN, base_rows, vocabulary

END, PAD, START = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RECORD = "base.json"
IGNORED = -100


@dataclass(frozen=True)
class BaseOptions:
    """How strong the base is.

    Args:
        rows (`int`): Attempts it learns from, each seen once.
        wrong (`float`): Share of them that miss the target.
        hidden (`int`), layers (`int`): Its size.
        batch (`int`): Attempts per step.
        learning_rate (`float`): At the top of a cosine.
        seed (`int`): Of weights and data.
    """

    rows: int = 100_000
    wrong: float = 0.3
    hidden: int = 96
    layers: int = 3
    batch: int = 64
    learning_rate: float = 4e-3
    seed: int = 0


def make_base(folder: Path, options: BaseOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Train a base model and save it with its tokenizer; one that is there already is kept.

    Returns its options, number of weights, last loss, and the CPU seconds it took.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    record = folder / RECORD
    if record.is_file():
        found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        if found["options"] == asdict(options):
            return found
    started = time.process_time()
    rows = base_rows(options.rows, options.wrong, options.seed)
    # Reinforcement learning and tests ask about other problems, in the same words.
    tokenizer = _tokenizer(vocabulary([text for row in rows[:5000] for text in row]))
    torch.manual_seed(options.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=options.hidden,
            intermediate_size=3 * options.hidden,
            num_hidden_layers=options.layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=options.hidden // 4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    samples = [_sample(tokenizer, *row) for row in rows]
    random.Random(options.seed).shuffle(samples)
    steps = math.ceil(len(samples) / options.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, total_steps=steps, pct_start=0.05
    )
    loss = math.nan
    model.train()
    for step in range(steps):
        batch = samples[step * options.batch : (step + 1) * options.batch]
        width = max(len(ids) for ids, _ in batch)
        ids = torch.tensor(
            [row + [tokenizer.pad_token_id] * (width - len(row)) for row, _ in batch]
        )
        places = torch.arange(width)
        starts = torch.tensor([start for _, start in batch])[:, None]
        ends = torch.tensor([len(row) for row, _ in batch])[:, None]
        labels = ids.masked_fill((places < starts) | (places >= ends), IGNORED)
        result = model(input_ids=ids, attention_mask=(places < ends).long(), labels=labels)
        result.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        loss = result.loss.item()
        if step % max(1, steps // 10) == 0:
            say(f"base: step {step} of {steps}, loss {loss:.3f}")
    model.eval()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    facts = {
        "options": asdict(options),
        "weights": model.num_parameters(),
        "tokens": len(tokenizer),
        "loss": loss,
        "cpu_seconds": time.process_time() - started,
    }
    # Last, so that a folder with it is whole.
    record.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return facts


def _tokenizer(tokens: Sequence[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, START, END]
    words = [*special, *(token for token in tokens if token not in special)]
    words += [word for word in ("user", "assistant", "\n") if word not in words]
    bare = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=PAD)
    )
    bare.pre_tokenizer = pre_tokenizers.Split(Regex(TOKEN.pattern), "isolated")
    bare.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=TEMPLATE,
        model_max_length=256,
    )


def _sample(tokenizer: Any, problem: str, solution: str) -> tuple[list[int], int]:
    """Token ids, and where the solution begins."""
    # As the template writes it; the template itself takes a hundred times as long.
    prompt = f"{START}user\n{problem}{END}\n{START}assistant\n"
    start = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    answer = tokenizer(f"{solution}{END}", add_special_tokens=False)["input_ids"]
    return start + answer, len(start)
