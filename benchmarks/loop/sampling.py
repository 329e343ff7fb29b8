"""Samples of a small model, written in batches by `generate`, as `passk.py grade` reads them.

`passk.py generate` draws each reply by its own seed, one at a time: right for a model that answers
slowly anyway, and slow for a toy whose batch costs what one reply costs. Here a batch is drawn by
one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import load_benchmark
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.samples import SAMPLES, Sample, expected_keys, seed_of, write_rows
from rpd_datasets.instructions import fill_prompt
from rpd_datasets.options import read_options


def sample(
    model: Path,
    config_file: Path,
    data: Path,
    folder: Path,
    changes: Mapping[str, Any],
    *,
    at_once: int,
    **loading: Any,
) -> None:
    """Write every sample of an evaluation into a folder, `at_once` replies a batch.

    `changes` are options other than the file's; `loading` is for the model, such as its `dtype`.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    config = EvaluationConfig(**{**read_options(config_file), **changes})
    tasks = {task.id: task for task in load_benchmark(config.benchmark, data)}
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    network = AutoModelForCausalLM.from_pretrained(model, **loading).eval()
    settings = GenerationConfig(
        max_new_tokens=config.max_tokens,
        do_sample=True,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    keys = expected_keys(list(tasks.values()), config)
    samples: list[Sample] = []
    for start in range(0, len(keys), at_once):
        batch = keys[start : start + at_once]
        asked = [fill_prompt(config.sent, tasks[key[0]].problem) for key in batch]
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
            for text in asked
        ]
        inputs = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        torch.manual_seed(1_000_000 * config.seed + start)
        with torch.inference_mode():
            found = network.generate(**inputs.to(network.device), generation_config=settings)
        for key, row in zip(batch, found[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
            ended = tokenizer.eos_token_id in row
            written = row[: row.index(tokenizer.eos_token_id)] if ended else row
            text = tokenizer.decode(written, skip_special_tokens=True)
            reason = "stop" if ended else "length"
            samples.append(Sample(*key, seed_of(key, config), text, reason, len(written) + ended))
    write_rows(folder / SAMPLES, map(asdict, samples))
