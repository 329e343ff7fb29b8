"""Logs of Inspect, `.eval` and `.json`: a sample of the log is a problem, its epochs its solutions.

    LOG -> {"problem", "solutions", "stop_reason", "correct", "correct_SCORER", ..., "answer", "id"}

Agents' samples also have `trajectories`, the messages of each solution with the tools.
`correct` holds the marks of the log's first scorer, `correct_NAME` those of the scorer NAME, or
`correct_NAME_KEY` for scorers with several values; `score_NAME` has scores on an unknown scale
(`rpd_metric/grading/score_scales.py`). `datasets` reads such logs, too, but neither samples whose
id is a name nor a column that the first five samples lack.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import BadZipFile, is_zipfile

from rpd_datasets.inputs.harness import with_marks
from rpd_datasets.messages import (
    TRAJECTORIES,
    Message,
    Trajectory,
    as_json,
    make_trajectory,
    messages_of,
    solution_text,
)
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError, first_line, needs_extra
from rpd_metric.grading.score_scales import ScoreScale, score_scales
from rpd_metric.metrics.inspect_text import problem_text, solution_texts
from rpd_metric.reasons import Reason

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalSampleSummary
    from inspect_ai.model import ChatMessage
    from inspect_ai.scorer import Score

# What a log holds beside the texts, often most of its size; and beside the tools.
_NOT_READ = {"events", "store", "attachments"}
_NOT_TOOLS = {"messages", "output", "store", "scores", "metadata"}
# How a log in JSON begins.
JSON_LOG = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
_STATUS = {
    "success": "lacks samples",
    "started": "was not finished",
    "cancelled": "was cancelled",
    "error": "failed",
}

Result = TypeVar("Result")


class InspectLog:
    """One log: its header, what is wrong with it, and its samples problem by problem.

    Raises:
        [`MissingExtraError`]: inspect-ai is not installed.
        [`InputError`]: The file is not a log, or has no samples.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with needs_extra("reading an Inspect log", "inspect"):
            from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
        self._zipped = is_zipfile(path)
        read = partial(read_eval_log, str(path), header_only=self._zipped)
        self.header: EvalLog = self._read(read)
        samples: Sequence[EvalSample | EvalSampleSummary] = self.header.samples or []
        if self._zipped:
            samples = self._read(partial(read_eval_log_sample_summaries, str(path)))
        if not samples:
            raise InputError(f"{path} is an Inspect log without samples; run the evaluation")
        # A log holds its samples in the order in which they ended.
        self.epochs: dict[int | str, list[int]] = {
            id_: [] for id_ in self.header.eval.dataset.sample_ids or ()
        }
        # By scorer, the scores of all samples, which tell their scale.
        self.scores: dict[str, list[Any]] = defaultdict(list)
        for sample in sorted(samples, key=lambda sample: sample.epoch):
            self.epochs.setdefault(sample.id, []).append(sample.epoch)
            for name, (value, _) in scores_of(sample).items():
                self.scores[name].append(value)
        self.num_finished = sum(not sample.error for sample in samples)

    @property
    def shortfall(self) -> str | None:
        """Why a log is not all of its evaluation, in one sentence; `None` where it is."""
        header = self.header
        expected = (header.eval.config.epochs or 1) * len(self.epochs)
        if header.status == "success" and self.num_finished == expected:
            return None
        why = f" ({first_line(Exception(header.error.message))})" if header.error else ""
        return (
            f"The log {self.path.name} {_STATUS[header.status]}{why}: {self.num_finished} of "
            f"{expected} samples are finished. `inspect eval-retry {self.path}` continues it"
        )

    def problems(self) -> Iterator[list[EvalSample]]:
        """The epochs of each problem, in order."""
        from inspect_ai.log import read_eval_log_sample

        # A log in JSON has been read whole.
        held = {(sample.id, sample.epoch): sample for sample in self.header.samples or ()}
        for name, numbers in self.epochs.items():
            read = partial(read_eval_log_sample, str(self.path), name, exclude_fields=_NOT_READ)
            if self._zipped and numbers:
                yield self._read(partial(list, map(read, numbers)))
            elif numbers:
                yield [held[name, number] for number in numbers]

    def tools(self, sample: EvalSample) -> list[dict[str, Any]]:
        """The tools of a sample's first request that has some, as JSON schemas."""
        from inspect_ai.log import read_eval_log_sample, resolve_sample_attachments

        if self._zipped:
            read = partial(read_eval_log_sample, str(self.path), sample.id, sample.epoch)
            options: dict[str, Any] = {"exclude_fields": _NOT_TOOLS, "resolve_attachments": True}
            sample = self._read(partial(read, **options))
        else:
            sample = resolve_sample_attachments(sample, "full")
        listed = (getattr(event, "tools", None) for event in sample.events)
        return [
            {
                "type": "function",
                "function": tool.model_dump(
                    mode="json", exclude_none=True, include={"name", "description", "parameters"}
                ),
            }
            for tool in next(filter(None, listed), [])
        ]

    def _read(self, read: Callable[[], Result]) -> Result:
        # Inspect's readers would change a running event loop, so they run where there is none.
        with ThreadPoolExecutor(max_workers=1) as thread:
            try:
                return thread.submit(read).result()
            except (BadZipFile, ValueError, KeyError, IndexError, FileNotFoundError) as error:
                raise InputError(
                    f"{self.path} is not a readable Inspect log: {first_line(error)}"
                ) from error


def read_inspect_log(
    path: Path, right_score: str | None = None
) -> Iterator[dict[str, Any] | Rejected]:
    """The samples of an Inspect log as rows; failed epochs and unfinished logs are rejected."""
    log = InspectLog(path)
    scales = score_scales(log.scores, right_score)
    if log.shortfall:
        yield Rejected("read", Reason.UNFINISHED_LOG, path.name, f"{log.shortfall}.")
    for samples in log.problems():
        yield from _row(log, samples, scales)


def scores_of(sample: EvalSample | EvalSampleSummary) -> dict[str, tuple[Any, Score]]:
    """The values of a sample's scores by scorer (`SCORER_KEY` for several), with their scores."""
    return {
        f"{name}_{key}" if key else name: (value, score)
        for name, score in (sample.scores or {}).items()
        for key, value in _values(score)
    }


def _values(score: Score) -> Iterable[tuple[str, Any]]:
    return score.value.items() if isinstance(score.value, dict) else [("", score.value)]


def _row(
    log: InspectLog, samples: list[EvalSample], scales: Mapping[str, ScoreScale | None]
) -> Iterator[dict[str, Any] | Rejected]:
    """One problem's row, after its failed epochs."""
    solutions: list[str] = []
    scored: list[Mapping[str, tuple[Any, Score]]] = []
    ends: list[str | None] = []
    rows: list[Trajectory | None] = []
    for sample in samples:
        if sample.error is not None:
            where = f"{log.path.name}:{sample.id}:epoch {sample.epoch}"
            message = sample.error.message.strip().rpartition("\n")[2] or "no message"
            detail = f"It failed in Inspect: {message[:200]}"
            yield Rejected("read", Reason.FAILED_EPOCH, where, detail)
            continue
        texts = solution_texts(sample.messages, sample.output)
        whole = _trajectories(sample, len(texts))
        solutions += [
            text if row is None else solution_text(row["completion"])
            for row, text in zip(whole, texts, strict=True)
        ]
        rows += whole
        stops = [choice.stop_reason for choice in sample.output.choices]
        ends += [*stops, *(None for _ in texts)][: len(texts)]
        # A score is of the first choice.
        scored += [scores_of(sample), *({} for _ in texts[1:])]
    if not solutions:
        return
    names = dict.fromkeys(name for scores in scored for name in scores)
    values = {name: [scores.get(name, (None,))[0] for scores in scored] for name in names}
    row: dict[str, Any] = {
        "problem": problem_text(samples[0].input),
        "solutions": solutions,
        "stop_reason": ends,
    }
    if any(rows):
        schemas = log.tools(samples[0])
        tools = {"tools": schemas} if schemas else {}
        row[TRAJECTORIES] = [whole and as_json(whole | tools) for whole in rows]
    target = samples[0].target
    answer = target if isinstance(target, str) else ", ".join(target)
    yield with_marks(row, values, scales) | {"answer": answer, "id": str(samples[0].id)}


def _trajectories(sample: EvalSample, number: int) -> list[Trajectory | None]:
    """The messages of each choice of an agent's sample; none of a single answer."""
    turns = sample.messages
    own = [at for at, turn in enumerate(turns) if turn.role == "assistant"]
    own = [at for at in own if turns[at].source == "generate"]
    if len(own) < 2 and not any(getattr(turns[at], "tool_calls", None) for at in own):
        return [None] * number
    choices: list[ChatMessage] = [choice.message for choice in sample.output.choices]
    before, done = _messages(turns[: own[0]]), _messages(turns[own[0] : own[-1]])
    ends = (choices or [turns[own[-1]]])[:number]
    return [make_trajectory(before, done + _messages([end])) for end in ends]


def _messages(turns: Sequence[ChatMessage]) -> list[Message]:
    """Inspect's messages in TRL's form; of a tool that failed, its error."""
    messages = []
    for turn in turns:
        values = turn.model_dump(mode="json", exclude_none=True)
        if turn.role == "tool":
            values["name"] = turn.function
            if turn.error and not turn.text:
                values["content"] = turn.error.message
        messages += messages_of(values)
    return messages
