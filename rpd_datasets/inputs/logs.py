"""Logs of evaluations as rows: a sample of the log is a problem, its epochs are its solutions.

    LOG.eval (Inspect) -> {"problem", "solutions", "correct", "correct_SCORER", ..., "answer", "id"}

Whoever has run an evaluation with epochs has several solutions of each problem and knows which
are right. `correct` holds the marks of the log's first scorer, `correct_NAME` those of the scorer
of that name: choose one with the option for the column of marks (`--correct-column`). A mark is
true for a score of 1 (Inspect's "C", "yes", True), false for less, null for none. An epoch that
failed in Inspect is left out with its error.

Memory holds the epochs of one sample. Needs inspect-ai (the extra `inspect`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

# What a log holds beside the texts, often most of its size.
_NOT_READ = {"events", "store", "attachments"}


def read_inspect_log(path: Path) -> Iterator[dict[str, Any] | Rejected]:
    """The samples of an Inspect log as rows, with a [`Rejected`] for every epoch that failed.

    Args:
        path (`Path`): A log in the format `.eval`.

    Raises:
        [`MissingExtraError`]: inspect-ai is not installed.
        [`InputError`]: The file is no log, or holds no samples.
    """
    try:
        from inspect_ai.log import read_eval_log_sample, read_eval_log_sample_summaries
    except ImportError as error:
        raise MissingExtraError(
            "reading an Inspect log", extra="inspect", module=error.name or "inspect_ai"
        ) from error
    if not is_zipfile(path):
        raise InputError(f"{path} is no Inspect log: such a file is a ZIP archive")
    # Inspect's readers would change a running event loop, so they run where there is none.
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            found = thread.submit(read_eval_log_sample_summaries, path).result()
            epochs: dict[int | str, list[int]] = {}
            for summary in found:
                epochs.setdefault(summary.id, []).append(summary.epoch)
            if not epochs:
                raise InputError(f"{path} is an Inspect log without samples; run the evaluation")
            for name, numbers in epochs.items():
                samples = [
                    thread.submit(
                        read_eval_log_sample, path, name, epoch, exclude_fields=_NOT_READ
                    ).result()
                    for epoch in sorted(numbers)
                ]
                yield from _row(path, samples)
        except (BadZipFile, ValueError, KeyError, IndexError) as error:
            raise InputError(f"{path} is no Inspect log that can be read: {error}") from error


def _row(path: Path, samples: list[EvalSample]) -> Iterator[dict[str, Any] | Rejected]:
    """One problem's row, after its failed epochs."""
    kept = []
    for sample in samples:
        if sample.error is None:
            kept.append(sample)
            continue
        lines = sample.error.message.strip().splitlines() or ["no message"]
        where = f"{path.name}:{sample.id}:epoch {sample.epoch}"
        yield Rejected("read", "failed_epoch", where, f"It failed in Inspect: {lines[-1][:200]}")
    if not kept:
        return
    first = kept[0]
    scorers = list(dict.fromkeys(name for sample in kept for name in sample.scores or {}))
    marks = {f"correct_{name}": [_mark(sample, name) for sample in kept] for name in scorers}
    if scorers:
        marks = {"correct": marks[f"correct_{scorers[0]}"], **marks}
    target = first.target
    yield {
        "problem": _asked(first),
        "solutions": [sample.output.completion for sample in kept],
        **marks,
        "answer": target if isinstance(target, str) else ", ".join(target),
        "id": str(first.id),
    }


def _asked(sample: EvalSample) -> str:
    """What the model was asked: the text of the user's messages."""
    if isinstance(sample.input, str):
        return sample.input
    return "\n\n".join(message.text for message in sample.input if message.role == "user")


def _mark(sample: EvalSample, scorer: str) -> bool | None:
    from inspect_ai.scorer import value_to_float

    score = (sample.scores or {}).get(scorer)
    if score is None or isinstance(score.value, list | dict):
        return None
    number = float(value_to_float()(score.value))
    return None if number != number else number >= 1
