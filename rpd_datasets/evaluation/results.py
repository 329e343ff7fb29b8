"""What a model did on a benchmark: of a log of Inspect, ours or anybody's, or a file of solutions.

Every figure is a share from 0 to 1 with an interval over problems (`docs/statistics.md`). Missing
samples and verdicts are refused, or counted in every report: a missing sample is not a wrong one.
What scores of a log are right is the business of `rpd_metric/grading/score_scales.py`.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rpd_datasets.evaluation.benchmarks import BENCHMARKS
from rpd_datasets.filters.answer_checks import AnswerChecker, marked_only
from rpd_datasets.filters.completeness import REACHED_LIMIT
from rpd_datasets.inputs.inspect_rows import JSON_LOG, InspectLog, scores_of
from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_datasets.problem import Problem, Rejected, strategy_labels
from rpd_metric.errors import InputError
from rpd_metric.grading.answers import final_answer, tidy
from rpd_metric.grading.score_scales import SHARES, ScoreScale, is_missing, score_scale
from rpd_metric.metrics.inspect_text import problem_text, solution_texts
from rpd_metric.statistics.estimators import cons_at_n, first_k_per_problem, pass_at_k
from rpd_metric.statistics.intervals import Interval, mean_band, mean_interval

# What decides no sample and no score: how a model is reached, how much at a time, where data lie;
# and the seed, which may be any.
_NEUTRAL = {
    *("seed", "max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "batch", "cache"),
    *("max_connections", "adaptive_connections", "cache_prompt", "extra_headers"),
    *("workers", "benchmark", "data"),
}
# What tables call the problems of files.
FILES = "the files"
# Whether a sample is right, None where that is missing; and its answer.
Mark = tuple[bool | None, str | None]
# A vote needs the answers of at least this share of the right samples: where those cannot be read,
# wrong ones would not be counted either.
READ_ANSWERS = 0.9


@dataclass(frozen=True)
class Results:
    """One model on one benchmark."""

    name: str
    benchmark: str
    marks: dict[str, list[Mark]]  # by problem, one run after the other
    right: Mapping[str, Problem] = field(default_factory=dict)  # without any mark, all solutions
    strategies: Mapping[str, Sequence[str | None]] = field(default_factory=dict)  # of all samples
    settings: dict[str, Any] = field(default_factory=dict)  # what decided samples and scores
    of_problems: int = 0  # of the whole benchmark
    runs: int = 1
    verdicts: dict[str, int] = field(default_factory=dict)
    finish_reasons: dict[str, int] = field(default_factory=dict)
    capped: list[int] = field(default_factory=list)  # tokens of samples that a server cut
    missing: int = 0  # samples without a mark, which are refused with an advice or counted
    scale: ScoreScale = field(default_factory=ScoreScale)
    mean_score: Interval | None = None  # of scores that are shares
    not_checked: int = 0  # solutions of files that no reference could be compared with
    unread: int = 0  # right samples whose answers cannot be read, where that leaves out the vote
    allow_missing: InitVar[bool] = False
    advice: InitVar[str] = ""

    def __post_init__(self, allow_missing: bool, advice: str) -> None:
        known = {
            id_: [mark for mark in marks if mark[0] is not None]
            for id_, marks in self.marks.items()
        }
        expected, marked = (sum(map(len, marks.values())) for marks in (self.marks, known))
        if marked < expected and not (marked and allow_missing):
            raise InputError(
                f"{expected - marked} of {expected} samples of {self.name} have no verdict of "
                f"{self.settings['scorer']}, and a missing sample is not a wrong one: {advice}"
            )
        known = {id_: marks for id_, marks in known.items() if marks or not expected}
        vars(self).update(marks=known, missing=self.missing + expected - marked)

    @property
    def title(self) -> str:
        """What tables call the benchmark."""
        known = BENCHMARKS.get(self.benchmark)
        return known.title if known else self.benchmark

    @property
    def samples(self) -> int:
        """Samples of a problem and run."""
        return max(map(len, self.marks.values())) // self.runs

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """By problem, how many samples there are, and how many of them are right."""
        return {
            id_: (len(marks), sum(bool(right) for right, _ in marks))
            for id_, marks in self.marks.items()
        }

    @cached_property
    def figures(self) -> dict[str, Any]:
        """Intervals: `pass_at_k` and `pass_hat_k` by k, as far as there are marks; without missing
        samples `first_k`, and `cons_at_n` where there are answers."""
        figures: dict[str, Any] = {"pass_at_k": {}, "pass_hat_k": {}, "first_k": {}}
        figures["cons_at_n"] = None
        drawn, right = np.array(list(self.counts.values())).T
        if not drawn.all():
            return figures
        ks = powers_of_two(int(drawn.min()))
        any_of = [pass_at_k(drawn, right, k) for k in ks]
        all_of = [1 - pass_at_k(drawn, drawn - right, k) for k in ks]
        for name, values in (("pass_at_k", any_of), ("pass_hat_k", all_of)):
            figures[name] = dict(zip(ks, mean_band(np.transpose(values)), strict=True))
        if self.missing or drawn.min() < drawn.max():
            return figures
        if drawn[0] % self.runs:
            raise InputError(
                f"{drawn[0]} epochs are not {self.runs} runs of one size; use another --runs"
            )
        # Problem, run, sample, and of these the mark and the answer.
        table = np.array(list(self.marks.values()), dtype=object)
        table = table.reshape(len(drawn), self.runs, -1, 2)
        correct, answers = table[..., 0].astype(bool), table[..., 1]
        for k in powers_of_two(correct.shape[2]):
            figures["first_k"][k] = mean_interval(first_k_per_problem(correct, k))
        if not self.unread and any(answer is not None for answer in answers.flat):
            figures["cons_at_n"] = mean_interval(cons_at_n(correct, answers))
        return figures

    @property
    def correct(self) -> list[str]:
        """Per problem `"1"` or `"0"` for each sample."""
        rows = self.marks.values()
        return ["".join("01"[bool(right)] for right, _ in marks) for marks in rows]

    def as_record(self) -> dict[str, Any]:
        """All but the texts, for `json.dumps(..., default=vars)`."""
        of_marks = {"problems": list(self.marks), "correct": self.correct, "figures": self.figures}
        texts = ("marks", "right", "scale", "strategies")
        others = {name: value for name, value in vars(self).items() if name not in texts}
        return others | of_marks | {"scores_are": self.scale.kind}


def find_logs(path: Path) -> list[Path]:
    """The logs that a path names: of a folder, the latest of each task in each folder in it."""
    latest = {}
    for log in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if _is_log(log):
            # Inspect names a log by the time, its task and an id.
            latest[log.parent, log.stem.partition("_")[2].rpartition("_")[0]] = log
    return list(latest.values())


def _is_log(path: Path) -> bool:
    if path.suffix == ".json" and path.is_file():
        with path.open("rb") as file:
            return JSON_LOG.match(file.read(200)) is not None
    return path.suffix == ".eval"


def read_results(
    path: Path,
    *,
    name: str | None = None,
    scorer: str | None = None,
    right_score: str | None = None,
    runs: int | None = None,
    allow_missing: bool = False,
) -> Results:
    """Read a log of Inspect, `.eval` or `.json`.

    `name` is what tables call the model, `scorer` whose verdicts count, `NAME` or `NAME_KEY` (the
    log's first), `right_score` which scores are right, see [`score_scale`], `runs` into how many
    the epochs are divided (as the log says, or one).

    Raises:
        [`InputError`]: The file is not a log, its scores do not say what is right, or, unless
            `allow_missing`, samples lack a verdict or were cut by the server before the length that
            was asked for.
        [`MissingExtraError`]: inspect-ai is not installed.
    """
    log = InspectLog(path)
    spec, about = log.header.eval, log.header.eval.metadata or {}
    marks: dict[str, list[Mark]] = {
        str(id_): [(None, None)] * max(spec.config.epochs or 1, len(epochs))
        for id_, epochs in log.epochs.items()
    }
    scorer = scorer or next(iter(log.scores), "any scorer")
    scale = score_scale(scorer, log.scores.get(scorer, ()), right_score)
    right: dict[str, Problem] = {}
    shares, unread = list[float](), 0
    verdicts, ends = Counter[str](), Counter[str]()
    limit, capped = log.header.plan.config.max_tokens, list[int]()
    for samples in log.problems():
        id_, texts, values = str(samples[0].id), list[str](), list[float]()
        for place, sample in enumerate(samples):
            output = sample.output
            value, score = scores_of(sample).get(scorer, (None, None))
            if sample.error is not None or is_missing(value) or score is None:
                continue
            is_right = scale.is_right(value) is True
            texts += solution_texts(sample.messages, output)[:is_right]
            verdict = (score.metadata or {}).get("verdict")
            answer = _canonical(score.answer, output.completion)
            if is_right:
                unread += answer is None and score.answer is not None
                # Right answers are one candidate, whatever their notation.
                target = sample.target if isinstance(sample.target, str) else sample.target[0]
                answer = answer or target or None
            marks[id_][place] = is_right, answer
            values.append(scale.share(value))
            verdicts[verdict or ("correct" if is_right else "wrong")] += 1
            ends[output.stop_reason if output.choices else "unknown"] += 1
            written = output.usage.output_tokens if output.usage else 0
            if limit and 0 < written < limit and output.stop_reason in REACHED_LIMIT:
                capped.append(written)
        right[id_] = Problem(problem_text(samples[0].input), tuple(texts))
        shares += [float(np.mean(values))] if values else []
    num_right = sum(len(problem.solutions) for problem in right.values())
    if capped and not allow_missing:
        raise InputError(
            f"{len(capped)} samples of {path.name} were cut after at most {max(capped):,} tokens "
            f"where {limit:,} were asked for: that is the server's own cap, by its context or by "
            "max_new_tokens in the model's generation_config.json (vLLM: --generation-config "
            "vllm); --allow-missing counts them"
        )
    grade = f"`inspect score {path} --scorer rpd_metric/math` grades them"
    return Results(
        name=name or about.get("name") or short_name(spec.model),
        benchmark=about.get("benchmark") or spec.task.rpartition("/")[2],
        marks=marks,
        right=right,
        settings=_settings(log, scorer),
        of_problems=int(about.get("of_problems", spec.dataset.samples or len(log.epochs))),
        runs=runs or int(about.get("runs", 1)),
        verdicts=dict(verdicts.most_common()),
        finish_reasons=dict(ends.most_common()),
        capped=capped,
        scale=scale,
        mean_score=mean_interval(shares) if scale.kind == SHARES and shares else None,
        unread=unread if unread > (1 - READ_ANSWERS) * num_right else 0,
        allow_missing=allow_missing,
        advice=f"{log.shortfall}, --allow-missing counts them" if log.shortfall else grade,
    )


def _canonical(answer: str | None, completion: str) -> str | None:
    """The answer that a scorer names, tidied; if it repeats the reply, the one read in that.

    Stock scorers such as `includes` keep the whole reply: as votes, no two would be equal.
    """
    if answer is None:
        return None
    answer = answer.strip()
    if answer.casefold() == completion.strip().casefold():
        # A reply may be nothing but its answer.
        answer = final_answer(completion) or (answer if len(answer.split()) == 1 else "")
    return tidy(answer) or None


def read_solutions(
    path: Path,
    spec: InputSpec | None = None,
    *,
    name: str | None = None,
    correct_column: str | None = None,
    answer_column: str | None = None,
    allow_missing: bool = False,
) -> Results:
    """Read a curated folder or a file of solutions: any input of `rpd curate` on this machine.

    Right is what a column of marks says, or else a reference answer; without any, there are no
    figures. Raises [`InputError`] where two problems are equal, and, unless `allow_missing`, where
    rows cannot be read or marks are missing; [`MissingExtraError`] where a reference takes
    algebra to compare and math-verify is missing.
    """
    name, any_checked, not_checked = name or path.name.partition(".")[0], False, 0
    marks: dict[str, list[Mark]] = {}
    right: dict[str, Problem] = {}
    strategies: dict[str, Sequence[str | None]] = {}
    rejects: list[Rejected] = []
    # An answer that is left open would count as wrong.
    checker = AnswerChecker(algebra_required=True)
    with tempfile.TemporaryDirectory() as scratch, closing(checker):
        for problem in open_source(path, spec, scratch=Path(scratch), on_reject=rejects.append):
            answers = marked_only(problem, correct_column)
            if not answers.by:
                answers = checker.check(problem, correct_column, answer_column)
            any_checked |= bool(answers.by)
            # Beside a reference, a solution without an answer is not right; a mark may be missing.
            of_reference = answers.by == "reference"
            not_checked += answers.marks.count(None) * of_reference
            verdicts = [bool(mark) if of_reference else mark for mark in answers.marks]
            labels = strategy_labels(problem.extra, len(verdicts))
            whole = Problem(problem.problem, problem.solutions, {"strategies": labels})
            key = " ".join(problem.problem.split())
            if key in marks:
                raise InputError(f"{path.name} has two problems of the same text: {key[:80]!r}")
            marks[key] = [(mark, None) for mark in verdicts]
            strategies |= {key: labels} if labels else {}
            right_ones = [n for n, mark in enumerate(verdicts) if mark or not answers.by]
            right[key] = whole.take(right_ones)
    if rejects and not allow_missing:
        raise InputError(
            f"{len(rejects):,} rows or solutions of {path.name} cannot be read, the first at "
            f"{rejects[0].where}: {rejects[0].detail} --allow-missing counts them"
        )
    return Results(
        name=name,
        benchmark=FILES,
        marks=marks if any_checked else {key: [] for key in marks},
        right=right,
        strategies=strategies,
        settings={"scorer": "the marks"},
        of_problems=len(marks),
        missing=len(rejects),
        not_checked=not_checked,
        allow_missing=allow_missing,
        advice="--allow-missing counts the others",
    )


def short_name(model: str) -> str:
    """What a table calls a model: the end of its path, or its name after a server's address."""
    return re.split(r"[/#]", model.rstrip("/"))[-1] or model


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, ... up to a number, and that number."""
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _settings(log: InspectLog, scorer: str) -> dict[str, Any]:
    """What two evaluations must share to be compared: all that decides a sample or its score."""
    plan, spec = log.header.plan, log.header.eval
    options = [of.options or {} for of in spec.scorers or [] if scorer.startswith(of.name)]
    return {
        **plan.config.model_dump(exclude=_NEUTRAL, exclude_none=True),
        "solver": [{step.solver: step.params} for step in plan.steps],
        "scorer": scorer,
        "grader": [{k: v for k, v in grader.items() if k not in _NEUTRAL} for grader in options],
        "thinking": spec.model_args.get("thinking", True),
    }
