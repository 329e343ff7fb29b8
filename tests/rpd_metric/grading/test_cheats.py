"""Programs that try to pass without solving the problem. None may."""

from __future__ import annotations

import shutil

import pytest

from rpd_metric.grading.code import FunctionTask, grade_program
from rpd_metric.grading.isolation import Limits
from rpd_metric.grading.sandbox import Sandbox

if shutil.which("bwrap") is None:
    pytest.skip("bubblewrap is not installed (package bubblewrap)", allow_module_level=True)

# The value is not to be guessed; whoever finds it in the tests has it.
TASK = FunctionTask(
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


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(Limits(seconds=5))


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_cheat_passes(cheat: str, sandbox: Sandbox) -> None:
    assert grade_program(TASK, f"```python\n{CHEATS[cheat]}```", sandbox) != "passed"


def test_who_knows_the_value_passes(sandbox: Sandbox) -> None:
    assert grade_program(TASK, "def secret(xs): return 8675.309", sandbox) == "passed"
