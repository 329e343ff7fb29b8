r"""Word problems of a two-digit times a one-digit number, which four strategies solve.

    A box holds 27 pencils. How many pencils are in 6 boxes?

    tens      20 x 6 = 120, 7 x 6 = 42, 120 + 42 = 162      split the tens from the ones
    round     30 x 6 = 180, 3 x 6 = 18, 180 - 18 = 162      round up and take away
    parts     27 x 5 = 135, 27 x 1 = 27, 135 + 27 = 162     take the multiplier in parts
    doubling  27 + 27 = 54, 54 + 54 = 108, 108 + 54 = 162   double, and add what is needed

A solution's strategy is read off its calculations (`strategy_of`): each must be true, all of them
must be the strategy's, in its order, and the boxed answer their result. Wording is drawn apart from
the strategy, so that solutions of one strategy differ in words and those of two may sound alike.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

# How often each strategy is among the candidates.
FREQUENCIES = {"tens": 0.5, "round": 0.2, "parts": 0.2, "doubling": 0.1}
OPENINGS = {
    "tens": ("Split {a} into its tens and its ones.", "The tens and the ones of {a} go apart."),
    "round": ("Round {a} up and take away what is too much.", "{a} is almost a round number."),
    "parts": ("Take the {b} in parts.", "Not all {b} at once, but one part and then the rest."),
    "doubling": ("Double {a} until it is enough.", "Doubling is easy, so start with {a} twice."),
}
# One mark for each of up to six calculations; the last one is for all that follow.
MARKS = (
    ("",),
    ("First, ", "Then ", "So "),
    ("We have ", "Also ", "Therefore "),
    ("Step one: ", "Step two: ", "Next step: "),
)
STORIES = (
    "A box holds {a} pencils. How many pencils are in {b} boxes?",
    "A ticket costs {a} dollars. What do {b} tickets cost?",
    "A bus has {a} seats. How many seats do {b} buses have?",
    "There are {a} chairs in each of {b} rows. How many chairs are there?",
    "Mia reads {a} pages a day. How many pages does she read in {b} days?",
    "A baker makes {a} rolls an hour. How many rolls are made in {b} hours?",
    "Each of {b} children has {a} marbles. How many marbles do they have together?",
    "A train drives {a} miles an hour. How far does it drive in {b} hours?",
)
CALCULATION = re.compile(r"(\d+) ([x+-]) (\d+) = (\d+)")
BOX = re.compile(r"\\boxed\{(\d+)\}")
WARM, TESTS = 60, 100

Plan = list[tuple[int, str, int]]


def plans(a: int, b: int) -> Iterator[tuple[str, Plan]]:
    """Every way that counts as a strategy, with its calculations; `parts` has several."""
    tens, ones = a // 10 * 10, a % 10
    up = tens + 10
    yield "tens", [(tens, "x", b), (ones, "x", b), (tens * b, "+", ones * b)]
    yield "round", [(up, "x", b), (up - a, "x", b), (up * b, "-", (up - a) * b)]
    for part in range((b + 1) // 2, b):
        rest = b - part
        yield "parts", [(a, "x", part), (a, "x", rest), (a * part, "+", a * rest)]
    times, sums = 1, Plan()
    while 2 * times <= b:
        sums.append((times * a, "+", times * a))
        times *= 2
    whole = times
    while times := times // 2:
        if b & times:
            sums.append((whole * a, "+", times * a))
            whole += times
    yield "doubling", sums


def solution(a: int, b: int, strategy: str, rng: random.Random) -> str:
    r"""One solution by a strategy, in words that the draw decides.

    >>> print(solution(27, 6, "round", random.Random(0)))
    27 is almost a round number.
    30 x 6 = 180.
    3 x 6 = 18.
    180 - 18 = 162.
    The answer is \boxed{162}.
    """
    plan = rng.choice([plan for name, plan in plans(a, b) if name == strategy])
    lines = [rng.choice(OPENINGS[strategy]).format(a=a, b=b)]
    marks = rng.choice(MARKS)
    value = 0
    for place, (left, sign, right) in enumerate(plan):
        value = {"x": left * right, "+": left + right, "-": left - right}[sign]
        lines.append(f"{marks[min(place, len(marks) - 1)]}{left} {sign} {right} = {value}.")
    return "\n".join([*lines, f"The answer is \\boxed{{{value}}}."])


def strategy_of(a: int, b: int, text: str) -> str | None:
    r"""The strategy that a solution follows from its first calculation to its answer, or `None`.

    >>> strategy_of(27, 6, "20 x 6 = 120.\n7 x 6 = 42.\n120 + 42 = 162.\n\\boxed{162}")
    'tens'
    >>> strategy_of(27, 6, "20 x 6 = 120.\n7 x 6 = 43.\n120 + 42 = 162.\n\\boxed{162}") is None
    True
    """
    found = [
        (int(left), sign, int(right), int(value))
        for left, sign, right, value in CALCULATION.findall(text)
    ]
    signs = {"x": int.__mul__, "+": int.__add__, "-": int.__sub__}
    if any(signs[sign](left, right) != value for left, sign, right, value in found):
        return None
    if BOX.findall(text) != [str(a * b)]:
        return None
    steps = [_either_way(*step[:3]) for step in found]
    for name, plan in plans(a, b):
        if [_either_way(*step) for step in plan] == steps:
            return name
    return None


def _either_way(left: int, sign: str, right: int) -> tuple[int, str, int]:
    return (left, sign, right) if sign == "-" else (max(left, right), sign, min(left, right))


def factors(id_: str) -> tuple[int, int]:
    """The numbers of a problem, from its id, such as 27x6."""
    a, b = id_.split("x")
    return int(a), int(b)


def split(seed: int) -> tuple[list[str], list[str], list[str]]:
    """The ids of problems to warm up on, to choose from and to test on; none is in two of them.

    The first and the last are the same for every seed, which decides the order of the others.
    """
    pairs = [f"{a}x{b}" for a in range(12, 99) if a % 10 for b in range(3, 10)]
    random.Random(0).shuffle(pairs)
    pool = pairs[WARM + TESTS :]
    random.Random(seed + 1).shuffle(pool)
    return pairs[:WARM], pool, pairs[WARM : WARM + TESTS]


def rows(ids: Sequence[str], number: int, seed: int) -> list[dict[str, Any]]:
    """Problems, each with so many different solutions, whose strategies are drawn."""
    rng, found = random.Random(seed), []
    for id_ in ids:
        a, b = factors(id_)
        story = random.Random(100 * a + b).choice(STORIES).format(a=a, b=b)
        drawn: dict[str, str] = {}
        while len(drawn) < number:
            (name,) = rng.choices(list(FREQUENCIES), list(FREQUENCIES.values()))
            drawn.setdefault(solution(a, b, name, rng), name)
        texts = {"solutions": list(drawn), "strategies": list(drawn.values())}
        found.append({"id": id_, "problem": story, "answer": str(a * b), **texts})
    return found


def by_strategy(pool: Sequence[dict[str, Any]], least: int, *, different: bool) -> list[dict]:
    """Of each problem one solution of each strategy, or those of the commonest one alone.

    Problems that then have fewer than `least` are left out.
    """
    kept = []
    for one in pool:
        groups: dict[str, list[str]] = {}
        for text, name in zip(one["solutions"], one["strategies"], strict=True):
            groups.setdefault(name, []).append(text)
        texts = (
            [group[0] for group in groups.values()] if different else max(groups.values(), key=len)
        )
        if len(texts) >= least:
            kept.append({**one, "solutions": texts, "strategies": []})
    return kept
