"""From an input to a curated folder: resumable, atomic, in bounded memory.

A run scores every problem once (journalled as it goes), ranks the scores, reads the input a
second time for the chosen problems only, and writes them beside a card, a manifest, all scores
and the rejects. Everything is built in `<output>.partial` and moved into place at the end, so
that `<output>` is either complete or not there; an interrupted run goes on when it is started
again. What happens to one problem is `curate.py`; the card's words are `card.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rpd_datasets.curate import (
    CurationConfig,
    Models,
    Scored,
    choose,
    score_problem,
    scoring_fingerprint,
    sft_messages,
)
from rpd_datasets.journal import Journal
from rpd_datasets.problem import Problem
from rpd_datasets.rejects import Rejected
from rpd_datasets.select import rank
from rpd_datasets.sources import Source
from rpd_datasets.tables import ColumnTypes, ShardWriter
from rpd_metric.bounded import run_bounded
from rpd_metric.distance import mean_pairwise
from rpd_metric.errors import InputError, OutputError

MAX_IN_FLIGHT = 32
SFT_CONFIG = "sft"

OpenSource = Callable[[Path, Callable[[Rejected], None]], Source]


@dataclass(frozen=True)
class ProblemScore:
    """One line of `scores.jsonl`: what is remembered of every problem, chosen or not."""

    key: str
    where: str
    rpd_score: float | None
    mean_rpd: float | None
    num_solutions: int
    num_usable: int
    mean_tokens: float


@dataclass(frozen=True)
class TableInfo:
    """What the card says of one configuration of the dataset."""

    schema: Any
    num_rows: int
    num_bytes: int


@dataclass
class Report:
    """What a run did; the card and the manifest are made from it.

    Args:
        input_name, input_layout, input_fingerprint (`str`): The input.
        rows_read (`int`): Rows of the input.
        drops (`Counter`): Left out, by `(stage, reason, "problem" | "solution")`.
        scores (`list[ProblemScore]`): In the order of the input.
        chosen (`list[int]`): Indices into `scores`, best first.
        num_selected (`int`): Solutions chosen, over all chosen problems.
        selected_tokens (`list[int]`): Length of each of them.
        json_columns (`list[str]`): Carried columns stored as JSON text for want of one type.
        tables (`dict`): Per configuration of the dataset what was written: its Arrow schema, its
            rows, and their size in memory.
    """

    input_name: str = ""
    input_layout: str = ""
    input_fingerprint: str = ""
    rows_read: int = 0
    drops: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    scores: list[ProblemScore] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    num_selected: int = 0
    selected_tokens: list[int] = field(default_factory=list)
    json_columns: list[str] = field(default_factory=list)
    tables: dict[str, TableInfo] = field(default_factory=dict)


def curate_folder(
    open_source: OpenSource,
    output: Path,
    config: CurationConfig,
    models: Models,
    *,
    describe: Callable[[Report], dict[str, str]],
    overwrite: bool = False,
    max_in_flight: int = MAX_IN_FLIGHT,
    on_problem: Callable[[Scored], None] = lambda _: None,
    on_chosen: Callable[[Problem, Scored, list[int]], None] = lambda *_: None,
) -> Report:
    """Curate an input into a folder that `load_dataset` reads.

    Args:
        open_source (`Callable`): Opens the input, given a scratch folder and where rejects go.
        output (`Path`): The folder to make.
        config ([`CurationConfig`]): The options.
        models ([`Models`]): What the options name, loaded.
        describe (`Callable`): Makes the text files (card, manifest) from the report: name to text.
        overwrite (`bool`): Replace an existing output, at the very end.
        max_in_flight (`int`): Problems worked on at once.
        on_problem (`Callable`): Called after each problem, for progress bars.
        on_chosen (`Callable`): Called for each chosen problem, best first, with its solutions'
            chosen indices.

    Returns:
        [`Report`]

    Raises:
        [`OutputError`]: The output exists, cannot be written, or another run is at it.
        [`InputError`]: The input cannot be read, or nothing in it can be chosen.
    """
    with _partial(output, overwrite) as partial, ExitStack() as stack:
        journal = stack.enter_context(closing(Journal(partial / "journal.sqlite")))
        result = partial / "result"
        if result.exists():
            shutil.rmtree(result)  # half of an earlier attempt: it is cheap to write again
        result.mkdir()
        rejects_file = stack.enter_context(
            (result / "rejects.jsonl").open("w", encoding="utf-8", newline="\n")
        )
        report = Report()

        def reject(rejected: Rejected) -> None:
            kind = "problem" if rejected.solution_index is None else "solution"
            report.drops[rejected.stage, rejected.reason, kind] += 1
            # ensure_ascii: a reject may be the very text that is no valid Unicode.
            rejects_file.write(json.dumps(rejected.as_row()) + "\n")

        source = open_source(partial / "scratch", reject)
        fingerprint = scoring_fingerprint(config, models)
        keys = asyncio.run(
            _score_all(
                source,
                config,
                models,
                journal,
                fingerprint,
                report,
                reject,
                max_in_flight,
                on_problem,
            )
        )
        report.input_name, report.input_layout = source.name, source.layout
        report.input_fingerprint, report.rows_read = source.fingerprint(), source.rows_read
        eligible = []
        for index, score in enumerate(report.scores):
            if score.rpd_score is not None and score.num_usable >= config.num_solutions:
                eligible.append(index)
        if not eligible:
            reasons = ", ".join(
                f"{reason} ({n})" for (_, reason, _), n in report.drops.most_common(5)
            )
            raise InputError(
                f"no problem of {source.name} has {config.num_solutions} usable solutions to "
                f"choose from; left out: {reasons or 'nothing'}. Lower num_solutions or loosen "
                "the filters"
            )
        order = rank([report.scores[index].rpd_score for index in eligible])
        report.chosen = [eligible[index] for index in order[: config.num_problems]]
        rank_of = {keys[index]: place for place, index in enumerate(report.chosen)}
        with closing(_Spill(partial / "chosen.sqlite")) as spill:
            for problem in source:
                place = rank_of.pop(_journal_key(problem, fingerprint), None)
                if place is not None:
                    spill.put(place, problem)
                if not rank_of:
                    break
            if rank_of:
                raise InputError(f"{source.name} changed while it was read; run the command again")
            _write_rows(spill, journal, keys, config, report, result, on_chosen)
        _write_scores(report, result)
        rejects_file.close()
        for name, text in describe(report).items():
            (result / name).write_text(text, encoding="utf-8", newline="\n")
        stack.close()
        _move_into_place(result, output, partial)
    return report


async def _score_all(
    source: Source,
    config: CurationConfig,
    models: Models,
    journal: Journal,
    fingerprint: str,
    report: Report,
    reject: Callable[[Rejected], None],
    max_in_flight: int,
    on_problem: Callable[[Scored], None],
) -> list[str]:
    """Score every problem, in the order of the input; returns their journal keys."""

    async def work(problem: Problem) -> tuple[Problem, str, Scored]:
        key = _journal_key(problem, fingerprint)
        record = journal.get(key)
        # What a server failed to do in an earlier run it may do now.
        if record is not None and "model_error" not in record["drop_reasons"]:
            return problem, key, Scored.from_record(record)
        scored = await score_problem(problem, config, models)
        journal.put(key, scored.as_record())
        return problem, key, scored

    keys = []
    async with aclosing(run_bounded(source, work, max_in_flight=max_in_flight)) as results:
        async for problem, key, scored in results:
            keys.append(key)
            for rejected in scored.rejects:
                reject(rejected)
            matrix = [
                [float("nan") if value is None else value for value in row] for row in scored.matrix
            ]
            report.scores.append(
                ProblemScore(
                    key=problem.key,
                    where=problem.where,
                    rpd_score=scored.score,
                    mean_rpd=mean_pairwise(matrix),
                    num_solutions=len(problem.solutions),
                    num_usable=len(scored.usable),
                    mean_tokens=sum(scored.num_tokens) / len(scored.num_tokens),
                )
            )
            on_problem(scored)
    return keys


def _journal_key(problem: Problem, fingerprint: str) -> str:
    return f"{problem.key}:{fingerprint}"


def _write_rows(
    spill: _Spill,
    journal: Journal,
    keys: list[str],
    config: CurationConfig,
    report: Report,
    result: Path,
    on_chosen: Callable[[Problem, Scored, list[int]], None],
) -> None:
    """Write the chosen problems best first, and the training rows made from them."""

    def chosen() -> Iterator[tuple[Problem, Scored]]:
        for place, index in enumerate(report.chosen):
            record = journal.get(keys[index])
            assert record is not None, "a chosen problem was scored in this very run"
            yield spill.get(place), Scored.from_record(record)

    def rows() -> Iterator[dict[str, Any]]:
        for problem, scored in chosen():
            yield {
                **problem.extra,
                "problem": problem.problem,
                "solutions": list(problem.solutions),
                "steps": scored.steps,
                "rpd_matrix": scored.matrix,
                "rpd_score": scored.score,
                "selected": choose(problem, scored, config),
                "drop_reasons": scored.drop_reasons,
                "num_tokens": scored.num_tokens,
            }

    types = ColumnTypes.of(rows())
    report.json_columns = types.json_columns
    with (
        ShardWriter(result / "data", types) as curated,
        ShardWriter(result / SFT_CONFIG, ColumnTypes.sft()) as sft,
    ):
        for row in rows():
            curated.write(row)
            report.num_selected += len(row["selected"])
            for index in row["selected"]:
                report.selected_tokens.append(row["num_tokens"][index])
                prompt, completion = sft_messages(row["problem"], row["solutions"][index])
                sft.write({"prompt": prompt, "completion": completion})
    report.tables = {
        "default": TableInfo(curated.schema, len(report.chosen), curated.num_bytes),
        SFT_CONFIG: TableInfo(sft.schema, report.num_selected, sft.num_bytes),
    }
    for problem, scored in chosen():
        on_chosen(problem, scored, choose(problem, scored, config))


def _write_scores(report: Report, result: Path) -> None:
    place = {index: place for place, index in enumerate(report.chosen)}
    with (result / "scores.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for index, score in enumerate(report.scores):
            file.write(json.dumps({**asdict(score), "rank": place.get(index)}) + "\n")


class _Spill:
    """The chosen problems on disk, by rank: the input gives them in another order.

    Pickled, because carried columns may hold dates, bytes and decimals; the file is this run's
    own and goes with it.
    """

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("CREATE TABLE chosen (place INTEGER PRIMARY KEY, problem BLOB)")

    def put(self, place: int, problem: Problem) -> None:
        self._db.execute("INSERT INTO chosen VALUES (?, ?)", (place, pickle.dumps(problem)))

    def get(self, place: int) -> Problem:
        row = self._db.execute("SELECT problem FROM chosen WHERE place = ?", (place,)).fetchone()
        problem: Problem = pickle.loads(row[0])
        return problem

    def close(self) -> None:
        self._db.close()


@contextmanager
def _partial(output: Path, overwrite: bool) -> Iterator[Path]:
    """The folder a run works in, locked against a second run to the same output."""
    from filelock import FileLock, Timeout

    if output.exists() and not overwrite:
        if not output.is_dir():
            raise OutputError(f"{output} is a file; choose another output folder")
        if any(output.iterdir()):
            raise OutputError(
                f"{output} exists and is not empty; choose another output folder, or pass "
                "--overwrite to replace it"
            )
    partial = output.with_name(output.name + ".partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = FileLock(partial / "lock", timeout=0)
        with lock:
            yield partial
        shutil.rmtree(partial, ignore_errors=True)
    except Timeout:
        raise OutputError(f"another run is writing to {output}; wait for it or stop it") from None
    except PermissionError as error:
        raise OutputError(f"cannot write {error.filename}: permission denied") from error
    except sqlite3.OperationalError as error:
        raise OutputError(f"cannot write under {partial}: {error}") from error
    except OSError as error:
        if isinstance(error, OutputError) or error.errno is None:
            raise
        raise OutputError(f"cannot write {error.filename or output}: {error.strerror}") from error


def _move_into_place(result: Path, output: Path, partial: Path) -> None:
    """Replace the output by the result in two renames, each of them atomic."""
    if output.exists():
        replaced = partial / "replaced"
        if replaced.exists():
            shutil.rmtree(replaced)
        os.replace(output, replaced)
    os.replace(result, output)
