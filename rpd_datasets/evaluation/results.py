"""The figures of one evaluation: what `results.json` holds.

Every figure is a share from 0 to 1 with a 95 % interval over problems (`docs/statistics.md`). The
verdicts themselves are kept, one string of 0 and 1 per run of each problem, so that two models
can be compared problem by problem later, without their samples.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rpd_datasets.evaluation.benchmarks import Benchmark, Task
from rpd_datasets.evaluation.marking import Mark
from rpd_datasets.evaluation.passk_config import EvaluationConfig
from rpd_datasets.evaluation.samples import Sample
from rpd_metric.distance.diversity import PASS_COUNTS, diversity_by_pass_count
from rpd_metric.errors import InputError
from rpd_metric.metrics.matrices import step_matrices
from rpd_metric.models.concurrency import run
from rpd_metric.models.embedders import Embedder
from rpd_metric.statistics.estimators import (
    Bools,
    Floats,
    cons_at_n,
    first_k_error,
    first_k_per_problem,
    mean_at_n,
    pass_hat_k_per_problem,
    unbiased_per_problem,
)
from rpd_metric.statistics.intervals import mean_interval
from rpd_metric.steps.protocol import Summarizer

RESULTS = "results.json"
# Table 3 splits by how many of 16 samples are right.
_TABLE_3_SAMPLES = 16


@dataclass(frozen=True)
class Results:
    """One model on one benchmark.

    Args:
        name, model (`str`): What tables call the model, and what its server or folder does.
        sampling (`dict`): Everything that decided the samples.
        problems (`list[str]`): Ids.
        of_problems (`int`): Problems of the whole benchmark.
        correct (`list[list[str]]`): Per problem and run, `"1"` or `"0"` for each sample in order.
        verdicts (`dict[str, int]`): Samples by kind of verdict.
        finish_reasons (`dict[str, int]`): Samples by why they ended; `"length"` is cut off.
        mean_tokens (`float`, *optional*): New tokens per sample, where the model counted them.
        figures (`dict`): `pass_at_k`, `first_k` and `pass_hat_k` (pass^k) by k, `mean_at_n` and
            `cons_at_n`; each a `value` with `low` and `high`, and with `standard_error` over runs
            for `first_k`.
        diversity (`list[dict]`, *optional*): Table 3, first run; `measured_with` names the
            summarizer and the embedder.
        graded_by (`str`, *optional*): The user's own grader, where there was one.
        revision (`str`, *optional*): The commit of the benchmark's dataset on the Hub.
    """

    name: str
    model: str
    benchmark: str
    sampling: dict[str, Any]
    problems: list[str]
    of_problems: int
    correct: list[list[str]]
    verdicts: dict[str, int]
    finish_reasons: dict[str, int]
    mean_tokens: float | None
    figures: dict[str, Any]
    diversity: list[dict[str, Any]] | None = None
    measured_with: dict[str, str] = field(default_factory=dict)
    graded_by: str | None = None
    revision: str | None = None

    @property
    def verdict_array(self) -> Bools:
        """Which samples are right, `(problems, runs, samples)`."""
        return np.array([[[c == "1" for c in text] for text in runs] for runs in self.correct])

    @property
    def ks(self) -> list[int]:
        """The k that figures were computed for."""
        return [int(k) for k in self.figures["pass_at_k"]]

    def per_problem(self, k: int) -> Floats:
        """Unbiased pass@k of each problem."""
        return unbiased_per_problem(self.verdict_array, k)


def measure(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    samples: Sequence[Sample],
    marks: Sequence[Mark],
    config: EvaluationConfig,
    *,
    name: str,
    model: str,
    of_problems: int,
) -> Results:
    """Compute every figure but diversity.

    Samples and marks are complete and in order ([`~rpd_datasets.evaluation.samples.complete`]); the
    names are those of [`Results`].
    """
    shape = (config.runs, config.samples, len(tasks))
    # From run, sample, problem to problem, run, sample.
    correct = np.array([mark.correct for mark in marks]).reshape(shape).transpose(2, 0, 1)
    figures: dict[str, Any] = {
        "pass_at_k": {str(k): _figure(unbiased_per_problem(correct, k)) for k in config.ks},
        "first_k": {
            str(k): _figure(first_k_per_problem(correct, k))
            | {"standard_error": first_k_error(correct, k)}
            for k in config.ks
        },
        "pass_hat_k": {str(k): _figure(pass_hat_k_per_problem(correct, k)) for k in config.ks},
        "mean_at_n": _figure(mean_at_n(correct)),
        "cons_at_n": None,
    }
    if benchmark.kind == "math":
        answers = np.empty(len(marks), dtype=object)
        answers[:] = [mark.answer for mark in marks]
        votes = cons_at_n(correct, answers.reshape(shape).transpose(2, 0, 1))
        figures["cons_at_n"] = _figure(votes)
    tokens = [sample.tokens for sample in samples if sample.tokens is not None]
    return Results(
        name=name,
        model=model,
        benchmark=benchmark.name,
        sampling=config.sampling,
        problems=[task.id for task in tasks],
        of_problems=of_problems,
        correct=[["".join("01"[c] for c in text) for text in runs] for runs in correct.tolist()],
        verdicts=dict(Counter(mark.verdict for mark in marks).most_common()),
        finish_reasons=dict(Counter(s.finish_reason or "unknown" for s in samples).most_common()),
        mean_tokens=float(np.mean(tokens)) if len(tokens) == len(samples) else None,
        figures=figures,
        graded_by=config.grader,
    )


def measure_diversity(
    tasks: Sequence[Task],
    samples: Sequence[Sample],
    marks: Sequence[Mark],
    summarizer: Summarizer,
    embedder: Embedder,
) -> list[dict[str, Any]]:
    """Diversity of the correct solutions of the first run, by pass count (Table 3).

    One [`~rpd_metric.distance.diversity.PassCountDiversity`] per range of pass counts; empty unless
    a run has 16 samples.
    """
    texts: dict[str, list[str]] = {task.id: [] for task in tasks}
    correct: dict[str, list[bool]] = {task.id: [] for task in tasks}
    for sample, mark in zip(samples, marks, strict=True):
        if sample.run == 0:
            texts[sample.problem_id].append(sample.text)
            correct[sample.problem_id].append(mark.correct)
    if any(len(group) != _TABLE_3_SAMPLES for group in texts.values()):
        return []
    groups = []
    for task in tasks:
        # Only correct solutions are compared, so only they need steps.
        right = [place for place, verdict in enumerate(correct[task.id]) if verdict]
        steps: list[list[str]] = [[] for _ in texts[task.id]]
        if any(low <= len(right) <= high for low, high in PASS_COUNTS):
            found = run(
                summarizer.summarize(task.problem, [texts[task.id][place] for place in right])
            )
            for place, summary in zip(right, found, strict=True):
                steps[place] = list(summary.steps)
        groups.append(steps)
    table = diversity_by_pass_count(
        list(texts.values()), list(correct.values()), step_matrices(groups, embedder)
    )
    return [asdict(row) for row in table]


def read_results(path: Path) -> Results:
    """Read `results.json`."""
    try:
        return Results(**json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} does not hold results: {error}; run the report stage") from error


def find_results(path: str | Path) -> list[Results]:
    """The results in a file, a folder, or the folders right in it (one per benchmark)."""
    place = Path(path)
    files = [place] if place.is_file() else [place / RESULTS, *sorted(place.glob(f"*/{RESULTS}"))]
    found = [read_results(file) for file in files if file.is_file()]
    if not found:
        raise InputError(f"{path} holds no {RESULTS}; run the report stage for it first")
    return found


def _figure(per_problem: Floats) -> dict[str, Any]:
    return asdict(mean_interval(per_problem))
