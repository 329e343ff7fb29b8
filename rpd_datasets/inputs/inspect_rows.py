"""Inspect logs as rows: a sample of the log is a problem, its epochs are its solutions.

    LOG.eval -> {"problem", "solutions", "correct", "correct_SCORER", ..., "answer", "id"}

`correct` holds the marks of the log's first scorer, `correct_NAME` those of the scorer NAME. A mark
is true for a score of 1 (Inspect's "C", "yes", True), false for less, null for none. Memory holds
the epochs of one sample. `datasets` reads such logs, too, but neither samples whose id is a name
nor a column that the first five samples lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile

from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError, MissingExtraError
from rpd_metric.reasons import Reason

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

# What a log holds beside the texts, often most of its size.
_NOT_READ = {"events", "store", "attachments"}


def read_inspect_log(path: Path) -> Iterator[dict[str, Any] | Rejected]:
    """The samples of an Inspect log as rows, with a [`Rejected`] for every epoch that failed.

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
            epochs: dict[int | str, list[int]] = {}
            for summary in thread.submit(read_eval_log_sample_summaries, path).result():
                epochs.setdefault(summary.id, []).append(summary.epoch)
            if not epochs:
                raise InputError(f"{path} is an Inspect log without samples; run the evaluation")
            for name, numbers in epochs.items():
                read = partial(read_eval_log_sample, path, name, exclude_fields=_NOT_READ)
                yield from _row(path, list(thread.map(read, sorted(numbers))))
        except (BadZipFile, ValueError, KeyError, IndexError) as error:
            raise InputError(f"{path} is no Inspect log that can be read: {error}") from error


def _row(path: Path, samples: list[EvalSample]) -> Iterator[dict[str, Any] | Rejected]:
    """One problem's row, after its failed epochs."""
    for sample in samples:
        if sample.error is not None:
            lines = sample.error.message.strip().splitlines() or ["no message"]
            where = f"{path.name}:{sample.id}:epoch {sample.epoch}"
            detail = f"It failed in Inspect: {lines[-1][:200]}"
            yield Rejected("read", Reason.FAILED_EPOCH, where, detail)
    kept = [sample for sample in samples if sample.error is None]
    if not kept:
        return
    scorers = list(dict.fromkeys(name for sample in kept for name in sample.scores or {}))
    marks = {f"correct_{name}": [_mark(sample, name) for sample in kept] for name in scorers}
    if scorers:
        marks = {"correct": marks[f"correct_{scorers[0]}"], **marks}
    asked, target = kept[0].input, kept[0].target
    if not isinstance(asked, str):
        asked = "\n\n".join(message.text for message in asked if message.role == "user")
    yield {
        "problem": asked,
        "solutions": [sample.output.completion for sample in kept],
        **marks,
        "answer": target if isinstance(target, str) else ", ".join(target),
        "id": str(kept[0].id),
    }


def _mark(sample: EvalSample, scorer: str) -> bool | None:
    from inspect_ai.scorer import value_to_float

    score = (sample.scores or {}).get(scorer)
    if score is None or isinstance(score.value, list | dict):
        return None
    number = float(value_to_float()(score.value))
    return None if number != number else number >= 1
