"""No pattern hangs on what models write: long runs and nested repeats end within a bound.

Every pattern of both packages is found in their sources: the compiled ones and those that are
written where they are used. Everything runs in a process of its own, which is killed when it takes
too long and has said what it was busy with. Four hundred characters tell an exponential pattern
from the others.
"""

import subprocess
import sys

import pytest

WORLD = """
import ast, importlib, itertools, pathlib, re, string, sys

RUNS = [
    *string.printable, *"é中\\u00a0\\u2028", "0,", " '", "\\\\[", "\\\\(", "\\\\{", "$$",
    "```", "# ", "* ", "#\\n", "> ", "\\n\\n", " \\n", "\\r\\n", "**", "//", ",//", ". ", "a ",
    "a, ", "A. ", "1. ", "<think>", "</think>", "\\\\boxed{", "\\\\boxed{1} ", "//boxed{",
    "\\\\text{", "\\\\frac{", "{,}000", "answer", "answer:", "answer is ", "final answer\\n",
    "answer\\n\\\\[", "step 1: ", "and ", "so ", "def f(x):\\n    ", "import a\\n", "x = ",
    "if :#", '"', '\\"\\"\\"\\n', '{"a":', "sqrt(", "http://a.", "a@a.",
]


def hostile(length):
    for run in RUNS:
        text = run * (length // len(run))
        yield from (text, text + "\\0x!", "x" + text + "x", "answer:" + text + " answer")
        # Runs of runs: what (a+b)* and (a+)* are slow on.
        for end in (" ", "\\n", "x"):
            yield ((run * 20)[:20] + end) * (length // 21) + "\\0"


def busy_with(what):
    print(what, flush=True)
"""
PATTERNS = """
def compiled(value, name):
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from compiled(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from compiled(item, f"{name}[{place}]")


def written(path, names):
    # Patterns in calls such as re.sub(r"...", text).
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and getattr(call.func.value, "id", "") == "re"
            and call.func.attr != "escape"
            and call.args
        ):
            flags = [ast.unparse(k.value) for k in call.keywords if k.arg == "flags"]
            text = literal(call.args[0], names)
            # Those compiled from data are found as values of their module.
            assert text is not None or call.func.attr == "compile", ast.unparse(call)
            if isinstance(text, str):
                yield f"{path}:{call.lineno}", re.compile(text, eval(*flags) if flags else 0)


def literal(node, names):
    # The text of a string. An f-string gets the constants of its module, and "name" elsewhere.
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return names.get(getattr(node.value, "id", ""), "name")
    return node.value if isinstance(node, ast.Constant) else None


import rpd_datasets, rpd_metric

count = 0
for package in (rpd_metric, rpd_datasets):
    root = pathlib.Path(package.__file__).parent
    for path in sorted(root.rglob("*.py")):
        names, parts = {}, path.relative_to(root.parent).with_suffix("").parts
        if "re." in path.read_text(encoding="utf-8") and "space" not in parts:
            names = vars(importlib.import_module(".".join(parts)))
        found = [*written(path, names), *compiled(names, path)]
        for name, pattern in {pattern: (name, pattern) for name, pattern in found}.values():
            busy_with(name)
            count += 1
            for text in hostile(400) if isinstance(pattern.pattern, str) else ():
                pattern.search(text), pattern.match(text), pattern.fullmatch(text)
print(count)
"""
READERS = """
from rpd_metric.errors import ReplyError
from rpd_metric.grading.answers import easy_verdict, final_answer, readable, tidy
from rpd_metric.grading.code import extract_code
from rpd_metric.steps.extractive import ExtractiveSummarizer
from rpd_metric.steps.replies import parse_steps
from rpd_metric.steps.vocabulary import find_methods
from rpd_datasets.publish.secrets import emails_in, secrets_in


def read_reply(text):
    try:
        parse_steps(text, sent=text)
    except ReplyError:
        pass


def compare(text):
    easy_verdict(tidy(readable(text)), text)


def summarize(text):
    ExtractiveSummarizer().steps(None, text)


def find_secrets(text):
    return *secrets_in(text), *emails_in(text)


# A quadratic reader takes minutes for these.
LOOPS = ['{"logical_steps": []}', '{"logical_steps": ["a", ', 'PASSWORD="a', "\\\\", "\\\\_", "%25"]
for reader in (read_reply, find_secrets):
    for run in (*LOOPS, "bearer ", "a1b2\\n", "sk-a1-", "aB3x"):
        busy_with(f"{reader.__name__} on many {run!r}")
        reader(run * (200_000 // len(run)))

readers = (final_answer, compare, extract_code, summarize, find_methods, read_reply)
for reader in readers:
    for text in hostile(10_000):
        busy_with(f"{reader.__name__} on {text[:10]!r}...{text[-10:]!r}")
        reader(text)
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PATTERNS, READERS], ids=["patterns", "readers"])
def test_long_runs_of_hostile_characters_come_to_an_end(program: str) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", WORLD + program],
            capture_output=True,
            text=True,
            timeout=300,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode().splitlines()
        pytest.fail(f"still busy after {error.timeout} s with {said[-1] if said else 'the start'}")
    assert done.returncode == 0, done.stderr
    if program is PATTERNS:
        assert int(done.stdout.splitlines()[-1]) > 80
