"""The benchmarks as tasks of Inspect: `inspect eval rpd_datasets/aime24 --epochs 64`.

Inspect finds them by the entry point `rpd_datasets` of the group `inspect_ai`. A sample's seed is
that of the run (`--seed`, 0) and its epoch: samples of a problem differ, and come again.

Task arguments, all optional (`-T data=FILE`): `data`, a local file of the benchmark; `prompt`, a
name of `instructions.PROMPTS` or a text with `{problem}` in it; `grader`, `FILE.py:FUNCTION` in the
place of mathematics; `unsafe`, which runs generated programs without a sandbox.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from rpd_datasets.evaluation.benchmarks import BENCHMARKS, Benchmark, load_problems
from rpd_datasets.instructions import fill_prompt, prompt_template
from rpd_metric.errors import InputError
from rpd_metric.grading.code import ProgramResult, grade_program
from rpd_metric.grading.sandbox import Sandbox
from rpd_metric.metrics.inspect_extension import full_name, math, pass_at_k
from rpd_metric.metrics.inspect_text import solution_texts
from rpd_metric.models.spec import chat_spec, load_chat

# The paper's, with 16 samples a run.
CONFIG = GenerateConfig(temperature=0.6, top_p=0.95, max_tokens=14_000)


@solver(name=full_name(__name__, "ask"))
def ask(template: str) -> Solver:
    """Put the problem into a prompt and ask once, by the seed of the run and the epoch."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.user_prompt.text = fill_prompt(template, state.input_text)
        first = get_model().config.seed or 0
        return await generate(state, seed=first + state.epoch - 1)

    return solve


@scorer(metrics=[pass_at_k()], name=full_name(__name__, "program"))
def program(benchmark: str, data: str | None = None, unsafe: bool = False) -> Scorer:
    """Whether a program passes its problem's tests, which run in a sandbox unless `unsafe`.

    `benchmark` and `data` say where the tests are, by the problem's id.
    """
    sandbox, limiter = Sandbox(unsafe=unsafe), CapacityLimiter(min(8, os.cpu_count() or 1))
    problems = load_problems(benchmark, data)
    tests = {problem.id: problem.tests for problem in problems if problem.tests}

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        def run() -> ProgramResult:
            return grade_program(tests[str(state.sample_id)](), state.output.completion, sandbox)

        result = await to_thread.run_sync(run, limiter=limiter)
        return Score(
            value=CORRECT if result is ProgramResult.PASSED else INCORRECT,
            explanation=solution_texts(state.messages, state.output)[0],
            metadata={"verdict": result.value},
        )

    return score


def model_name(model: str) -> tuple[str, dict[str, Any]]:
    """A model as Inspect names it, and its arguments: of a folder, a spec, or such a name.

    A server is asked whether it is there.
    """
    folder = Path(model.removeprefix("hf:")).expanduser()
    if not folder.is_dir():
        if "/" in model.partition(":")[0]:
            return model, {}
        spec = chat_spec(model)
        if not spec.runs_here:
            load_chat(spec.text)
        return f"rpd/{spec.text}", {}
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} is an adapter, and which base it fits is known to merge.py only; merge it "
            f"first: python recipes/merge.py --adapter {folder} --output {folder}-merged"
        )
    # A model that was trained anew in the same place is another one.
    newest = max((file.stat().st_mtime_ns for file in folder.iterdir()), default=0)
    return f"rpd/hf:{folder.resolve()}", {"state": f"{newest}"}


def _task(benchmark: Benchmark) -> Callable[..., Task]:
    @task(name=full_name(__name__, benchmark.name))
    def build(
        data: str | None = None,
        prompt: str | None = None,
        grader: str | None = None,
        unsafe: bool = False,
    ) -> Task:
        problems = load_problems(benchmark.name, data)
        tests = [problem.tests for problem in problems if problem.tests]
        for read in tests:  # what cannot be graded is not sampled
            read()
        if tests and grader is not None:
            raise InputError(f"{benchmark.name} is graded by its tests; leave grader out")
        scoring = program(benchmark.name, data, unsafe) if tests else math(grader=grader)
        samples = [Sample(id=p.id, input=p.text, target=p.gold or "") for p in problems]
        return Task(
            MemoryDataset(samples, name=benchmark.title, location=data or benchmark.hub),
            solver=ask(prompt_template(prompt or benchmark.prompt)),
            scorer=scoring,
            config=CONFIG,
            epochs=16,
            # One failed sample does not end the others; the log says that it failed.
            continue_on_fail=True,
            metadata={"benchmark": benchmark.name, "of_problems": len(problems)},
        )

    return build


TASKS = {benchmark.name: _task(benchmark) for benchmark in BENCHMARKS.values()}
