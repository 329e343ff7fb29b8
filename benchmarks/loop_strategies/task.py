r"""Word problems of a number times a one-digit number, in two variants, with four strategies each.

`same`: two digits (up to 199), and every strategy fits every problem.

    places    147*6: 140*6=840, 7*6=42, 840+42=882          split the places
    round     147*6: 150*6=900, 3*6=18, 900-18=882          round up and take away
    parts     147*6: 147*3=441, 147*3=441, 441+441=882      take the multiplier in two parts
    doubling  147*6: 147+147=294, 294+294=588, 588+294=882  double, and add what is needed

`different`: three digits, and every problem is fitted by `places` and at least one other strategy:
`round` up to six below a multiple of 100, `doubling` for 4 and 8, `factors` for 6 and 9.

A solution is an opening, its calculations and the boxed answer. Each of these has few variants, so
that all right texts of a problem can be listed (`texts`); nothing else counts as right.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SAME, DIFFERENT = "same", "different"
STRATEGIES = {
    SAME: ("places", "round", "parts", "doubling"),
    DIFFERENT: ("places", "round", "doubling", "factors"),
}
# How often each of a task's strategies is among the candidates, before those that do not fit a
# problem are left out.
SKEWS = {"steep": (0.85, 0.09, 0.04, 0.02), "mild": (0.5, 0.2, 0.2, 0.1)}
# How the samples are divided that warm up a start that is to know all strategies.
WARMING_SHARES = {
    SAME: (0.15, 0.35, 0.25, 0.25),
    DIFFERENT: (0.15, 0.4, 0.15, 0.3),
}
OPENINGS = {
    "places": ("Split the places.", "Take each place alone."),
    "round": ("Round the number.", "Start from a round number."),
    "parts": ("Take the times in parts.", "Some times first, then the rest."),
    "doubling": ("Double it.", "Twice, and twice again."),
    "factors": ("Use the factors.", "One factor after the other."),
}
ENDINGS = ("\\boxed{{{}}}", "So \\boxed{{{}}}")
STORIES = (
    "A box holds {a} pencils. How many pencils are in {b} boxes?",
    "A ticket costs {a} dollars. What do {b} tickets cost?",
    "A bus has {a} seats. How many seats do {b} buses have?",
    "There are {a} chairs in each of {b} rows. How many chairs are there?",
    "Mia reads {a} pages a day. How many does she read in {b} days?",
    "A baker makes {a} rolls an hour. How many are made in {b} hours?",
)
NEAR = 6
TESTS, VALIDATION, WARM = 100, 40, 400

Plan = tuple[tuple[int, str, int], ...]


def fitting(task: str, a: int, b: int) -> tuple[str, ...]:
    """The strategies of a task that fit a problem.

    >>> fitting("different", 298, 4)
    ('places', 'round', 'doubling')
    """
    if task == SAME:
        return STRATEGIES[task]
    fits = {"places": True, "round": near(a), "doubling": b in (4, 8), "factors": b in (6, 9)}
    return tuple(name for name, fit in fits.items() if fit)


def near(a: int) -> bool:
    """Whether a number is little less than a multiple of 100."""
    return -a % 100 in range(1, NEAR + 1)


def plans(task: str, a: int, b: int, strategy: str) -> Iterator[Plan]:
    """All orders of a strategy's calculations."""
    if strategy == "doubling":
        times, sums = 1, [(a, "+", a)]
        while 4 * times <= b:
            times *= 2
            sums.append((times * a, "+", times * a))
        whole = 2 * times
        while times:
            if b & times and times < whole and whole + times <= b:
                sums.append((whole * a, "+", times * a))
                whole += times
            times //= 2
        yield tuple(sums)
        return
    for turned in (False, True):

        def product(left: int, right: int, turned: bool = turned) -> tuple[int, str, int]:
            return (right, "x", left) if turned else (left, "x", right)

        if strategy == "factors":
            for first, second in {(2, 3), (3, 2)} if b == 6 else {(3, 3)}:
                yield product(a, first), product(a * first, second)
        elif strategy == "round":
            unit = 100 if task == DIFFERENT else 10
            full = a // unit * unit + unit
            steps = [product(full, b), product(full - a, b)]
            last = (full * b, "-", (full - a) * b)
            yield (*steps, last)
            yield (*steps[::-1], last)
        else:
            if strategy == "parts":
                factors = [(a, (b + 1) // 2), (a, b // 2)]
            elif task == DIFFERENT:
                digits = (a // 100 * 100, a // 10 % 10 * 10, a % 10)
                factors = [(digit, b) for digit in digits if digit]
            else:
                factors = [(a // 10 * 10, b), (a % 10, b)]
            for terms in (factors, factors[::-1]):
                steps, total = [product(*term) for term in terms], terms[0][0] * terms[0][1]
                for left, right in terms[1:]:
                    steps.append((total, "+", left * right))
                    total += left * right
                yield tuple(steps)


def texts(task: str, id_: str, strategy: str) -> list[str]:
    r"""All right solutions of a problem by a strategy.

    >>> print(texts("same", "27x6", "round")[0])
    Round the number.
    30*6=180
    3*6=18
    180-18=162
    \boxed{162}
    """
    a, b = factors(id_)
    signs = {"x": int.__mul__, "+": int.__add__, "-": int.__sub__}
    listed: dict[str, None] = {}
    for opening in OPENINGS[strategy]:
        for plan in plans(task, a, b, strategy):
            lines = [opening]
            for left, sign, right in plan:
                value = signs[sign](left, right)
                lines.append(f"{left}{sign.replace('x', '*')}{right}={value}")
            for ending in ENDINGS:
                listed["\n".join([*lines, ending.format(value)])] = None
    return list(listed)


def strategy_of(task: str, id_: str, text: str) -> str | None:
    """The strategy of a right solution, `None` of any other text."""
    for name in fitting(task, *factors(id_)):
        if text in texts(task, id_, name):
            return name
    return None


def factors(id_: str) -> tuple[int, int]:
    """The numbers of a problem, from its id, such as 27x6."""
    a, b = id_.split("x")
    return int(a), int(b)


def split(task: str, seed: int) -> dict[str, list[str]]:
    """The ids of problems to warm up on, to tune on, to test on and to choose from.

    Only the last differ between seeds, in their order. A third of `different` is near a round
    number.
    """
    rng = random.Random(0)
    if task == SAME:
        ids = [f"{a}x{b}" for a in range(12, 200) if a % 10 for b in range(3, 10)]
    else:
        all_ids = [(a, b) for a in range(101, 1000) for b in range(3, 10) if a % 100]
        ids = [f"{a}x{b}" for a, b in all_ids if near(a)]
        others = [f"{a}x{b}" for a, b in all_ids if not near(a) and b in (4, 6, 8, 9)]
        ids += rng.sample(others, 2 * len(ids))
    rng.shuffle(ids)
    parts = {}
    for name, number in (("tests", TESTS), ("validation", VALIDATION), ("warm", WARM)):
        parts[name], ids = ids[:number], ids[number:]
    random.Random(seed + 1).shuffle(ids)
    return {**parts, "pool": ids}


def story(id_: str) -> str:
    """A problem in words."""
    a, b = factors(id_)
    return random.Random(100 * a + b).choice(STORIES).format(a=a, b=b)


def drawn(
    task: str, ids: Sequence[str], number: int, shares: Mapping[str, float], seed: int
) -> list[dict[str, Any]]:
    """Problems with so many solutions each, copies included, by strategies of these shares."""
    rng, rows = random.Random(seed), []
    for id_ in ids:
        a, b = factors(id_)
        fits = fitting(task, a, b)
        names = rng.choices(fits, [shares[name] for name in fits], k=number)
        rows.append(
            {
                "id": id_,
                "problem": story(id_),
                "answer": str(a * b),
                "solutions": [rng.choice(texts(task, id_, name)) for name in names],
                "strategies": names,
            }
        )
    return rows


def by_strategy(
    pool: Sequence[dict[str, Any]], number: int, each: int, *, different: bool
) -> list[dict[str, Any]]:
    """So many problems with `each` solutions, by what only the task knows.

    `different`: the problems with most strategies, and one solution of each strategy in turn.
    Otherwise solutions of a problem's commonest strategy.
    """
    chosen = []
    for row in pool:
        groups: dict[str, dict[str, None]] = {}
        for text, name in zip(row["solutions"], row["strategies"], strict=True):
            groups.setdefault(name, {})[text] = None
        turns = [[*group][:each] for group in groups.values()]
        if not different:
            turns = [max(turns, key=len)]
        in_turn = [turn[place] for place in range(each) for turn in turns if place < len(turn)]
        if len(in_turn) >= each:
            row = {**row, "solutions": in_turn[:each], "strategies": []}
            chosen.append((-len(turns), len(chosen), row))
    return [row for *_, row in sorted(chosen, key=lambda entry: entry[:2])[:number]]
