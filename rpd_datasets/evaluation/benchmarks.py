"""The benchmarks of the paper and their neighbours: problems with reference answers or tests.

Each is known by a name, a dataset on the Hub and the number of its problems; a local file
(JSONL, JSONL.gz or JSON) of the same rows serves as well. A file with another number of
problems is refused, because a figure on other problems is another figure. `own` is for a local
file of problems of one's own, which may be graded by a function of one's own, too.

OlympiadBench has two sizes. Its English text-only subset with open answers
(`OE_TO_maths_en_COMP`) has 674 rows on the Hub, while the file that many evaluation harnesses
copy from one another has 675. The paper's figures are those of 674: taken as means of two
runs whose figures were rounded to two decimals, 131 of its 135 OlympiadBench figures are
multiples of 1/674 and only 39 are multiples of 1/675. Both sizes are accepted; which row is the
extra one cannot be told from the paper, and it moves a figure by 0.15 points at most.

LiveCodeBench is `livecodebench.py`. A file of its prompts alone (rows with `prompt`, without
tests) can be sampled, and is refused when it comes to grading.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from rpd_datasets.evaluation.livecodebench import (
    RELEASES,
    StoredTests,
    is_livecodebench,
    read_problems,
)
from rpd_datasets.inputs.hub_rows import COMMIT, HubRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_metric.errors import InputError
from rpd_metric.grading.code import CodeTask, FunctionTask, StdioTask

Kind = Literal["math", "function", "contest"]

_PROBLEM = ("problem", "Problem", "question", "prompt")
_ANSWER = ("answer", "Answer", "final_answer")
_ID = ("unique_id", "task_id", "question_id", "id", "ID", "problem_idx")
# Some files end each problem with this instruction; the prompt of the configuration has its own.
_INSTRUCTION = re.compile(r"\s*Please reason step by step[^\n]*\\boxed\{\}\.?\s*\Z")


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark is found and what it is made of.

    Args:
        name, title (`str`): In configurations, and in tables.
        kind (`str`): How it is graded.
        sizes (`tuple[int, ...]`): Numbers of problems that are right; any number if empty.
        hub (`str`, *optional*): Dataset id; `None` where only a local file serves.
        level (`int`, *optional*): Only problems of this level.
        release (`int`, *optional*): Of LiveCodeBench, where it is that.
        task_id (`str`, *optional*): In the `eval.yaml` of its dataset, where that is registered on
            the Hub as a benchmark; only those have a table of results there.
    """

    name: str
    title: str
    kind: Kind
    sizes: tuple[int, ...]
    hub: str | None
    config: str | None = None
    split: str = "test"
    level: int | None = None
    release: int | None = None
    task_id: str | None = None


_KNOWN = (
    Benchmark("aime24", "AIME24", "math", (30,), "Maxwell-Jia/AIME_2024", split="train"),
    Benchmark("aime25", "AIME25", "math", (30,), "math-ai/aime25"),
    Benchmark(
        *("aime26", "AIME26", "math", (30,), "MathArena/aime_2026"),
        split="train",
        task_id="MathArena/aime_2026",
    ),
    Benchmark(
        "math500-level5", "MATH500 Level 5", "math", (134,), "HuggingFaceH4/MATH-500", level=5
    ),
    Benchmark("math500", "MATH500", "math", (500,), "HuggingFaceH4/MATH-500"),
    Benchmark(
        *("olympiadbench", "Olympiad Bench", "math", (674, 675), "Hothan/OlympiadBench"),
        config="OE_TO_maths_en_COMP",
        split="train",
    ),
    Benchmark("amc23", "AMC23", "math", (40,), "math-ai/amc23"),
    Benchmark("humaneval", "HumanEval", "function", (164,), "openai/openai_humaneval"),
    Benchmark("livecodebench", "LiveCodeBench v6", "contest", (1055,), None, release=6),
    *(
        Benchmark(f"livecodebench-v{n}", f"LiveCodeBench v{n}", "contest", (size,), None, release=n)
        for n, size in RELEASES.items()
        if n < max(RELEASES)
    ),
    Benchmark("own", "own problems", "math", (), None),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _KNOWN}


@dataclass(frozen=True)
class Task:
    """One problem of a benchmark.

    Args:
        id (`str`): Names it in every file; unique in its benchmark.
        problem (`str`): Its text, without an instruction on how to answer.
        gold (`str`, *optional*): The reference answer of a mathematical problem.
        code (`CodeTask` or `StoredTests`, *optional*): What a program is graded by, or where that
            is kept; `None` for a programming problem whose tests are not at hand.
        day (`date`, *optional*): Of the contest that a programming problem was set in.
    """

    id: str
    problem: str
    gold: str | None = None
    code: CodeTask | StoredTests | None = None
    day: date | None = None


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name. Raises [`InputError`] with those there are."""
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; use one of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def load_benchmark(name: str, path: str | Path | None = None) -> list[Task]:
    """Load a benchmark's problems, in order, from a local file or, without one, from the Hub.

    A file is `.jsonl`, `.jsonl.gz` or `.json`; of LiveCodeBench also its folder or Parquet.

    Raises:
        [`InputError`]: The name is unknown, the file or dataset cannot be read, a row lacks what
            the benchmark's kind needs, or the number of problems is not the benchmark's.
    """
    return load_tasks(name, path)[0]


def load_tasks(name: str, path: str | Path | None = None) -> tuple[list[Task], str | None]:
    """As [`load_benchmark`], with the commit of the Hub's dataset; `None` for a local file."""
    benchmark = find_benchmark(name)
    revision = None
    if benchmark.release and path is not None and is_livecodebench(Path(path)):
        problems = read_problems(Path(path), benchmark.release)
        contest = [Task(p.id, p.text, code=p.tests, day=p.day) for p in problems]
        return _checked(benchmark, contest, str(path)), None
    if path is None:
        rows: Iterable[Mapping[str, Any]]
        rows, revision = _hub_rows(benchmark)
        where = str(benchmark.hub)
    else:
        rows, where = _file_rows(Path(path)), str(path)
    if benchmark.level is not None:
        rows = [row for row in rows if str(row.get("level")).split()[-1] == str(benchmark.level)]
    tasks = [_task(benchmark, row, number, where) for number, row in enumerate(rows)]
    return _checked(benchmark, tasks, where), revision


def in_window(tasks: Sequence[Task], since: date | None, until: date | None) -> list[Task]:
    """The problems of contests from one day to another, both included.

    Raises:
        [`InputError`]: A problem has no day, or none lies in the window.
    """
    if since is None and until is None:
        return list(tasks)
    kept = []
    for task in tasks:
        if task.day is None:
            raise InputError(
                f"problem {task.id} has no date; since and until are for LiveCodeBench's own files"
            )
        if (since or task.day) <= task.day <= (until or task.day):
            kept.append(task)
    if not kept:
        raise InputError(
            f"no problem lies between {since or 'the first'} and {until or 'the last'}"
        )
    return kept


def _checked(benchmark: Benchmark, tasks: list[Task], where: str) -> list[Task]:
    if benchmark.sizes and len(tasks) not in benchmark.sizes:
        wanted = " or ".join(map(str, benchmark.sizes))
        raise InputError(
            f"{where} has {len(tasks)} problems of {benchmark.title}, which has {wanted}; "
            "use the whole benchmark, and `limit` in the configuration for a quick look"
        )
    if len({task.id for task in tasks}) < len(tasks):
        raise InputError(f"{where} names two problems alike; make their ids differ")
    return tasks


def _task(benchmark: Benchmark, row: Mapping[str, Any], number: int, where: str) -> Task:
    place = f"{where}, row {number}"
    problem = _INSTRUCTION.sub("", _first(row, _PROBLEM, place))
    id_ = next((str(row[name]) for name in _ID if row.get(name) is not None), f"{number:03}")
    if benchmark.kind == "math":
        return Task(id_, problem, gold=_first(row, _ANSWER, place))
    if benchmark.kind == "function":
        if not row.get("test") or not row.get("entry_point"):
            raise InputError(f"{place} has no test and entry_point; use HumanEval's own file")
        # Not `problem`: its white space is part of the program.
        task = FunctionTask(str(row["prompt"]), str(row["entry_point"]), str(row["test"]))
        return Task(id_, task.prompt, code=task)
    tests = row.get("tests")
    if not isinstance(tests, list) or not tests:
        return Task(id_, problem)
    return Task(id_, problem, code=StdioTask([_test(test, place) for test in tests]))


def _test(test: Any, place: str) -> tuple[str, str]:
    if isinstance(test, Mapping):
        given, expected = test.get("input"), test.get("output")
        if isinstance(given, str) and isinstance(expected, str):
            return given, expected
    raise InputError(f'{place}: a test is {{"input": text, "output": text}}')


def _first(row: Mapping[str, Any], names: Sequence[str], place: str) -> str:
    value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        raise InputError(f"{place} has none of the columns {', '.join(names)}")
    return str(value)


def _file_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        if path.suffix == ".json":
            rows = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON lines in UTF-8: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} must hold one JSON object per problem")
    return rows


def _hub_rows(benchmark: Benchmark) -> tuple[list[Mapping[str, Any]], str | None]:
    """The rows, and the commit they are of, where it is known."""
    if benchmark.hub is None:
        raise InputError(
            f"{benchmark.title} cannot be loaded from the Hub; name a local file with --data"
        )
    try:
        rows = HubRows(
            benchmark.hub, config=benchmark.config, split=benchmark.split, streaming=False
        )
        commit = rows.fingerprint()
        found: list[Mapping[str, Any]] = [row.values for row in rows if isinstance(row, Row)]
        return found, commit if COMMIT.fullmatch(commit) else None
    except InputError as error:
        raise InputError(f"{error} Or name a local file of the benchmark with --data.") from error
