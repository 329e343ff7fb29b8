"""An evaluation as a log of Inspect, which `inspect view` shows and `rpd score` reads.

Every sample of every run is an epoch of its problem, in order: epoch 1 is sample 0 of run 0.
The scores are the verdicts, and the results are pass@k by Inspect's own reducers, so that its
figures and ours can be compared. Needs inspect-ai (the extra `inspect`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import Task
from rpd_datasets.evaluation.marking import Mark
from rpd_datasets.evaluation.results import Results
from rpd_datasets.evaluation.samples import Sample
from rpd_metric.errors import InputError, MissingExtraError, OutputError

SCORER = "rpd_metric"


def write_inspect_log(
    path: Path,
    tasks: Sequence[Task],
    samples: Sequence[Sample],
    marks: Sequence[Mark],
    results: Results,
) -> None:
    """Write samples and verdicts, and what they came to, as an Inspect log (`*.eval`).

    Raises:
        [`InputError`]: The file's name ends otherwise.
        [`MissingExtraError`]: inspect-ai is not installed.
        [`OutputError`]: It cannot be written.
    """
    if path.suffix != ".eval":
        raise InputError(f"{path} does not end in .eval, by which Inspect knows its logs")
    try:
        from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, write_eval_log
        from inspect_ai.model import GenerateConfig
    except ImportError as error:
        raise MissingExtraError(
            "writing an Inspect log", extra="inspect", module=error.name or "inspect_ai"
        ) from error
    sampling = results.sampling
    epochs = sampling["runs"] * sampling["samples"]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=now,
            task=results.benchmark,
            dataset=EvalDataset(
                name=results.benchmark, samples=len(tasks), sample_ids=[task.id for task in tasks]
            ),
            model=results.model,
            model_generate_config=GenerateConfig(
                **{name: sampling[name] for name in ("temperature", "top_p", "max_tokens")}
            ),
            config=EvalConfig(epochs=epochs, epochs_reducer=[f"pass_at_{k}" for k in results.ks]),
            metadata={"sampling": sampling, "name": results.name},
        ),
        results=_results(results, len(tasks) * epochs),
        samples=_samples(tasks, samples, marks, results),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_eval_log(log, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _results(results: Results, total: int) -> Any:
    """The figures, one score per reducer as Inspect lays them out."""
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    scores = [
        EvalScore(
            name=SCORER,
            scorer=SCORER,
            reducer=f"pass_at_{k}",
            scored_samples=len(results.problems),
            unscored_samples=0,
            metrics={"accuracy": EvalMetric(name="accuracy", value=figure["value"])},
        )
        for k, figure in results.figures["pass_at_k"].items()
    ]
    return EvalResults(total_samples=total, completed_samples=total, scores=scores)


def _samples(
    tasks: Sequence[Task], samples: Sequence[Sample], marks: Sequence[Mark], results: Results
) -> list[Any]:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage
    from inspect_ai.scorer import CORRECT, INCORRECT, Score

    by_id = {task.id: task for task in tasks}
    per_run = results.sampling["samples"]
    logged = []
    for sample, mark in zip(samples, marks, strict=True):
        task = by_id[sample.problem_id]
        output = ModelOutput.from_content(
            results.model,
            sample.text,
            stop_reason="max_tokens" if sample.finish_reason == "length" else "stop",
        )
        if sample.tokens is not None:
            output.usage = ModelUsage(output_tokens=sample.tokens, total_tokens=sample.tokens)
        score = Score(
            value=CORRECT if mark.correct else INCORRECT,
            answer=mark.answer,
            explanation=mark.verdict,
        )
        logged.append(
            EvalSample(
                id=task.id,
                epoch=sample.run * per_run + sample.sample + 1,
                input=task.problem,
                target=task.gold or "",
                messages=[
                    ChatMessageUser(content=task.problem),
                    ChatMessageAssistant(content=sample.text, source="generate"),
                ],
                output=output,
                scores={SCORER: score},
                metadata={"run": sample.run, "sample": sample.sample, "seed": sample.seed},
            )
        )
    return logged
