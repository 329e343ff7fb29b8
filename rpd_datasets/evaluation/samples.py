"""Samples on disk: one JSON line each, complete or refused.

    {"problem_id": "60", "run": 0, "sample": 3, "seed": 3, "text": "...", "finish_reason": "stop",
     "tokens": 812}

The file is what passes between the stages and can be read, or made, by other tools: a harness
of one's own may write it and have it graded here. A model is never scored on fewer samples than
its configuration asks for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.benchmarks import Task
from rpd_datasets.evaluation.passk_config import SEEDS_PER_RUN, EvaluationConfig
from rpd_metric.errors import InputError, OutputError

SAMPLES = "samples.jsonl"

Key = tuple[str, int, int]


@dataclass(frozen=True)
class Sample:
    """One sampled solution.

    Args:
        problem_id (`str`): Of its [`~rpd_datasets.evaluation.benchmarks.Task`].
        run, sample (`int`): From 0; samples within the run.
        seed (`int`, *optional*): What the model was given.
        finish_reason (`str`, *optional*): `"stop"`, or `"length"` when the limit cut it.
        tokens (`int`, *optional*): New tokens, as the model counted them.
    """

    problem_id: str
    run: int
    sample: int
    seed: int | None
    text: str
    finish_reason: str | None = None
    tokens: int | None = None

    @property
    def key(self) -> Key:
        """Which sample of the evaluation it is."""
        return self.problem_id, self.run, self.sample


def expected_keys(tasks: Sequence[Task], config: EvaluationConfig) -> list[Key]:
    """Every sample that a configuration asks for, run by run.

    All problems come before the next sample number: a run that is cut short has as many samples
    of each.
    """
    return [
        (task.id, run, sample)
        for run in range(config.runs)
        for sample in range(config.samples)
        for task in tasks
    ]


def seed_of(key: Key, config: EvaluationConfig) -> int:
    """The seed of a sample: its own within its problem, so that no two requests are the same."""
    _, run, sample = key
    return config.seed + SEEDS_PER_RUN * run + sample


def read_samples(path: Path) -> dict[Key, Sample]:
    """Read a file of samples; none when there is no such file.

    A last line that breaks off is left out: the writer was stopped in the middle of it.

    Raises:
        [`InputError`]: A line is not a sample, or two lines hold the same one.
    """
    samples: dict[Key, Sample] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    sample = _sample(line, f"{path}:{number}")
                except InputError:
                    if line.endswith("\n"):
                        raise
                    break
                if sample.key in samples:
                    raise InputError(
                        f"{path}:{number} repeats sample {sample.key}; keep one of the two"
                    )
                samples[sample.key] = sample
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return samples


def complete(
    samples: dict[Key, Sample], tasks: Sequence[Task], config: EvaluationConfig, *, advice: str
) -> list[Sample]:
    """The samples that a configuration asks for, in order.

    Raises:
        [`InputError`]: One is missing, which is not counted as wrong; `advice` says what to do.
    """
    keys = expected_keys(tasks, config)
    missing = [key for key in keys if key not in samples]
    if missing:
        problem, run, sample = missing[0]
        raise InputError(
            f"{len(missing)} of {len(keys)} samples are missing, the first of them problem "
            f"{problem}, run {run}, sample {sample}; a missing sample is not a wrong one: " + advice
        )
    return [samples[key] for key in keys]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines, as [`write_text`] does."""
    write_text(path, map(json_line, rows))


def json_line(row: dict[str, Any]) -> str:
    """One row as it stands in the files; ASCII, which carries half a surrogate pair too."""
    return json.dumps(row) + "\n"


def write_text(path: Path, parts: str | Iterable[str]) -> None:
    """Write a text file; it appears under its name only when it is complete.

    Raises:
        [`OutputError`]: It cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.writelines([parts] if isinstance(parts, str) else parts)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _sample(line: str, where: str) -> Sample:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from error
    names = {field.name for field in fields(Sample)}
    known = isinstance(row, dict) and {"problem_id", "run", "sample", "text"} <= set(row)
    if not known or not isinstance(row["text"], str):
        raise InputError(f"{where} needs problem_id, run, sample and text")
    sample = Sample(**{"seed": None, **{name: row[name] for name in names & set(row)}})
    if not (isinstance(sample.run, int) and isinstance(sample.sample, int)):
        raise InputError(f"{where}: run and sample are numbers from 0")
    return sample
