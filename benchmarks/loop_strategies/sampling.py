"""Samples of a small model, written in batches by `generate`, as a log of Inspect that is graded.

`passk.py` draws each reply by its own seed, one at a time: right for a model that answers slowly
anyway, and slow for a small one whose batch costs what one reply costs. Here a batch is drawn by
one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import load_problems
from rpd_datasets.instructions import fill_prompt, prompt_template

# The likeliest tokens that a nucleus is taken from; of a trained model it holds a few.
LIKELIEST = 256


def sample(
    model: Path,
    config: Mapping[str, Any],
    data: Path,
    log: Path,
    *,
    seed: int,
    at_once: int,
    device: str,
) -> None:
    """Write the graded log of an evaluation, `at_once` replies a batch.

    `config` is what passk.yaml says, and the model's `name`.
    """
    import torch
    from inspect_ai import score
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalLog,
        EvalPlan,
        EvalSample,
        EvalSpec,
        write_eval_log,
    )
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, GenerateConfig, ModelOutput
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GenerationConfig,
        LogitsProcessorList,
    )

    from rpd_metric.metrics.inspect_extension import math

    problems = load_problems(config["benchmark"], data)
    template = prompt_template(config["prompt"])
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    network = AutoModelForCausalLM.from_pretrained(
        model, dtype="bfloat16", device_map=device
    ).eval()
    sampling = {key: config[key] for key in ("temperature", "top_p")}

    def nucleus(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        # The library's `top_p` sorts all tokens, a third of the time on a CPU. Its temperature
        # comes after what is passed in.
        scores = scores / config["temperature"]
        likeliest = scores.topk(LIKELIEST).values
        probabilities = (likeliest - scores.logsumexp(-1, keepdim=True)).exp()
        before = probabilities.cumsum(-1) - probabilities
        kept = likeliest.masked_fill(before >= config["top_p"], torch.inf)
        return scores.masked_fill(scores < kept.amin(-1, keepdim=True), -torch.inf)

    settings = GenerationConfig(
        do_sample=True,
        top_k=0,
        eos_token_id=(end := tokenizer.eos_token_id),
        pad_token_id=tokenizer.pad_token_id,
    )
    epochs = config["samples"] * config["runs"]
    keys = [(epoch, problem) for epoch in range(1, epochs + 1) for problem in problems]
    asked = [fill_prompt(template, problem.text) for _, problem in keys]
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True
        )
        for text in asked
    ]
    replies: list[list[int]] = [[] for _ in keys]
    torch.manual_seed(seed)
    pending = list(range(len(keys)))
    # A batch takes as long as its longest reply: the few long ones go on in batches of their own.
    first = config["max_tokens"] * 5 // 8
    for length in (first, config["max_tokens"] - first):
        settings.max_new_tokens = length
        for start in range(0, len(pending), at_once):
            batch = pending[start : start + at_once]
            given = {"input_ids": [prompts[n]["input_ids"] + replies[n] for n in batch]}
            inputs = tokenizer.pad(given, return_tensors="pt").to(network.device)
            with torch.inference_mode():
                found = network.generate(
                    **inputs,
                    generation_config=settings,
                    logits_processor=LogitsProcessorList([nucleus]),
                )
            rows = found[:, inputs["input_ids"].shape[1] :].tolist()
            for n, row in zip(batch, rows, strict=True):
                replies[n] += row[: row.index(end) + 1] if end in row else row
        pending = [n for n in pending if replies[n][-1] != end]
    samples: list[EvalSample] = []
    for (epoch, problem), prompt, reply in zip(keys, asked, replies, strict=True):
        text = tokenizer.decode(reply, skip_special_tokens=True)
        output = ModelOutput.from_content(
            config["name"], text, "stop" if reply[-1] == end else "max_tokens"
        )
        asking = ChatMessageUser(content=prompt)
        replied = ChatMessageAssistant(content=text, source="generate")
        samples.append(
            EvalSample(
                id=problem.id,
                epoch=epoch,
                input=problem.text,
                target=problem.gold or "",
                messages=[asking, replied],
                output=output,
            )
        )
    spec = EvalSpec(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task=config["benchmark"],
        dataset=EvalDataset(samples=len(problems), sample_ids=[one.id for one in problems]),
        # One that Inspect need not load to grade.
        model=f"mockllm/{config['name']}",
        config=EvalConfig(epochs=epochs),
        metadata={key: config[key] for key in ("name", "runs", "benchmark")},
    )
    plan = EvalPlan(config=GenerateConfig(max_tokens=config["max_tokens"], **sampling))
    unscored = EvalLog(status="success", eval=spec, plan=plan, samples=samples)
    log.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(score(unscored, math(), display="none"), log)
