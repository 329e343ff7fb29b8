"""Grading programs: what counts as the code, what passes, and what cannot cheat its way."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rpd_metric.grading.code import (
    CASE_MEMORY,
    CONTEST_PRELUDE,
    ContestTask,
    FunctionTask,
    ProgramResult,
    grade_program,
)
from rpd_metric.grading.isolation import Limits
from rpd_metric.grading.sandbox import Sandbox

if shutil.which("bwrap") is None:
    pytest.skip("bubblewrap is not installed (package bubblewrap)", allow_module_level=True)

HUMANEVAL = Path(__file__).parents[4] / "shared" / "data" / "benchmarks" / "HumanEval.jsonl.gz"
DOUBLE = FunctionTask(
    prompt='import math\n\n\ndef double(x: int) -> int:\n    """Twice x."""\n',
    entry_point="double",
    test="def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n",
)
SUM = ContestTask([("1 2\n", "3\n"), ("10 -4\n", "6\n")])
SAME = ContestTask([([[[1, 2], [3]]], [[1, 2], [3]]), ([[]], [])], entry_point="same")


@pytest.fixture(scope="module")
def sandbox():
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
def test_a_right_function_passes_however_it_is_wrapped(completion, sandbox):
    assert grade_program(DOUBLE, completion, sandbox) is ProgramResult.PASSED


@pytest.mark.parametrize(
    ("completion", "verdict"),
    [
        ("    return 3 * x\n", "failed"),
        ("    return bytearray(10**11)\n", "failed"),
        ("    while True: print('spam' * 1000)\n", "timed_out"),
        ("    import sys; sys.exit(0)\n", "failed"),
        ("    exec('1 +')\n", "failed"),
        ("    while True: pass\n", "timed_out"),
        ("    return 2 *\n", "error"),
        ("", "error"),
    ],
)
def test_a_wrong_one_gets_the_verdict_that_says_how(completion, verdict, sandbox):
    short = Sandbox(Limits(seconds=1)) if verdict == "timed_out" else sandbox
    assert grade_program(DOUBLE, completion, short) == verdict


def test_each_case_has_its_own_time(sandbox):
    slow = "import time\ndef rotate(xs, k):\n    time.sleep(0.9)\n    return xs[-k:] + xs[:-k]\n"
    four = ContestTask([([[1, 2], 1], [2, 1])] * 4, seconds=3.4, entry_point="rotate")
    short = Sandbox(Limits(seconds=3.5))  # less than the four take together
    assert grade_program(four, slow, short) == "passed"
    assert grade_program(replace(four, seconds=0.3), slow, short) == "timed_out"
    stdio = ContestTask([("", "1")] * 4, seconds=3.4)
    assert grade_program(stdio, "import time; time.sleep(0.9); print(1)", short) == "passed"
    hasty = replace(stdio, seconds=0.3)
    assert grade_program(hasty, "import time; time.sleep(0.9); print(1)", short) == "timed_out"


# What LiveCodeBench's own grader (28fef95) says of valid programs that add two numbers ...
PROGRAMS = """\
### passed: input
a, b = map(int, input().split())
print(a + b)
### passed: standard input under its imported name
print(sum(int(x) for x in sys.stdin.read().split()))
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
### passed: blank lines before the output
print('\\n\\n', sum(map(int, input().split())), '\\n\\n')
### passed: a decimal number
print(float(sum(map(int, input().split()))))
### passed: much memory
import mmap
kept = mmap.mmap(-1, 3 << 29)
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
### timed_out: never ends
while True: pass
### error: no Python
print(3
### error: nothing
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
### passed: a helper of the same name
def same(xs): return xs
class Solution:
    def same(self, xs): return same(xs)
### failed: leaves
def same(xs): sys.exit()
### failed: a deque
def same(xs): return deque(xs)
### failed: equals everything
class E:
    __eq__ = lambda *_: True
def same(xs): return E()
### timed_out: never ends
def same(xs):
    while True: pass
### error: no Python
def same(xs) return xs
### error: nothing
"""


def made(sources: str) -> list[tuple[str, str]]:
    return [tuple(part.split("\n", 1)) for part in sources.split("### ")[1:]]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("task", "title", "program"),
    [*((SUM, *one) for one in made(PROGRAMS)), *((SAME, *one) for one in made(FUNCTIONS))],
)
def test_programs_and_functions_are_graded_as_livecodebench_does(task, title, program, sandbox):
    verdict = title.partition(":")[0]
    seconds = 1.5 if verdict == "timed_out" else 5
    task = replace(task, seconds=seconds, prelude=CONTEST_PRELUDE, memory=CASE_MEMORY)
    assert grade_program(task, program, sandbox) == verdict


def test_the_tests_of_a_program_share_nothing(sandbox):
    counts = "try: n += 1\nexcept NameError: n = 1\nprint(n)"
    assert grade_program(ContestTask([("", "1")] * 20), counts, sandbox) == "passed"


def test_canonical_solutions_of_humaneval_pass_and_empty_ones_do_not(sandbox):
    if not HUMANEVAL.is_file():
        pytest.skip(f"needs {HUMANEVAL}")
    with gzip.open(HUMANEVAL, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][::8]
    tasks = [FunctionTask(row["prompt"], row["entry_point"], row["test"]) for row in rows]
    for task, row in zip(tasks, rows, strict=True):
        assert grade_program(task, row["canonical_solution"], sandbox) == "passed"
        assert grade_program(task, "    pass\n", sandbox) == "failed"


# Programs that try to pass without solving the problem.

# The value is not to be guessed; whoever finds it in the tests has it.
SECRET = FunctionTask(
    prompt='def secret(xs):\n    """A number."""\n',
    entry_point="secret",
    test="MARK = 'the tests begin here'\n\n\ndef check(candidate):\n"
    "    assert candidate([3, 1, 2]) == 8675.309\n"
    "    assert abs(candidate([]) - 8675.309) < 1e-6\n",
)
EQUAL = """\
class Equal(BASE):
    __eq__ = __ge__ = __le__ = __gt__ = __lt__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None
    __bool__ = lambda self: True
    __sub__ = __rsub__ = __abs__ = lambda self, *other: self
def secret(xs):
    return Equal()
"""
# Each starts with its name. FOUND stands for the value, where a cheat has found the tests.
SOURCES = """\
### leaves
import sys
def secret(xs): sys.exit(0)
### leaves with the status of a pass
import os
def secret(xs): os._exit(10)
### a mock
from unittest.mock import ANY
def secret(xs): return ANY
### reads its own file
import sys
def secret(xs):
    for path in (sys.argv[0], __file__):
        if 'tests ' + 'begin' in open(path).read(): return FOUND
### reads other files
import pathlib
def secret(xs):
    for folder in ('/program', '/tmp', '/dev/shm'):
        for path in pathlib.Path(folder).rglob('*'):
            if path.is_file() and 'tests ' + 'begin' in path.read_text(): return FOUND
### reads command lines
import pathlib
def secret(xs):
    for path in pathlib.Path('/proc').glob('[0-9]*/[ce][mn][dv]*'):
        try:
            if b'tests ' + b'begin' in path.read_bytes(): return FOUND
        except OSError: pass
### reads all memory
import re
def secret(xs):
    mark = re.compile(rb'te[s]ts begi[n]')  # does not find itself
    for line in open('/proc/self/maps'):
        low, high = (int(x, 16) for x in line.split()[0].split('-'))
        try:
            with open('/proc/self/mem', 'rb') as memory:
                memory.seek(low)
                if mark.search(memory.read(min(high - low, 1 << 23))): return FOUND
        except (OSError, ValueError, OverflowError): pass
### looks at its callers
import sys
def secret(xs):
    frame = sys._getframe()
    while frame:
        if any('tests ' + 'begin' in str(v) for v in frame.f_globals.values()): return FOUND
        frame = frame.f_back
### looks at every object
import gc
def secret(xs):
    for thing in gc.get_objects():
        if type(thing) is dict and 'check' in thing and 'candidate' in thing: return FOUND
### replaces the check
import sys
def secret(xs): ...
for module in list(sys.modules.values()):
    module.check = lambda *arguments: 10
### changes the built-ins
import builtins
builtins.abs = lambda x: 0
builtins.AssertionError = ValueError
def secret(xs): ...
### changes its driver
import sys
def secret(xs): ...
sys.modules['__main__'].encode = lambda value: {'passed': True}
### changes what equality is
import ctypes
def secret(xs): return 8675
ctypes.pythonapi.PyObject_RichCompareBool.restype = None
### forges its replies
import os
def secret(xs): ...
for stream in range(3, 32):
    try: os.write(stream, b'{"ready": true}\\n{"value": true}\\n{"status": 10}\\n' * 9)
    except OSError: pass
### sends nonsense
import os
def secret(xs): ...
for stream in range(3, 32):
    try: os.write(stream, b'\\xff\\x00[[[[[\\n' + b'[' * 99999 + b'\\n')
    except OSError: pass
### kills all it can
import os, signal
def secret(xs): ...
for process in (os.getppid(), -1):
    try: os.kill(process, signal.SIGKILL)
    except OSError: pass
### an error with the name of the end
class SystemExit(Exception): ...
def secret(xs): raise SystemExit(10)
"""
CHEATS = {
    source.partition("\n")[0]: source.partition("\n")[2].replace("FOUND", "8675.309")
    for source in SOURCES.split("### ")[1:]
} | {
    f"equal {base}": EQUAL.replace("BASE", base)
    for base in ("object", "float", "int", "str", "list", "tuple", "dict", "complex")
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_cheat_passes(cheat, sandbox):
    assert grade_program(SECRET, f"```python\n{CHEATS[cheat]}```", sandbox) != "passed"


def test_who_knows_the_value_passes(sandbox):
    assert grade_program(SECRET, "def secret(xs): return 8675.309", sandbox) == "passed"
