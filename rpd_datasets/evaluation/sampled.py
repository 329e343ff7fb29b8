"""What models wrote to the same problems, read from a log of Inspect or any other file.

Of a log, its scorer says what is right. Of other inputs (rows, samples of a harness, curated sets)
it is a column of marks, or a reference answer; without either all solutions are compared.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.results import Results, find_logs, read_results, results_of
from rpd_datasets.filters.answer_checks import AnswerChecker, marked_only
from rpd_datasets.inputs.inspect_rows import JSON_LOG
from rpd_datasets.inputs.source import InputSpec, open_source
from rpd_datasets.problem import Problem, strategy_labels
from rpd_metric.errors import InputError

# What tables call the problems of files.
FILES = "the files"


@dataclass(frozen=True)
class Sampled:
    """A model's results, and its right solutions by the names of problems in them."""

    results: Results
    right: Mapping[str, Problem]
    texts: Mapping[str, str]  # of all problems


def read_sampled(
    place: str,
    spec: InputSpec | None = None,
    *,
    scorer: str | None = None,
    allow_missing: bool = False,
    correct_column: str | None = None,
    most: int = 32,
    seed: int = 0,
) -> list[Sampled]:
    """Read a log, a folder of logs (one each benchmark), or any input of `rpd curate`.

    Args:
        place (`str`): A path, or NAME=PATH, where NAME is what tables call the model.
        spec ([`InputSpec`], *optional*): How an input that is no log is read.
        scorer, allow_missing: See [`read_results`].
        correct_column (`str`, *optional*): The marks of such an input.
        most, seed (`int`): Of more right solutions to a problem, so many are drawn.
    """
    name, _, rest = place.rpartition("=")
    path = Path(rest)
    if not path.exists():
        raise InputError(f"there is no {path}: name logs, curated folders or files of solutions")
    draw = Draw(most, seed)
    if logs := _logs(path):
        return [_of_log(log, name, scorer, allow_missing, draw) for log in logs]
    return [_of_rows(path, name, spec, allow_missing, correct_column, draw)]


@dataclass(frozen=True)
class Draw:
    """At most so many places, drawn anew for each model and problem."""

    most: int
    seed: int

    def __call__(self, count: int, *where: str) -> list[int]:
        """Places below `count`, in order."""
        draw = random.Random(":".join([str(self.seed), *where]))
        return sorted(draw.sample(range(count), min(count, self.most)))


def _of_log(log: Path, name: str, scorer: str | None, allow_missing: bool, draw: Draw) -> Sampled:
    right: dict[str, list[str]] = {}
    texts: dict[str, str] = {}

    def keep(id_: str, text: str, solution: str, is_right: bool) -> None:
        texts[id_] = text
        right.setdefault(id_, []).extend([solution] * is_right)

    options: dict[str, Any] = {"scorer": scorer, "allow_missing": allow_missing}
    results = read_results(log, name=name or None, on_sample=keep, **options)
    kept = {
        id_: Problem(texts[id_], tuple(solutions)).take(draw(len(solutions), results.name, id_))
        for id_, solutions in right.items()
        if solutions
    }
    return Sampled(results, kept, texts)


def on_same_problems(models: Sequence[Sampled], *, common: bool = False) -> list[Sampled]:
    """The models with one name for each problem: its text, unless all are logs.

    Args:
        models (`Sequence`): Of one benchmark or several.
        common (`bool`): Leave out the problems that not all models of a benchmark have.
    """
    if any(one.results.benchmark == FILES for one in models):
        models = [_by_text(one) for one in models]
    if not common:
        return list(models)
    shared: dict[str, set[str]] = {}
    for one in models:
        mine = set(one.results.problems)
        shared[one.results.title] = shared.get(one.results.title, mine) & mine
    return [
        replace(one, results=one.results.among(shared[one.results.title]))
        for one in models
        if shared[one.results.title]
    ]


def _by_text(one: Sampled) -> Sampled:
    names = {id_: " ".join(text.split()) for id_, text in one.texts.items()}
    if len(set(names.values())) < len(names):
        raise InputError(
            f"{one.results.name} has problems of one text, which a file cannot tell apart; compare "
            "logs with logs"
        )
    problems = [names[id_] for id_ in one.results.problems]
    results = replace(one.results, problems=problems, benchmark=FILES, settings={})
    return Sampled(results, {names[id_]: p for id_, p in one.right.items()}, names)


def _of_rows(
    path: Path,
    name: str,
    spec: InputSpec | None,
    allow_missing: bool,
    correct_column: str | None,
    draw: Draw,
) -> Sampled:
    name = name or path.name.partition(".")[0]
    marks: dict[str, list[bool | None]] = {}
    right: dict[str, Problem] = {}
    checker = AnswerChecker()
    with tempfile.TemporaryDirectory() as scratch:
        for problem in open_source(path, spec, scratch=Path(scratch), on_reject=lambda _: None):
            key = " ".join(problem.problem.split())
            found = marked_only(problem, correct_column)
            if not found.by:
                found = checker.check(problem, correct_column)
            # Beside a reference, a solution without an answer is not right; a mark may be missing.
            given = [bool(mark) if found.by == "reference" else mark for mark in found.marks]
            marks[key] = given
            places = [n for n, mark in enumerate(given) if mark or not found.by]
            if places:
                drawn = [places[n] for n in draw(len(places), name, key)]
                texts = tuple(problem.solutions[n] for n in drawn)
                labels = strategy_labels(problem.extra, len(given))
                extra = {"strategies": [labels[n] for n in drawn]} if labels else {}
                right[key] = Problem(problem.problem, texts, extra)
    checker.close()
    results = results_of(name, FILES, marks, allow_missing=allow_missing)
    return Sampled(results, right, {key: key for key in marks})


def _logs(path: Path) -> list[Path]:
    """The logs of Inspect that a path names; none where it names something else."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    if not any(map(_is_log, files)):
        return []
    return find_logs(path)


def _is_log(path: Path) -> bool:
    if path.suffix == ".json" and path.is_file():
        with path.open("rb") as file:
            return JSON_LOG.match(file.read(200)) is not None
    return path.suffix == ".eval"
