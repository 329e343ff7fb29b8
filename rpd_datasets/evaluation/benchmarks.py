"""The benchmarks of the paper and their neighbours: problems with reference answers or tests.

Another number of problems than a benchmark has is refused: a figure on other problems is another
figure. OlympiadBench's English text-only subset with open answers has 674 rows on the Hub, of which
the paper's figures are multiples, and 675 in the file that many harnesses copy.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from rpd_datasets.evaluation.livecodebench import read_problems
from rpd_datasets.inputs.source import InputSpec, open_rows
from rpd_datasets.problem import Rejected
from rpd_metric.errors import InputError
from rpd_metric.grading.code import CodeTask, FunctionTask

PROBLEM = ("problem", "Problem", "question", "prompt")
_ANSWER = ("answer", "Answer", "final_answer")
_ID = ("unique_id", "task_id", "question_id", "id", "ID", "problem_idx")
# Some files end each problem with this instruction; the prompt of the configuration has its own.
_INSTRUCTION = re.compile(r"\s*Please reason step by step[^\n]*\\boxed\{\}\.?\s*\Z")


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark is found and what it is made of: a row of `benchmarks.json`."""

    name: str
    title: str
    sizes: list[int]  # the numbers of problems that are right; any if empty
    hub: str | None = None  # without a dataset on the Hub a local file is needed
    config: str | None = None
    split: str = "test"
    level: int | None = None  # only problems of this level
    release: int | None = None  # of LiveCodeBench
    prompt: str = "reason_and_box"


_TABLE = resources.files("rpd_datasets.evaluation") / "benchmarks.json"
BENCHMARKS = {
    row["name"]: Benchmark(**row) for row in json.loads(_TABLE.read_text(encoding="utf-8"))
}


@dataclass(frozen=True)
class BenchmarkProblem:
    """One problem of a benchmark."""

    id: str
    text: str
    gold: str | None = None  # the reference answer, of mathematics
    tests: Callable[[], CodeTask] | None = None  # reads what a program is graded by


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name. Raises [`InputError`] with those there are."""
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; use one of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def load_problems(name: str, path: str | Path | None = None) -> list[BenchmarkProblem]:
    """Load a benchmark's problems, in order, from the Hub or a local file.

    `path` is any data file; of LiveCodeBench its folder, or a file. Raises [`InputError`] if the
    data cannot be read or is not the benchmark.
    """
    benchmark = find_benchmark(name)
    where = path or benchmark.hub
    if where is None:
        raise InputError(f"{benchmark.title} is not on the Hub; name a local file with --data")
    if benchmark.release:
        problems = [
            BenchmarkProblem(*parts) for parts in read_problems(Path(where), benchmark.release)
        ]
    else:
        spec = InputSpec(split=benchmark.split, config_name=benchmark.config)
        rows = []
        for row in open_rows(str(where), spec, streaming=False):
            if isinstance(row, Rejected):
                raise InputError(f"{row.where} cannot be read: {row.detail}")
            rows.append(row.values)
        if level := benchmark.level:
            rows = [row for row in rows if str(row.get("level")).split()[-1] == str(level)]
        problems = [_problem(benchmark, row, f"{where}, row {n}", n) for n, row in enumerate(rows)]
    if benchmark.sizes and len(problems) not in benchmark.sizes:
        sizes = " or ".join(map(str, benchmark.sizes))
        raise InputError(
            f"{where} has {len(problems)} problems of {benchmark.title}, which has {sizes}; "
            "use the whole benchmark, and `limit` for a quick look"
        )
    if len({problem.id for problem in problems}) < len(problems):
        raise InputError(f"{where} names two problems alike; make their ids differ")
    return problems


def load_answers(name: str) -> list[tuple[str, str]]:
    """The problems and answers of a benchmark, or of a file of one's own."""
    problems = load_problems(name) if name in BENCHMARKS else load_problems("own", name)
    if any(problem.gold is None for problem in problems):
        raise InputError(f"{name} has tests in place of answers; name problems with answers")
    return [(problem.text, str(problem.gold)) for problem in problems]


def _problem(
    benchmark: Benchmark, row: Mapping[str, Any], place: str, number: int
) -> BenchmarkProblem:
    text = _INSTRUCTION.sub("", _first(row, PROBLEM, place))
    id_ = next((str(row[name]) for name in _ID if row.get(name) is not None), f"{number:03}")
    if benchmark.name != "humaneval":
        return BenchmarkProblem(id_, text, gold=_first(row, _ANSWER, place))
    if not row.get("test") or not row.get("entry_point"):
        raise InputError(f"{place} has no test and entry_point; use HumanEval's own file")
    # Not `text`: its white space is part of the program.
    prompt, *tests = (str(row[name]) for name in ("prompt", "entry_point", "test"))
    return BenchmarkProblem(id_, prompt, tests=partial(FunctionTask, prompt, *tests))


def _first(row: Mapping[str, Any], names: Sequence[str], place: str) -> str:
    value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if value is None:
        raise InputError(f"{place} has none of the columns {', '.join(names)}")
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
