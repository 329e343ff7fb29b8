"""Verdicts on samples: mathematics by `rpd_metric.grading.mathematics`, programs in the sandbox.

Every verdict is kept with its kind, so that a report can tell a wrong answer from none, from a
reference answer that cannot be read, and from a comparison that ran out of time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rpd_datasets.evaluation.benchmarks import Benchmark, Task
from rpd_datasets.evaluation.livecodebench import StoredTests
from rpd_datasets.evaluation.samples import Key, Sample
from rpd_metric.errors import InputError
from rpd_metric.grading.answers import Verdict, final_answer, tidy
from rpd_metric.grading.code import CodeTask, ProgramResult, grade_code
from rpd_metric.grading.custom import load_grader
from rpd_metric.grading.sandbox import Sandbox

VERDICTS = "verdicts.jsonl"


@dataclass(frozen=True)
class Mark:
    """The verdict on one sample.

    Args:
        verdict (`str`): A [`~rpd_metric.grading.answers.Verdict`] or a
            [`~rpd_metric.grading.code.ProgramResult`].
        correct (`bool`): Whether it counts as solved.
        answer (`str`, *optional*): The final answer, tidied; programs have none.
    """

    problem_id: str
    run: int
    sample: int
    verdict: str
    correct: bool
    answer: str | None = None

    @property
    def key(self) -> Key:
        """Which sample was marked."""
        return self.problem_id, self.run, self.sample


def mark(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    samples: Sequence[Sample],
    *,
    grader: str | None = None,
    workers: int | None = None,
    unsafe: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Mark]:
    """Mark every sample.

    Args:
        grader (`str`, *optional*): See [`~rpd_metric.grading.custom.load_grader`].
        workers (`int`, *optional*): Processes, or programs, at a time.
        unsafe (`bool`): Run programs without a sandbox.
        progress (`Callable`, *optional*): Called with the number of verdicts so far.

    Raises:
        [`InputError`]: A programming problem comes without its tests.
        [`SandboxError`]: Programs cannot be contained here, and `unsafe` was not asked for.
        [`MissingExtraError`]: math-verify is not installed.
    """
    by_id = {task.id: task for task in tasks}
    if benchmark.kind == "math":
        with load_grader(grader, workers=workers) as grading:
            rows = ((by_id[sample.problem_id].gold or "", sample.text) for sample in samples)
            verdicts = list(grading.grade(rows, progress=progress))
        return [
            Mark(*sample.key, verdict.value, verdict is Verdict.CORRECT, _answer(sample, verdict))
            for sample, verdict in zip(samples, verdicts, strict=True)
        ]
    sandbox = Sandbox(unsafe=unsafe)
    # Problem by problem: the tests of one may be a hundred megabytes.
    by_problem: dict[str, list[Sample]] = {}
    for sample in samples:
        by_problem.setdefault(sample.problem_id, []).append(sample)
    programs = (
        (tests, sample.text)
        for problem_id, group in by_problem.items()
        for tests in [_tests(by_id[problem_id], benchmark)]
        for sample in group
    )
    ended = grade_code(programs, sandbox, workers=workers or 2, progress=progress)
    grouped = (sample for group in by_problem.values() for sample in group)
    marks = {
        sample.key: Mark(*sample.key, result.value, result is ProgramResult.PASSED)
        for sample, result in zip(grouped, ended, strict=True)
    }
    return [marks[sample.key] for sample in samples]


def check_ready(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    *,
    grader: str | None = None,
    unsafe: bool = False,
) -> None:
    """See that samples could be marked, before hours are spent on making them.

    Raises:
        [`InputError`], [`SandboxError`], [`MissingExtraError`]: As [`mark`] would.
    """
    if benchmark.kind == "math":
        load_grader(grader).close()
        return
    for task in tasks:
        _tests(task, benchmark)
    Sandbox(unsafe=unsafe)


def read_marks(path: Path, samples: Sequence[Sample]) -> list[Mark]:
    """Read the verdicts on samples, in their order; one that is missing is an error."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        marks = {found.key: found for found in (Mark(**row) for row in rows)}
    except FileNotFoundError:
        raise InputError(f"there is no {path}; run the grade stage first") from None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} does not hold verdicts: {error}; grade again") from error
    without = sum(sample.key not in marks for sample in samples)
    if without:
        raise InputError(
            f"{without} of {len(samples)} samples have no verdict in {path}; run the grade stage "
            "again"
        )
    return [marks[sample.key] for sample in samples]


def _answer(sample: Sample, verdict: Verdict) -> str | None:
    answer = final_answer(sample.text)
    if answer is None and verdict is Verdict.CORRECT:
        # Only a grader of the user's own calls a response right that names no answer.
        answer = sample.text
    return None if answer is None else tidy(answer)


def _tests(task: Task, benchmark: Benchmark) -> CodeTask:
    if isinstance(task.code, StoredTests):
        return task.code.read()
    if task.code is None:
        raise InputError(
            f"problem {task.id} of {benchmark.title} comes without its tests, so its programs "
            "cannot be graded; use LiveCodeBench's own files, or add them to the rows as "
            '"tests": [{"input": ..., "output": ...}]'
        )
    return task.code
