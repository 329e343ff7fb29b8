"""Independent answers to the counting and probability problems of the packaged sample.

Each function works out one problem's answer from its statement alone: by enumerating every
case where there are finitely many, and with exact fractions for the die, whose game has no
bound on its length. `ANSWERS` maps a `problem_id` to its function. Comparing with the sample's
reference answers is left to the test.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product


def _numerator_plus_denominator(value: Fraction) -> str:
    return str(value.numerator + value.denominator)


def _neon_sign() -> str:
    rows = product("rgb", repeat=7)
    return str(sum(("r", "r") not in pairwise(row) for row in rows))


def _batteries_until_second_flat() -> str:
    # The positions of the four flat batteries are all that matters; each set is equally likely.
    stops = [flat[1] for flat in combinations(range(1, 11), 4)]
    return _numerator_plus_denominator(Fraction(sum(stops), len(stops)))


def _shelf_without_successors() -> str:
    orders = permutations(range(1, 7))
    return str(sum(all(b != a + 1 for a, b in pairwise(order)) for order in orders))


def _kiosk_with_change() -> str:
    def served(tens: tuple[int, ...]) -> bool:
        fives_in_till = 1
        for person in range(11):
            fives_in_till += -1 if person in tens else 1
            if fives_in_till < 0:
                return False
        return True

    return str(sum(served(tens) for tens in combinations(range(11), 5)))


def _buckets() -> str:
    return str(sum(sum(litres) == 20 for litres in product(range(9), repeat=4)))


def _die_until_five_or_six() -> str:
    # `arrive` is the chance that the set of wanted numbers seen is ever this one, `rolls` the
    # expected number of rolls made with it. Sets only grow, so one pass by size is enough.
    wanted = (1, 2, 3)
    sets = [frozenset(c) for size in range(4) for c in combinations(wanted, size)]
    arrive: dict[frozenset[int], Fraction] = {s: Fraction(0) for s in sets}
    arrive[frozenset()] = Fraction(1)
    stopped: dict[frozenset[int], Fraction] = {}
    for seen in sets:
        rolls = arrive[seen] / (1 - Fraction(len(seen) + 1, 6))
        stopped[seen] = rolls * Fraction(2, 6)
        for face in wanted:
            if face not in seen:
                arrive[seen | {face}] += rolls * Fraction(1, 6)
    success = sum((p for seen, p in stopped.items() if len(seen) >= 2), Fraction(0))
    return _numerator_plus_denominator(success)


def _subsets_with_sum_divisible_by_three() -> str:
    numbers = range(1, 13)
    subsets = (subset for size in range(13) for subset in combinations(numbers, size))
    return str(sum(sum(subset) % 3 == 0 for subset in subsets))


def _quilts() -> str:
    turn = (6, 3, 0, 7, 4, 1, 8, 5, 2)  # where each patch of the turned quilt comes from
    designs = set()
    for quilt in product("rwb", repeat=9):
        turned = [quilt]
        for _ in range(3):
            turned.append(tuple(turned[-1][patch] for patch in turn))
        designs.add(min(turned))
    return str(len(designs))


def _beetle_on_a_cube() -> str:
    home = 0
    for edges in product((1, 2, 4), repeat=6):  # an edge flips one bit of the corner's number
        corner = 0
        for edge in edges:
            corner ^= edge
        home += corner == 0
    return _numerator_plus_denominator(Fraction(home, 3**6))


ANSWERS: dict[str, Callable[[], str]] = {
    "cnt-01": _neon_sign,
    "cnt-02": _batteries_until_second_flat,
    "cnt-03": _shelf_without_successors,
    "cnt-04": _kiosk_with_change,
    "cnt-05": _buckets,
    "cnt-06": _die_until_five_or_six,
    "cnt-07": _subsets_with_sum_divisible_by_three,
    "cnt-08": _quilts,
    "cnt-09": _beetle_on_a_cube,
}
