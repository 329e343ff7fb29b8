"""The benchmarks of the paper and their neighbours: problems with reference answers or tests.

Each is known by a name, a dataset on the Hub and the number of its problems; a local file of the
same rows serves as well. Another number of problems is refused: a figure on other problems is
another figure.

OlympiadBench's English text-only subset with open answers has 674 rows on the Hub, and 675 in the
file that many harnesses copy. The paper's figures are multiples of 1/674.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.livecodebench import (
    RELEASES,
    StoredTests,
    is_livecodebench,
    read_problems,
)
from rpd_datasets.inputs.hub_rows import COMMIT
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_datasets.rejects import Rejected
from rpd_metric.errors import InputError
from rpd_metric.grading.code import CodeTask, FunctionTask, StdioTask

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
        kind (`str`): How it is graded: `"math"`, `"function"` or `"contest"`.
        sizes (`tuple[int, ...]`): Numbers of problems that are right; any number if empty.
        hub (`str`, *optional*): Dataset id; `None` where only a local file serves.
        level (`int`, *optional*): Only problems of this level.
        release (`int`, *optional*): Of LiveCodeBench.
        task_id (`str`, *optional*): In the `eval.yaml` of a dataset that is registered on the Hub
            as a benchmark.
    """

    name: str
    title: str
    kind: str
    sizes: tuple[int, ...]
    hub: str | None = None
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
        *("OE_TO_maths_en_COMP", "train"),
    ),
    Benchmark("amc23", "AMC23", "math", (40,), "math-ai/amc23"),
    Benchmark("humaneval", "HumanEval", "function", (164,), "openai/openai_humaneval"),
    Benchmark("livecodebench", "LiveCodeBench v6", "contest", (RELEASES[6],), release=6),
    *(
        Benchmark(f"livecodebench-v{n}", f"LiveCodeBench v{n}", "contest", (size,), release=n)
        for n, size in RELEASES.items()
        if n < 6
    ),
    Benchmark("own", "own problems", "math", ()),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _KNOWN}


@dataclass(frozen=True)
class Problem:
    """One problem of a benchmark.

    `gold` is the reference answer of mathematics, `code` what a program is graded by, or where that
    is kept (`None` where tests are not at hand), `day` that of the contest, as 2024-08-01.
    """

    id: str
    text: str
    gold: str | None = None
    code: CodeTask | StoredTests | None = None
    day: str | None = None


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
        [`InputError`]: The data cannot be read, or is not the benchmark.
    """
    benchmark = find_benchmark(name)
    if path is None and benchmark.hub is None:
        raise InputError(
            f"{benchmark.title} cannot be loaded from the Hub; name a local file with --data"
        )
    where, revision = str(path or benchmark.hub), None
    if benchmark.release and path is not None and is_livecodebench(Path(path)):
        problems = [Problem(**found) for found in read_problems(Path(path), benchmark.release)]
    else:
        spec = InputSpec(split=benchmark.split, config_name=benchmark.config)
        opened = open_rows(where, spec, streaming=False)
        rows = []
        for row in opened:
            if isinstance(row, Rejected):
                raise InputError(f"{row.where} cannot be read: {row.detail}")
            rows.append(row.values)
        if path is None and COMMIT.fullmatch(commit := opened.fingerprint()):
            revision = commit
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
    if undated := [problem.id for problem in problems if problem.day is None]:
        raise InputError(
            f"problem {undated[0]} has no date; since and until are for LiveCodeBench's own files"
        )
    try:
        first, last = (
            date.fromisoformat(str(day)).isoformat()
            for day in (since or date.min, until or date.max)
        )
    except ValueError:
        raise InputError(f"since {since}, until {until}: use days such as 2024-08-01") from None
    kept = [problem for problem in problems if first <= (problem.day or "") <= last]
    if not kept:
        raise InputError(f"no problem lies between {first} and {last}")
    return kept


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
