"""Curves of what a model can do while it trains: pass@k and strategies on held-out problems.

Before the first step, every so many and after the last, the model samples solutions, and the
project's grader marks them. The right ones of a problem are cut into strategies by a distance,
without a chat model. Sampling has random numbers of its own, the same each time: training is the
same without it, and two points of a curve differ by the weights alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpd_datasets.instructions import fill_prompt, prompt_template
from rpd_datasets.training.recipe import CommonOptions
from rpd_metric.distance.groups import strategy_groups
from rpd_metric.distance.measured import read_evidence
from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict
from rpd_metric.grading.custom import load_grader
from rpd_metric.measure import distance_matrices
from rpd_metric.models.spec import load_embedder
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.strategy_counts import sample_sizes, strategy_counts

DISTANCE = "taught"
# The largest mean distance within one strategy: it counts strategies best on the set dev.
THRESHOLD = 0.675
# As `recipes/passk.py` samples.
SAMPLING: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95}


class HeldOut(NamedTuple):
    """Problems with their answers, their prompts as tokens, and the options of the run."""

    problems: Sequence[tuple[str, str]]
    prompts: Sequence[list[int]]
    options: CommonOptions


def load_held_out(
    options: CommonOptions,
    tokenizer: Any,
    load: Callable[[str], list[tuple[str, str]]],
    log: Callable[[str], None],
) -> HeldOut | None:
    """Load what a run measures, if it does, and keep its problems out of the training data.

    `load` reads the problems and answers of `measure_problems`.
    """
    name, every = options.measure_problems, options.measure_every
    if name is None and every is None:
        return None
    if not name or min(every or 0, options.measure_samples) < 1:
        raise InputError("measuring needs measure_problems, and a measure_every of 1 or more")
    problems = load(name)
    load_grader(options.grader).close()  # what is missing is said before training
    load_embedder(DISTANCE)
    options.decontaminate = [other for other in options.decontaminate if other != "none"] + [name]
    template = prompt_template(options.prompt)
    turns = [
        [{"role": "user", "content": fill_prompt(template, problem)}] for problem, _ in problems
    ]
    prompts = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    evidence = read_evidence().about([DISTANCE], DISTANCE, "").describe(DISTANCE, "en")
    log(
        f"measured every {every} steps: {len(problems)} problems of {name}, "
        f"{options.measure_samples} samples each. Strategies are groups of right solutions by the "
        f"distance {DISTANCE}, without a chat model: {evidence}"
    )
    return HeldOut(problems, prompts, options)


def measure_while_training(trainer: Any, held_out: HeldOut) -> None:
    """Log the figures of [`held_out_figures`] while a trainer trains, as `held_out/NAME`."""
    from accelerate.utils import gather_object  # type: ignore[import-untyped]
    from transformers import Trainer, TrainerCallback

    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise InputError("sharded weights cannot be sampled while training: drop measure_every")
    rank, processes = trainer.args.process_index, trainer.args.world_size

    def measure() -> None:
        shares = gather_object([sample(trainer, held_out.prompts[rank::processes], held_out)])
        if trainer.is_world_process_zero():
            texts = [shares[n % processes][n // processes] for n in range(len(held_out.problems))]
            figures = held_out_figures(held_out, texts)
            due = trainer.control.should_log
            # TRL's own would take what a step of GRPO has noted for its line of the log.
            Trainer.log(trainer, {f"held_out/{name}": value for name, value in figures.items()})
            trainer.control.should_log = due  # logging takes the step's own line off the list

    class Measure(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step == 0:
                measure()

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            every = held_out.options.measure_every
            if state.global_step % every == 0 or state.global_step == state.max_steps:
                measure()

    trainer.add_callback(Measure())


def sample(trainer: Any, prompts: Sequence[list[int]], held_out: HeldOut) -> list[list[str]]:
    """Sample each prompt's solutions by vLLM, if it runs in the trainer's process, or else here."""
    import torch
    from trl.models.utils import unwrap_model_for_generation

    tokenizer, seed = trainer.processing_class, trainer.args.seed
    number, length = held_out.options.measure_samples, held_out.options.measure_tokens
    vllm = trainer.vllm_generation if getattr(trainer, "use_vllm", False) else None
    if vllm is not None and vllm.mode == "colocate" and vllm.tensor_parallel_size == 1:
        own = vllm.generation_kwargs
        vllm.generation_kwargs = own | SAMPLING | {"n": number, "max_tokens": length, "seed": seed}
        try:
            ids, _ = trainer._generate_single_turn(list(prompts), None, {}, 1)
        finally:
            vllm.generation_kwargs = own
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        return [texts[start : start + number] for start in range(0, len(texts), number)]
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    drawing = SAMPLING | {"do_sample": True, "top_k": 0, "num_return_sequences": number}
    checkpointing = trainer.args.gradient_checkpointing_kwargs
    replies = []
    with (
        unwrap_model_for_generation(
            trainer.model, trainer.accelerator, gradient_checkpointing_kwargs=checkpointing
        ) as model,
        torch.no_grad(),
        torch.random.fork_rng(),
    ):
        model.eval()
        for prompt in prompts:
            torch.manual_seed(seed)
            ids = torch.tensor([prompt], device=model.device)
            mask = torch.ones_like(ids)
            samples = model.generate(
                ids, attention_mask=mask, max_new_tokens=length, **drawing, **ends
            )
            texts = tokenizer.batch_decode(samples[:, len(prompt) :], skip_special_tokens=True)
            replies.append(texts)
        model.train()
    return replies


def held_out_figures(held_out: HeldOut, texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """pass@k without bias, and the figures of [`strategy_counts`] with groups by a distance."""
    number, embedder = held_out.options.measure_samples, load_embedder(DISTANCE)
    right, labels = [], []
    with load_grader(held_out.options.grader) as grader:
        for (problem, gold), replies in zip(held_out.problems, texts, strict=True):
            verdicts = list(grader.grade((gold, text) for text in replies))
            if Verdict.UNPARSABLE_GOLD in verdicts:
                raise InputError(f"the answer {gold!r} of a held-out problem cannot be read")
            marks = [verdict is Verdict.CORRECT for verdict in verdicts]
            solved = [text for text, mark in zip(replies, marks, strict=True) if mark]
            matrix = distance_matrices([DISTANCE], problem, solved, None, embedder)[DISTANCE]
            groups = iter(strategy_groups(matrix, THRESHOLD))
            right.append(marks)
            labels.append([next(groups) if mark else None for mark in marks])
    counts = [sum(marks) for marks in right]
    sizes = sample_sizes([number], 1)
    figures = {f"pass@{k}": float(np.mean(pass_at_k(number, counts, k))) for k in sizes}
    return figures | {count.figure: count.value for count in strategy_counts(labels, right)}
