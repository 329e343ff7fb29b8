r"""A small task with an exact check and several true strategies per problem.

    Make 24 from 3 5 7 9
    ->  Multiply 3 by 5 to get 15.
        The sum of 15 and 9 is 24.
        \boxed{ ( 3 * 5 ) + 9 }

A problem names four numbers and a target; a solution reaches it with three of the numbers and two
operations, and says in words and arithmetic what it does. Its strategy is the pair of operations
in the order in which they are done: `multiply, then add`. Any expression counts that uses each
given number at most once and has the target as its value; the check does the arithmetic anew.

Problems fall into three parts that share none: what the base model learns from, what training
sets are chosen from, and what is tested. Not here: models, and who chooses.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from rpd_metric.grading.answers import final_answer

Part = Literal["base", "pool", "test"]

NUMBERS = range(2, 12)
HAND = 5
TARGETS = range(13, 51)
LARGEST = 99
# How a solution's two operations are called; "from" subtracts the first result from a number.
OPERATIONS = ("add", "subtract", "multiply", "divide", "subtract from")
WORDINGS = {
    "add": (
        "Add {a} and {b} to get {r}.",
        "The sum of {a} and {b} is {r}.",
        "With {a} plus {b} we have {r}.",
    ),
    "subtract": (
        "Subtract {b} from {a} to get {r}.",
        "The difference of {a} and {b} is {r}.",
        "With {a} minus {b} we have {r}.",
    ),
    "multiply": (
        "Multiply {a} by {b} to get {r}.",
        "The product of {a} and {b} is {r}.",
        "With {a} times {b} we have {r}.",
    ),
    "divide": (
        "Divide {a} by {b} to get {r}.",
        "The quotient of {a} and {b} is {r}.",
        "With {a} over {b} we have {r}.",
    ),
}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_GOLD = re.compile(r"(\d+) from ((?:\d+ ?)+)")


@dataclass(frozen=True)
class Problem:
    """Four numbers and what to make of them."""

    numbers: tuple[int, ...]
    target: int

    @property
    def text(self) -> str:
        """What a model is asked."""
        return f"Make {self.gold}"

    @property
    def gold(self) -> str:
        """What the check needs to know."""
        return f"{self.target} from {' '.join(map(str, self.numbers))}"

    @property
    def part(self) -> Part:
        """Which part of all problems it belongs to, by its own content."""
        lot = hashlib.sha256(self.text.encode()).digest()[0]
        return "test" if lot < 51 else "pool" if lot < 128 else "base"


@dataclass(frozen=True)
class Attempt:
    """Two operations on three of the numbers, right or not.

    Args:
        first (`str`), second (`str`): Two of `OPERATIONS`.
        a (`int`), b (`int`): What the first operates on, in this order.
        c (`int`): What the second puts to the first's result.
    """

    first: str
    second: str
    a: int
    b: int
    c: int

    @property
    def strategy(self) -> str:
        """What is done, without the numbers."""
        return f"{self.first}, then {self.second}"

    def text(self, rng: random.Random) -> str:
        """A worked solution, its wording drawn."""
        middle = _apply(self.first, self.a, self.b)
        assert middle is not None
        if self.second == "subtract from":
            second, left, right = "subtract", self.c, middle
            outer = f"{self.c} - ( {self.a} {SIGNS[self.first]} {self.b} )"
        else:
            second, left, right = self.second, middle, self.c
            outer = f"( {self.a} {SIGNS[self.first]} {self.b} ) {SIGNS[second]} {self.c}"
        end = _apply(second, left, right)
        return "\n".join(
            (
                rng.choice(WORDINGS[self.first]).format(a=self.a, b=self.b, r=middle),
                rng.choice(WORDINGS[second]).format(a=left, b=right, r=end),
                f"\\boxed{{ {outer} }}",
            )
        )


def _apply(operation: str, a: int, b: int) -> int | None:
    """The result, or `None` where the task does not allow it."""
    if operation == "add":
        result = a + b
    elif operation == "subtract":
        result = a - b
    elif operation == "multiply":
        result = a * b
    elif operation == "divide":
        result = a // b if b > 1 and a % b == 0 else 0
    else:
        result = b - a
    return result if 1 <= result <= LARGEST else None


@lru_cache(maxsize=1024)
def attempts(numbers: tuple[int, ...]) -> dict[int, list[Attempt]]:
    """All that can be made of the numbers, by result.

    Sums and products come in one order of their operands only.
    """
    found: dict[int, list[Attempt]] = defaultdict(list)
    for a, b, c in itertools.permutations(numbers, 3):
        for first in OPERATIONS[:4]:
            if first in ("add", "multiply") and a > b:
                continue
            middle = _apply(first, a, b)
            if middle is None:
                continue
            for second in OPERATIONS:
                end = _apply(second, middle, c)
                if end is not None:
                    found[end].append(Attempt(first, second, a, b, c))
    return dict(found)


@lru_cache(maxsize=1)
def all_problems() -> dict[Part, list[Problem]]:
    """Every problem that has a solution, by part."""
    parts: dict[Part, list[Problem]] = {"base": [], "pool": [], "test": []}
    for numbers in itertools.combinations(NUMBERS, HAND):
        reachable = attempts(numbers)
        for target in TARGETS:
            if target in reachable and target not in numbers:
                problem = Problem(numbers, target)
                parts[problem.part].append(problem)
    return parts


def solutions(problem: Problem) -> dict[str, list[Attempt]]:
    """All solutions, by strategy."""
    by: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts(problem.numbers)[problem.target]:
        by[attempt.strategy].append(attempt)
    return dict(by)


def candidates(problem: Problem, count: int, rng: random.Random) -> list[str]:
    """Right solutions as a model samples them: of few strategies, unevenly often.

    Each strategy of a random order is half as frequent as the one before it, and at most four
    occur. A problem with one strategy has solutions that differ in numbers and words only.
    """
    by = solutions(problem)
    strategies = rng.sample(sorted(by), min(4, len(by)))
    weights = [0.5**place for place in range(len(strategies))]
    drawn = rng.choices(strategies, weights, k=count)
    return [rng.choice(by[strategy]).text(rng) for strategy in drawn]


def base_rows(count: int, wrong: float, seed: int) -> list[tuple[str, str]]:
    """What a base model learns from: problems with one attempt each.

    A share of the attempts, `wrong`, calculate rightly and miss the target.
    """
    rng = random.Random(seed)
    problems = all_problems()["base"]
    rows = []
    for _ in range(count):
        problem = rng.choice(problems)
        reachable = attempts(problem.numbers)
        end = problem.target
        while rng.random() < wrong and end == problem.target:
            end = rng.choice(sorted(reachable))
        rows.append((problem.text, rng.choice(reachable[end]).text(rng)))
    return rows


def pool_rows(count: int, per_problem: int, seed: int) -> list[dict[str, Any]]:
    """A dataset to curate: `problem`, its `solutions` and their `strategies`."""
    rng = random.Random(f"pool {seed}")
    rows = []
    for problem in rng.sample(all_problems()["pool"], count):
        texts = candidates(problem, per_problem, rng)
        rows.append(
            {
                "problem": problem.text,
                "solutions": texts,
                "strategies": [strategy_of(text) for text in texts],
            }
        )
    return rows


def problem_rows(part: Part, count: int, seed: int) -> list[dict[str, str]]:
    """Problems with what checks them, for testing and for reinforcement learning."""
    rng = random.Random(f"{part} problems {seed}")
    chosen = rng.sample(all_problems()[part], count)
    return [{"problem": problem.text, "answer": problem.gold} for problem in chosen]


def check(answer: str, response: str) -> bool:
    r"""Whether a response boxes an expression that makes the target of the numbers.

    Args:
        answer (`str`): A problem's `gold`, such as `"24 from 3 5 7 9"`.
        response (`str`): What a model wrote.

    Example:

    ```py
    >>> from benchmarks.loop.task import check
    >>> [check("24 from 3 5 7 9", text) for text in (r"\boxed{ ( 3 * 5 ) + 9 }", r"\boxed{24}")]
    [True, False]

    ```
    """
    found = _GOLD.fullmatch(answer)
    assert found is not None, answer
    expression = _expression(response)
    if expression is None:
        return False
    used: list[int] = []
    value = _value(expression, used)
    given = [int(number) for number in found[2].split()]
    within = all(used.count(number) <= given.count(number) for number in used)
    return within and value == int(found[1])


def strategy_of(response: str) -> str:
    """The strategy of a solution; `"other"` where it is none of the task's own."""
    expression = _expression(response)
    outer = getattr(expression, "body", None)
    if not isinstance(outer, ast.BinOp):
        return "other"
    turned = isinstance(outer.right, ast.BinOp)
    inner = outer.right if turned else outer.left
    first, second = _NAMES.get(type(outer.op)), None
    if isinstance(inner, ast.BinOp):
        first, second = _NAMES.get(type(inner.op)), first
    if first is None or second is None or (turned and second != "subtract"):
        return "other"
    return f"{first}, then {second}{' from' if turned else ''}"


_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}


def _expression(response: str) -> ast.Expression | None:
    text = final_answer(response)
    if text is None or len(text) > 100 or not re.fullmatch(r"[\d\s()+*/-]+", text):
        return None
    try:
        return ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return None


def _value(node: ast.AST, used: list[int]) -> Fraction | None:
    """The value of a tree of four operations; its numbers are added to `used`."""
    if isinstance(node, ast.Expression):
        return _value(node.body, used)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, used), _value(node.right, used)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div) and right:
            return left / right
    return None


def vocabulary(texts: Sequence[str]) -> list[str]:
    """Every token that the given texts need, and all numbers that can occur."""
    tokens = {token for text in texts for token in TOKEN.findall(text)}
    # No text has these. The figures of docs/loop.md are of a base that knows them.
    tokens |= {"[", "mode", "]"}
    tokens |= {f"{space}{number}" for space in ("", " ") for number in range(1, LARGEST + 1)}
    return sorted(tokens)


# A word or a number with the blank before it, so that texts are put together again as they were.
TOKEN = re.compile(r" ?[A-Za-z]+| ?\d+| ?\\boxed\{| ?[()+*/}-]|[.\n\[\]]")
