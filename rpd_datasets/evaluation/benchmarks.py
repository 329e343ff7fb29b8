"""The benchmarks of the paper and their neighbours: problems with reference answers or tests.

Each is known by a name, a dataset on the Hub and the number of its problems; a local file of the
same rows serves as well. Another number of problems is refused: a figure on other problems is
another figure. `own` is for a local file of problems of one's own.

OlympiadBench has two sizes. Its English text-only subset with open answers
(`OE_TO_maths_en_COMP`) has 674 rows on the Hub, and 675 in the file that many harnesses copy. The
paper's figures are those of 674: as means of two runs rounded to two decimals, 131 of its 135 are
multiples of 1/674 and only 39 of 1/675. Which row is the extra one cannot be told; it moves a
figure by 0.15 points at most.
"""

from __future__ import annotations

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
from rpd_datasets.inputs.local_files import LocalRows
from rpd_datasets.inputs.raw_rows import Row
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.grading.code import CodeTask, FunctionTask, StdioTask

Kind = Literal["math", "function", "contest"]

_PROMPTS = {"math": "reason_and_box", "function": "python_function", "contest": "problem"}
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

    @property
    def prompt(self) -> str:
        """The name of the prompt for its kind, where no other is asked for."""
        return _PROMPTS[self.kind]


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
class Problem:
    """One problem of a benchmark.

    Args:
        id, text (`str`): Unique in its benchmark; without an instruction on how to answer.
        gold (`str`, *optional*): The reference answer of a mathematical problem.
        code (`CodeTask` or `StoredTests`, *optional*): What a program is graded by, or where that
            is kept; `None` for a programming problem whose tests are not at hand.
        day (`date`, *optional*): Of the contest that a programming problem was set in.
    """

    id: str
    text: str
    gold: str | None = None
    code: CodeTask | StoredTests | None = None
    day: date | None = None


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name. Raises [`InputError`] with those there are."""
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; use one of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def load_problems(name: str, path: str | Path | None = None) -> tuple[list[Problem], str | None]:
    """Load a benchmark's problems, in order, from a local file or, without one, from the Hub.

    Args:
        name (`str`): Of [`BENCHMARKS`].
        path (`str` or `Path`, *optional*): Any data file; of LiveCodeBench also its folder.

    Returns:
        `tuple`: The problems, and the commit of the Hub's dataset where they come from there.

    Raises:
        [`InputError`]: The name is unknown, the file or dataset cannot be read, a row lacks what
            the benchmark's kind needs, or the number of problems is not the benchmark's.
    """
    benchmark = find_benchmark(name)
    where, revision = str(path or benchmark.hub), None
    if benchmark.release and path is not None and is_livecodebench(Path(path)):
        problems = [Problem(**found) for found in read_problems(Path(path), benchmark.release)]
    else:
        if path is not None:
            rows = _values(LocalRows(Path(path), name=where, split=benchmark.split))
        else:
            rows, revision = _hub_rows(benchmark)
        if level := benchmark.level:
            rows = [row for row in rows if str(row.get("level")).split()[-1] == str(level)]
        problems = [_problem(benchmark, row, f"{where}, row {n}", n) for n, row in enumerate(rows)]
    if benchmark.sizes and len(problems) not in benchmark.sizes:
        wanted = " or ".join(map(str, benchmark.sizes))
        raise InputError(
            f"{where} has {len(problems)} problems of {benchmark.title}, which has {wanted}; "
            "use the whole benchmark, and `limit` for a quick look"
        )
    if len({problem.id for problem in problems}) < len(problems):
        raise InputError(f"{where} names two problems alike; make their ids differ")
    return problems, revision


def in_window(
    problems: Sequence[Problem], since: str | date | None, until: str | date | None
) -> list[Problem]:
    """The problems of contests from one day to another, both included.

    Raises:
        [`InputError`]: A day cannot be read, a problem has none, or none lies in the window.
    """
    if since is None and until is None:
        return list(problems)
    first, last = _day(since, "since"), _day(until, "until")
    kept = []
    for problem in problems:
        if problem.day is None:
            raise InputError(
                f"problem {problem.id} has no date; since and until are for LiveCodeBench's own "
                "files"
            )
        if (first or problem.day) <= problem.day <= (last or problem.day):
            kept.append(problem)
    if not kept:
        raise InputError(
            f"no problem lies between {since or 'the first'} and {until or 'the last'}"
        )
    return kept


def _day(text: str | date | None, name: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(str(text))
    except ValueError:
        raise InputError(f"{name} is {text!r}; use a day such as 2024-08-01") from None


def _problem(benchmark: Benchmark, row: Mapping[str, Any], place: str, number: int) -> Problem:
    text = _INSTRUCTION.sub("", _first(row, _PROBLEM, place))
    id_ = next((str(row[name]) for name in _ID if row.get(name) is not None), f"{number:03}")
    if benchmark.kind == "math":
        return Problem(id_, text, gold=_first(row, _ANSWER, place))
    if benchmark.kind == "function":
        if not row.get("test") or not row.get("entry_point"):
            raise InputError(f"{place} has no test and entry_point; use HumanEval's own file")
        # Not `text`: its white space is part of the program.
        task = FunctionTask(str(row["prompt"]), str(row["entry_point"]), str(row["test"]))
        return Problem(id_, task.prompt, code=task)
    tests = row.get("tests")
    if not isinstance(tests, list) or not tests:
        return Problem(id_, text)
    try:
        return Problem(id_, text, code=StdioTask([(t["input"], t["output"]) for t in tests]))
    except (TypeError, KeyError):
        raise InputError(f'{place}: a test is {{"input": text, "output": text}}') from None


def _first(row: Mapping[str, Any], names: Sequence[str], place: str) -> str:
    value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        raise InputError(f"{place} has none of the columns {', '.join(names)}")
    return str(value)


def _values(rows: Iterable[Row | Rejected]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for row in rows:
        if isinstance(row, Rejected):
            raise InputError(f"{row.where} cannot be read: {row.detail}")
        found.append(row.values)
    return found


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
        return _values(rows), commit if COMMIT.fullmatch(commit) else None
    except InputError as error:
        raise InputError(f"{error} Or name a local file of the benchmark with --data.") from error
