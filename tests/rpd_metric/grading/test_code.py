"""Grading programs: what counts as the code, what passes, and what cannot cheat its way."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rpd_metric.grading.code import (
    CASE_MEMORY,
    CONTEST_PRELUDE,
    CallTask,
    FunctionTask,
    ProgramResult,
    StdioTask,
    grade_calls,
    grade_code,
    grade_function,
    grade_stdio,
)
from rpd_metric.grading.isolation import Limits
from rpd_metric.grading.sandbox import Sandbox
from rpd_metric.grading.sandboxed.checker import same_output

if shutil.which("bwrap") is None:
    pytest.skip("bubblewrap is not installed (package bubblewrap)", allow_module_level=True)

HUMANEVAL = Path(__file__).parents[4] / "shared" / "data" / "benchmarks" / "HumanEval.jsonl.gz"
DOUBLE = FunctionTask(
    prompt='import math\n\n\ndef double(x: int) -> int:\n    """Twice x."""\n',
    entry_point="double",
    test="def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n",
)
SUM = StdioTask([("1 2\n", "3\n"), ("10 -4\n", "6\n")])


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(Limits(seconds=5))


@pytest.mark.parametrize(
    "completion",
    [
        "    return 2 * x\n",
        "    return 2 * x\n\nprint(double(1))\nassert False\n",
        "```python\ndef double(x):\n    return 2 * x\n```",
        "Sure!\n\n```python\ndef double(x):\n    return 2 * x\n```\nUse it so:\n"
        "```python\nassert double(1) == 3\n```",
        "```py\ndef double(x):\n    return math.floor(2 * x)\n",
        "<think>```python\ndef double(x): return 0\n```</think>\n"
        "```python\ndef double(x): return 2 * x\n```",
        "```python\ndouble = lambda x: 2 * x\n```",
        "    print('chatty', end='')\n    return 2 * x\n",
    ],
)
def test_a_right_function_passes_however_it_is_wrapped(completion: str, sandbox: Sandbox) -> None:
    assert grade_function(DOUBLE, completion, sandbox) is ProgramResult.PASSED


@pytest.mark.parametrize(
    ("completion", "verdict"),
    [
        ("    return 3 * x\n", "failed"),
        ("    return bytearray(10**11)\n", "failed"),
        ("    while True: print('spam' * 1000)\n", "timed_out"),
        ("    import sys; sys.exit(0)\n", "failed"),
        ("    import os; os._exit(0)\n", "failed"),
        ("```python\nimport os\ndef double(x): ...\nos._exit(0)\n```", "failed"),
        ("    exec('1 +')\n", "failed"),
        ("    while True: pass\n", "timed_out"),
        ("    return 2 *\n", "error"),
        ("", "error"),
        ("I do not know.", "error"),
    ],
)
def test_a_wrong_one_gets_the_verdict_that_says_how(
    completion: str, verdict: str, sandbox: Sandbox
) -> None:
    short = Sandbox(Limits(seconds=1)) if verdict == "timed_out" else sandbox
    assert grade_function(DOUBLE, completion, short) == verdict


ROTATE = CallTask(
    "rotate",
    [([[1, 2, 3], 1], [3, 1, 2]), ([[], 0], [])],
    seconds=2,
    prelude=CONTEST_PRELUDE,
)


@pytest.mark.parametrize(
    ("completion", "result"),
    [
        (
            "```python\nclass Solution:\n    def rotate(self, xs: List[int], k: int):\n"
            "        d = deque(xs)\n        d.rotate(k)\n        return list(d)\n```",
            "passed",
        ),
        ("def rotate(xs, k):\n    return tuple(xs[-k:] + xs[:-k]) if k else ()\n", "passed"),
        (
            "from __future__ import annotations\ndef rotate(xs, k): return xs[-k:] + xs[:-k]",
            "passed",
        ),
        ("class Solution:\n    def rotate(self, xs, k): return xs\n", "failed"),
        ("class E:\n    __eq__ = lambda *_: True\ndef rotate(xs, k): return E()", "failed"),
        ("def rotate(xs, k):\n    while True: pass\n", "timed_out"),
        ("def rotate(xs, k) return xs", "error"),
        ("", "error"),
    ],
)
def test_functions_and_methods_are_tested_by_calling_them(
    completion: str, result: str, sandbox: Sandbox
) -> None:
    assert grade_calls(ROTATE, completion, sandbox) == result


def test_each_case_has_its_own_time(sandbox: Sandbox) -> None:
    slow = "import time\ndef rotate(xs, k):\n    time.sleep(0.7)\n    return xs[-k:] + xs[:-k]\n"
    four = CallTask("rotate", [([[1, 2], 1], [2, 1])] * 4, seconds=1.5)
    short = Sandbox(Limits(seconds=2))  # less than the four take together
    assert grade_calls(four, slow, short) == "passed"
    assert grade_calls(replace(four, seconds=0.3), slow, short) == "timed_out"
    stdio = StdioTask([("", "1")] * 3, seconds=1.5)
    assert grade_stdio(stdio, "import time; time.sleep(0.6); print(1)", short) == "passed"
    hasty = replace(stdio, seconds=0.3)
    assert grade_stdio(hasty, "import time; time.sleep(0.6); print(1)", short) == "timed_out"


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("a, b = map(int, input().split())\nprint(a + b)", "passed"),
        ("```python\na, b = map(int, input().split())\nprint(f'  {a + b}.0 ')\n```", "passed"),
        ("print(3)", "failed"),
        ("import time; time.sleep(600)", "timed_out"),
        ("print(3", "error"),
        ("  \n", "error"),
    ],
)
def test_programs_are_tested_through_their_input_and_output(
    program: str, verdict: str, sandbox: Sandbox
) -> None:
    task = replace(SUM, seconds=1) if verdict == "timed_out" else SUM
    assert grade_stdio(task, program, sandbox) == verdict


# What LiveCodeBench's own grader (28fef95) says of valid programs that add two numbers ...
PROGRAMS = """\
### passed: input
a, b = map(int, input().split())
print(a + b)
### passed: standard input under its imported name
print(sum(int(x) for x in sys.stdin.read().split()))
### passed: its bytes
print(sum(map(int, sys.stdin.buffer.read().split())))
### passed: lines (which LiveCodeBench's stand-in for standard input does not give out)
for line in sys.stdin:
    print(sum(map(int, line.split())))
### passed: names of the imported modules
print(reduce(add, Counter(map(int, input().split())).elements()), end='\\n' * bool(sqrt(4)))
heapq, deque, defaultdict, lru_cache, gcd, StringIO, dumps, datetime.datetime, copy.deepcopy, pow
### passed: a main function
def main():
    print(sum(map(int, input().split())))
if __name__ == '__main__':
    main()
### passed: leaves after the right output
print(sum(map(int, input().split())))
sys.exit(0)
### passed: leaves with a message
print(sum(map(int, input().split())))
exit(1)
### passed: blank lines before the output
print('\\n\\n', sum(map(int, input().split())), '\\n\\n')
### passed: a decimal number
print(float(sum(map(int, input().split()))))
### passed: writes to standard output
sys.stdout.write(str(sum(map(int, sys.stdin.readline().split()))))
### passed: much memory
kept = bytearray(3 << 29)
print(sum(map(int, input().split())))
### failed: an error after the right output
print(sum(map(int, input().split())))
1 / 0
### failed: leaves before any output
sys.exit()
### failed: words beside the number
print('sum', sum(map(int, input().split())))
### failed: another result in the second test
print(3)
"""
# ... and of functions that give back the argument as it is, a list of lists.
FUNCTIONS = """\
### passed: a method
class Solution:
    def same(self, xs: List[List[int]]) -> List[List[int]]:
        return xs
### passed: a function
def same(xs): return [list(x) for x in xs]
### passed: a tuple of lists
def same(xs): return tuple(xs)
### failed: a list of tuples
def same(xs): return [tuple(x) for x in xs]
### passed: numbers that are equal
def same(xs): return [[float(y) for y in x] for x in xs]
### passed: a helper of the same name
def same(xs): return xs
class Solution:
    def same(self, xs): return same(xs)
### failed: leaves
def same(xs): sys.exit()
### failed: an iterator
def same(xs): return iter(xs)
### failed: a deque
def same(xs): return deque(xs)
"""


def made(sources: str) -> list[tuple[str, str]]:
    return [tuple(part.split("\n", 1)) for part in sources.split("### ")[1:]]  # type: ignore[misc]


@pytest.mark.parametrize(("title", "program"), made(PROGRAMS))
def test_programs_are_graded_as_livecodebench_does(title: str, program: str) -> None:
    task = replace(SUM, prelude=CONTEST_PRELUDE, memory=CASE_MEMORY)
    assert grade_stdio(task, program, Sandbox()) == title.partition(":")[0]


@pytest.mark.parametrize(("title", "program"), made(FUNCTIONS))
def test_functions_are_graded_as_livecodebench_does(title: str, program: str) -> None:
    tests = [([[[1, 2], [3]]], [[1, 2], [3]]), ([[]], [])]
    task = CallTask("same", tests, prelude=CONTEST_PRELUDE, memory=CASE_MEMORY)
    assert grade_calls(task, program, Sandbox()) == title.partition(":")[0]


def test_the_tests_of_a_program_share_one_sandbox_and_nothing_else(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[None] = []
    start = Sandbox._started
    monkeypatch.setattr(Sandbox, "_started", lambda *given: started.append(None) or start(*given))
    counts = "try: n += 1\nexcept NameError: n = 1\nprint(n)"
    assert grade_stdio(StdioTask([("", "1")] * 20), counts, sandbox) == "passed"
    assert len(started) == 2  # the program's and the checker's


@pytest.mark.parametrize(
    ("got", "expected", "same"),
    [
        (" 1  2 \n", "1 2", True),
        ("1\n\n2", "1\n2", False),
        ("1.50", "1.5", True),
        ("1e2", "100", True),
        ("\n\n3\n", "3", True),
        ("x 1.0", "x 1", False),
        ("0.1", "0.10000001", False),
        ("YES", "yes", False),
        ("1\n2", "1 2", False),
        ("nan", "NaN", False),
        ("", "1", False),
    ],
)
def test_outputs_are_compared_by_line_and_word(got: str, expected: str, same: bool) -> None:
    assert same_output(got, expected) is same


def test_canonical_solutions_of_humaneval_pass_and_empty_ones_do_not(sandbox: Sandbox) -> None:
    if not HUMANEVAL.is_file():
        pytest.skip(f"needs {HUMANEVAL}")
    with gzip.open(HUMANEVAL, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][::8]
    tasks = [FunctionTask(row["prompt"], row["entry_point"], row["test"]) for row in rows]
    right = [(task, row["canonical_solution"]) for task, row in zip(tasks, rows, strict=True)]
    assert set(grade_code(right, sandbox)) == {ProgramResult.PASSED}
    empty = [(task, "    pass\n") for task in tasks]
    assert set(grade_code(empty, sandbox)) == {ProgramResult.FAILED}
