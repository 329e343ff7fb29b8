"""The figures of one evaluation, read from its log: ours or anybody's, `.eval` or `.json`.

Every figure is a share from 0 to 1 with an interval over problems (`docs/statistics.md`). A log
that lacks samples or verdicts is refused, or read with the number of missing ones in every report:
a missing sample is not a wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np

from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.evaluation.comparison import powers_of_two
from rpd_datasets.inputs.inspect_rows import InspectLog, scores_of
from rpd_metric.distance.diversity import PASS_COUNTS, diversity_by_pass_count
from rpd_metric.errors import InputError
from rpd_metric.metrics.inspect_text import problem_text, solution_texts
from rpd_metric.metrics.matrices import step_matrices
from rpd_metric.models.concurrency import run
from rpd_metric.models.kinds import load_embedder
from rpd_metric.statistics.estimators import (
    cons_at_n,
    first_k_error,
    first_k_per_problem,
    pass_at_k,
)
from rpd_metric.statistics.intervals import mean_band, mean_interval
from rpd_metric.steps.summarizers import load_summarizer

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample
    from inspect_ai.scorer import Score

# Table 3 splits by how many of 16 samples are right.
_TABLE_3_SAMPLES = 16
# What decides a sample, of what Inspect knows of a generation.
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "reasoning_effort", "reasoning_tokens")


@dataclass(frozen=True)
class Results:
    """One model on one benchmark.

    `settings` decided the samples and their scores. `correct` has per problem `"1"` or `"0"` for
    each sample, one run after the other; `missing` samples have no score. `figures` holds
    `pass_at_k`, `pass_hat_k` and, without missing samples, `first_k` by k; `mean_at_n`; and
    `cons_at_n` where there are answers. `diversity` is Table 3, of the first
    run, `revision` the dataset's commit.
    """

    name: str
    model: str
    benchmark: str
    settings: dict[str, Any]
    problems: list[str]
    of_problems: int
    correct: list[str]
    missing: int
    runs: int
    verdicts: dict[str, int]
    finish_reasons: dict[str, int]
    mean_tokens: float | None
    figures: dict[str, Any]
    diversity: list[dict[str, Any]] | None = None
    measured_with: dict[str, str] = field(default_factory=dict)
    revision: str | None = None

    @property
    def title(self) -> str:
        """What tables call the benchmark."""
        known = BENCHMARKS.get(self.benchmark)
        return known.title if known else self.benchmark

    @property
    def samples(self) -> int:
        """Samples of a problem and run."""
        return max(map(len, self.correct)) // self.runs

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """By problem, how many samples there are, and how many of them are right."""
        pairs = zip(self.problems, self.correct, strict=True)
        return {name: (len(marks), marks.count("1")) for name, marks in pairs}


def read_results(
    path: Path,
    *,
    name: str | None = None,
    scorer: str | None = None,
    runs: int | None = None,
    allow_missing: bool = False,
    measure_with: Mapping[str, str] | None = None,
) -> Results:
    """Read a log of Inspect and compute every figure.

    Args:
        path (`Path`): A `.eval` or `.json` log.
        name (`str`, *optional*): What tables call the model.
        scorer (`str`, *optional*): Whose verdicts count, `NAME` or `NAME_KEY`; the log's first.
        runs (`int`, *optional*): Into so many runs the epochs are divided; as the log says, or one.
        allow_missing (`bool`): Count missing samples instead of refusing the log.
        measure_with (`Mapping`, *optional*): The `summarizer` and `embedder` to measure diversity.

    Raises:
        [`InputError`]: It is no log, its scores are no verdicts, or samples are missing.
        [`MissingExtraError`]: inspect-ai is not installed.
    """
    log = InspectLog(path)
    spec, about = log.header.eval, log.header.eval.metadata or {}
    wanted = (spec.config.epochs or 1) * len(log.epochs)
    scored: dict[str, list[_Scored]] = {}
    for epochs in log.problems():
        for sample in epochs:
            scores = scores_of(sample)
            scorer = scorer or next(iter(scores), None)
            number, score = scores.get(scorer or "", (None, None))
            if sample.error is None and number is not None and score is not None:
                scored.setdefault(str(sample.id), []).append(_Scored.of(sample, number, score))
    every = [one for group in scored.values() for one in group]
    missing = wanted - len(every)
    if not every or (missing and not allow_missing):
        advice = f"`inspect score {path} --scorer rpd_metric/math` grades them"
        if log.shortfall:
            advice = f"{log.shortfall}, --allow-missing counts them"
        raise InputError(
            f"{missing} of {wanted} samples of {path.name} have no verdict of "
            f"{scorer or 'any scorer'}, and a missing sample is not a wrong one: {advice}"
        )
    runs = runs or int(about.get("runs", 1))
    tokens = [one.tokens for one in every if one.tokens is not None]
    groups = list(scored.values())
    found = Results(
        name=name or about.get("name") or short_name(spec.model),
        model=spec.model,
        benchmark=about.get("benchmark") or spec.task.rpartition("/")[2],
        settings=_settings(log, scorer or ""),
        problems=list(scored),
        of_problems=int(about.get("of_problems", spec.dataset.samples or len(log.epochs))),
        correct=["".join("01"[one.right] for one in group) for group in groups],
        missing=missing,
        runs=runs,
        verdicts=dict(Counter(one.verdict for one in every).most_common()),
        finish_reasons=dict(Counter(one.end for one in every).most_common()),
        mean_tokens=sum(tokens) / len(tokens) if len(tokens) == len(every) else None,
        figures=_figures(groups, runs, complete=not missing),
        revision=about.get("revision"),
    )
    if not measure_with or found.samples != _TABLE_3_SAMPLES or missing:
        return found
    table = _diversity([group[:_TABLE_3_SAMPLES] for group in groups], **measure_with)
    return replace(found, diversity=table, measured_with=dict(measure_with))


@dataclass(frozen=True)
class _Scored:
    """What a figure needs of one sample."""

    problem: str
    text: str
    right: bool
    answer: str | None
    verdict: str
    end: str
    tokens: int | None

    @classmethod
    def of(cls, sample: EvalSample, number: float, score: Score) -> _Scored:
        right, output = number >= 1, sample.output
        target = sample.target if isinstance(sample.target, str) else sample.target[0]
        return cls(
            problem_text(sample.input),
            # Only right solutions are compared.
            solution_texts(sample.messages, output)[0] if right else "",
            right,
            # A right answer without a name has the target's.
            score.answer or (target or None if right else None),
            (score.metadata or {}).get("verdict") or ("correct" if right else "wrong"),
            output.stop_reason if output.choices else "unknown",
            output.usage.output_tokens if output.usage else None,
        )


def comparable(
    results: Sequence[Results], *, different_settings: bool = False
) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Samples drawn and right by benchmark, model and problem, for [`~comparison.compare`].

    Raises:
        [`InputError`]: Two models met different problems, were sampled or graded differently
            (unless `different_settings`), or have one name.
    """
    groups: dict[str, dict[str, Results]] = {}
    for one in results:
        models = groups.setdefault(one.title, {})
        base = next(iter(models.values()), one)
        if one.name in models:
            raise InputError(
                f"two results of {one.title} are called {one.name!r}; give one another name "
                "(NAME=LOG)"
            )
        if set(base.problems) != set(one.problems):
            raise InputError(
                f"{base.name} and {one.name} were evaluated on different problems of {one.title}; "
                "use the same file and --limit"
            )
        ours, theirs = base.settings, one.settings
        said = ", ".join(
            f"{name} ({ours.get(name)} and {theirs.get(name)})"
            for name in dict.fromkeys([*ours, *theirs])
            if name != "seed" and ours.get(name) != theirs.get(name)
        )
        if said and not different_settings:
            raise InputError(
                f"{base.name} and {one.name} were evaluated with another {said}; "
                "--different-settings compares them all the same"
            )
        models[one.name] = one
    return {
        title: {
            name: [one.counts[id_] for id_ in next(iter(models.values())).problems]
            for name, one in models.items()
        }
        for title, models in groups.items()
    }


def find_logs(path: Path) -> list[Path]:
    """A log; of a folder, the latest log of each task in it and in each folder in it."""
    if not path.is_dir():
        return [path]
    from inspect_ai.log import list_eval_logs

    logs = [Path(unquote(urlsplit(log.name).path)) for log in list_eval_logs(str(path))]
    # Inspect names a log by the time, its task and an id.
    tasks = {
        (log.parent, log.stem.partition("_")[2].rpartition("_")[0]): log for log in sorted(logs)
    }
    latest = list(tasks.values())
    if not latest:
        raise InputError(f"{path} holds no log of Inspect; run the evaluation first")
    return latest


def short_name(model: str) -> str:
    """What a table calls a model: the end of its path, or what stands behind a server's address."""
    return re.split(r"[/#]", model.rstrip("/"))[-1] or model


def _settings(log: InspectLog, scorer: str) -> dict[str, Any]:
    """What two evaluations must share to be compared."""
    config, spec = log.header.plan.config, log.header.eval
    prompts = [step.params.get("template") for step in log.header.plan.steps if step.params]
    graded = next((one for one in spec.scorers or [] if scorer.startswith(one.name)), None)
    return {
        **{name: getattr(config, name) for name in _SAMPLING},
        "solver": " > ".join(step.solver for step in log.header.plan.steps),
        "prompt": next(filter(None, prompts), None),
        "scorer": scorer,
        "grader": ((graded.options if graded else None) or {}).get("grader"),
        "thinking": spec.model_args.get("thinking", True),
        "seed": spec.model_generate_config.seed,
    }


def _figures(groups: Sequence[Sequence[_Scored]], runs: int, *, complete: bool) -> dict[str, Any]:
    drawn = np.array([len(group) for group in groups])
    right = np.array([sum(one.right for one in group) for group in groups])
    ks = powers_of_two(int(drawn.min()))
    any_of = np.stack([pass_at_k(drawn, right, k) for k in ks], axis=1)
    all_of = np.stack([1 - pass_at_k(drawn, drawn - right, k) for k in ks], axis=1)
    figures: dict[str, Any] = {
        "pass_at_k": dict(zip(map(str, ks), map(asdict, mean_band(any_of)), strict=True)),
        "pass_hat_k": dict(zip(map(str, ks), map(asdict, mean_band(all_of)), strict=True)),
        "mean_at_n": asdict(mean_interval(right / drawn)),
        "first_k": {},
        "cons_at_n": None,
    }
    if not complete:
        return figures
    if drawn[0] % runs:
        raise InputError(f"{drawn[0]} epochs are not {runs} runs of one size; use another --runs")
    shape = (len(groups), runs, int(drawn[0]) // runs)
    correct = np.array([[one.right for one in group] for group in groups]).reshape(shape)
    figures["first_k"] = {
        str(k): asdict(mean_interval(first_k_per_problem(correct, k)))
        | {"standard_error": first_k_error(correct, k)}
        for k in powers_of_two(shape[2])
    }
    answers = np.array([[one.answer for one in group] for group in groups], dtype=object)
    if any(answer is not None for answer in answers.flat):
        figures["cons_at_n"] = asdict(mean_interval(cons_at_n(correct, answers.reshape(shape))))
    return figures


def _diversity(
    groups: Sequence[Sequence[_Scored]], summarizer: str, embedder: str
) -> list[dict[str, Any]]:
    """Diversity of right solutions by pass count (Table 3)."""
    summarize = load_summarizer(summarizer).summarize
    steps = []
    for group in groups:
        right = [one.text for one in group if one.right]
        wanted = any(low <= len(right) <= high for low, high in PASS_COUNTS)
        found = iter(run(summarize(group[0].problem, right)) if wanted else ())
        steps.append([next(found).steps if one.right and wanted else () for one in group])
    table = diversity_by_pass_count(
        [[one.text for one in group] for group in groups],
        [[one.right for one in group] for group in groups],
        step_matrices(steps, load_embedder(embedder)),
    )
    return [asdict(row) for row in table]
