"""The figures of one evaluation, read from its log: ours or anybody's, `.eval` or `.json`.

Every figure is a share from 0 to 1 with an interval over problems (`docs/statistics.md`). A log
that lacks samples or verdicts is refused, or read with the number of missing ones in every report:
a missing sample is not a wrong one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.inputs.inspect_rows import InspectLog, scores_of
from rpd_metric.errors import InputError
from rpd_metric.metrics.inspect_text import problem_text, solution_texts
from rpd_metric.statistics.estimators import cons_at_n, first_k_per_problem, pass_at_k
from rpd_metric.statistics.intervals import mean_band, mean_interval

# What decides no sample and no score: how a model is reached, how much at a time, where data lie;
# and the seed, which may be any.
_NEUTRAL = {
    *("seed", "max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "batch", "cache"),
    *("max_connections", "adaptive_connections", "cache_prompt", "extra_headers"),
    *("workers", "benchmark", "data"),
}

# How a reply ends that reached a length.
_CUT = ("max_tokens", "model_length")


@dataclass(frozen=True)
class Results:
    """One model on one benchmark.

    `settings` decided the samples and their scores. `correct` has per problem `"1"` or `"0"` for
    each sample, one run after the other; `missing` samples have no score, `capped` ones were cut
    before the length that was asked for, after so many tokens. `figures` holds intervals:
    `pass_at_k`, `pass_hat_k` and, without missing samples, `first_k` by k, and `cons_at_n` where
    there are answers.
    """

    name: str
    benchmark: str
    settings: dict[str, Any]
    problems: list[str]
    of_problems: int
    correct: list[str]
    missing: int
    runs: int
    verdicts: dict[str, int]
    finish_reasons: dict[str, int]
    figures: dict[str, Any]
    capped: list[int] = field(default_factory=list)

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

    def among(self, names: Container[str]) -> Results:
        """The same of some of the problems."""
        pairs = zip(self.problems, self.correct, strict=True)
        # Without any mark there is one solution that has none.
        kept: dict[str, list[bool | None]] = {
            one: [mark == "1" for mark in marks] or [None] for one, marks in pairs if one in names
        }
        found = results_of(self.name, self.benchmark, kept)
        return replace(found, settings=self.settings)


def read_results(
    path: Path,
    *,
    name: str | None = None,
    scorer: str | None = None,
    runs: int | None = None,
    allow_missing: bool = False,
    on_sample: Callable[[str, str, str, bool], None] | None = None,
) -> Results:
    """Read a log of Inspect and compute every figure.

    Args:
        path (`Path`): A `.eval` or `.json` log.
        name (`str`, *optional*): What tables call the model.
        scorer (`str`, *optional*): Whose verdicts count, `NAME` or `NAME_KEY`; the log's first.
        runs (`int`, *optional*): Into so many runs the epochs are divided; as the log says, or one.
        allow_missing (`bool`): Count missing and capped samples instead of refusing the log.
        on_sample (`Callable`, *optional*): Given the problem's id and text, the solution, and
            whether it is right, of each sample that counts.

    Raises:
        [`InputError`]: It is no log, its scores are no verdicts, samples are missing, or a server
            cut replies before the length that was asked for.
        [`MissingExtraError`]: inspect-ai is not installed.
    """
    log = InspectLog(path)
    spec, about = log.header.eval, log.header.eval.metadata or {}
    # By problem, whether each sample is right, and its answer.
    scored: dict[str, list[tuple[bool, str | None]]] = {}
    verdicts, ends = Counter[str](), Counter[str]()
    asked, capped = log.header.plan.config.max_tokens, list[int]()
    for sample in itertools.chain.from_iterable(log.problems()):
        scores, output = scores_of(sample), sample.output
        scorer = scorer or next(iter(scores), None)
        number, score = scores.get(scorer or "", (None, None))
        if sample.error is not None or number is None or score is None:
            continue
        right = number >= 1
        # A right answer without a name has the target's.
        target = sample.target if isinstance(sample.target, str) else sample.target[0]
        answer = score.answer or (target or None if right else None)
        scored.setdefault(str(sample.id), []).append((right, answer))
        if on_sample is not None:
            (text, *_) = solution_texts(sample.messages, output)
            on_sample(str(sample.id), problem_text(sample.input), text, right)
        verdicts[(score.metadata or {}).get("verdict") or ("correct" if right else "wrong")] += 1
        ends[output.stop_reason if output.choices else "unknown"] += 1
        written = output.usage.output_tokens if output.usage else 0
        if asked and 0 < written < asked and output.stop_reason in _CUT:
            capped.append(written)
    wanted = (spec.config.epochs or 1) * len(log.epochs)
    missing = wanted - verdicts.total()
    if not scored or (missing and not allow_missing):
        advice = f"`inspect score {path} --scorer rpd_metric/math` grades them"
        if log.shortfall:
            advice = f"{log.shortfall}, --allow-missing counts them"
        raise InputError(
            f"{missing} of {wanted} samples of {path.name} have no verdict of "
            f"{scorer or 'any scorer'}, and a missing sample is not a wrong one: {advice}"
        )
    if capped and not allow_missing:
        raise InputError(
            f"{len(capped)} of {wanted} samples of {path.name} were cut after at most "
            f"{max(capped):,} tokens where {asked:,} were asked for: that is the server's own cap, "
            "by its context or by max_new_tokens in the model's generation_config.json (vLLM: "
            "--generation-config vllm); --allow-missing counts them"
        )
    runs = runs or int(about.get("runs", 1))
    return Results(
        name=name or about.get("name") or short_name(spec.model),
        benchmark=about.get("benchmark") or spec.task.rpartition("/")[2],
        settings=_settings(log, scorer or ""),
        problems=list(scored),
        of_problems=int(about.get("of_problems", spec.dataset.samples or len(log.epochs))),
        correct=["".join("01"[right] for right, _ in group) for group in scored.values()],
        missing=missing,
        runs=runs,
        verdicts=dict(verdicts.most_common()),
        finish_reasons=dict(ends.most_common()),
        figures=_figures(list(scored.values()), runs, complete=not missing),
        capped=capped,
    )


def results_of(
    name: str,
    benchmark: str,
    marks: Mapping[str, Sequence[bool | None]],
    *,
    allow_missing: bool = False,
) -> Results:
    """The same of marks by problem: right, wrong or missing; without any mark there are no figures.

    Raises:
        [`InputError`]: Marks are missing, and that was not allowed.
    """
    known = {one: [mark for mark in given if mark is not None] for one, given in marks.items()}
    total = sum(map(len, marks.values()))
    missing = total - sum(map(len, known.values()))
    if 0 < missing < total and not allow_missing:
        raise InputError(
            f"{missing} of {total} solutions of {name} are not marked as right or wrong, and a "
            "missing mark is not a wrong one: --allow-missing counts the others"
        )
    figures: dict[str, Any] = {"pass_at_k": {}, "pass_hat_k": {}, "first_k": {}, "cons_at_n": None}
    if missing < total:
        known = {one: given for one, given in known.items() if given}
        even = len(set(map(len, known.values()))) == 1
        scored = [[(mark, None) for mark in given] for given in known.values()]
        figures = _figures(scored, 1, complete=even)
    correct = ["".join("01"[mark] for mark in given) for given in known.values()]
    about: dict[str, Any] = {"settings": {}, "runs": 1, "verdicts": {}, "finish_reasons": {}}
    return Results(
        name,
        benchmark,
        problems=list(known),
        of_problems=len(marks),
        correct=correct,
        missing=missing,
        figures=figures,
        **about,
    )


def find_logs(path: Path) -> list[Path]:
    """A log; of a folder, the latest log of each task in it and in each folder in it."""
    if not path.is_dir():
        return [path]
    from inspect_ai.log import list_eval_logs

    logs = sorted(Path(unquote(urlsplit(log.name).path)) for log in list_eval_logs(str(path)))
    if not logs:
        raise InputError(f"{path} holds no log of Inspect; run the evaluation first")
    # Inspect names a log by the time, its task and an id.
    return list(
        {(log.parent, log.stem.partition("_")[2].rpartition("_")[0]): log for log in logs}.values()
    )


def short_name(model: str) -> str:
    """What a table calls a model: the end of its path, or what stands behind a server's address."""
    return re.split(r"[/#]", model.rstrip("/"))[-1] or model


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, ... up to a number, and that number."""
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _settings(log: InspectLog, scorer: str) -> dict[str, Any]:
    """What two evaluations must share to be compared: all that decides a sample or its score."""
    plan, spec = log.header.plan, log.header.eval
    options = [one.options or {} for one in spec.scorers or [] if scorer.startswith(one.name)]
    return {
        **plan.config.model_dump(exclude=_NEUTRAL, exclude_none=True),
        "solver": [{step.solver: step.params} for step in plan.steps],
        "scorer": scorer,
        "grader": [{k: v for k, v in one.items() if k not in _NEUTRAL} for one in options],
        "thinking": spec.model_args.get("thinking", True),
    }


def _figures(
    scored: Sequence[Sequence[tuple[bool, str | None]]], runs: int, *, complete: bool
) -> dict[str, Any]:
    drawn = np.array([len(group) for group in scored])
    right = np.array([sum(mark for mark, _ in group) for group in scored])
    ks = powers_of_two(int(drawn.min()))
    any_of = np.transpose([pass_at_k(drawn, right, k) for k in ks])
    all_of = np.transpose([1 - pass_at_k(drawn, drawn - right, k) for k in ks])
    figures: dict[str, Any] = {
        "pass_at_k": dict(zip(ks, mean_band(any_of), strict=True)),
        "pass_hat_k": dict(zip(ks, mean_band(all_of), strict=True)),
        "first_k": {},
        "cons_at_n": None,
    }
    if not complete:
        return figures
    if drawn[0] % runs:
        raise InputError(f"{drawn[0]} epochs are not {runs} runs of one size; use another --runs")
    # Problem, run, sample, and of these the mark and the answer.
    table = np.array(scored, dtype=object).reshape(len(scored), runs, -1, 2)
    correct, answers = table[..., 0].astype(bool), table[..., 1]
    for k in powers_of_two(correct.shape[2]):
        figures["first_k"][k] = mean_interval(first_k_per_problem(correct, k))
    if any(answer is not None for answer in answers.flat):
        figures["cons_at_n"] = mean_interval(cons_at_n(correct, answers))
    return figures
