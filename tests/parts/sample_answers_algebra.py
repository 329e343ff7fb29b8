"""Answers of the sample's algebra and number theory problems, computed independently.

Each function works an answer out again from the problem's statement, by search or by exact
arithmetic and along another way than the worked solutions where that is possible. It leaves
out the comparison with the sample's `reference_answer`, which is the test's business.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

Matrix = list[list[int]]


def _times(left: Matrix, right: Matrix) -> Matrix:
    """The product of two square integer matrices."""
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in columns] for row in left]


def _power_sum(total: int, product: int, exponent: int) -> int:
    """a^exponent + b^exponent for a + b = total and ab = product, as a companion matrix's trace."""
    companion = [[0, -product], [1, total]]
    power = [[1, 0], [0, 1]]
    for _ in range(exponent):
        power = _times(power, companion)
    return power[0][0] + power[1][1]


def power_sums() -> str:
    """alg-01: a^5 + b^5 from a + b = 6 and a^3 + b^3 = 90."""
    # The sum of cubes is linear in the product, so one product found is the only one.
    (product,) = (p for p in range(-1000, 1001) if _power_sum(6, p, 3) == 90)
    if 4 * product > 6 * 6:
        raise ArithmeticError("a and b are not real")
    return str(_power_sum(6, product, 5))


def large_power() -> str:
    """alg-02: 9^2026 modulo 1000, from the full number."""
    return str(9**2026 % 1000)


def product_equation() -> str:
    """alg-03: pairs of positive integers with xy = 6x + 10y."""
    # For a fixed x > 10 the matching y = 6x / (x - 10) is at most 66, and likewise x <= 70.
    pairs = [(x, y) for x in range(1, 201) for y in range(1, 201) if x * y == 6 * x + 10 * y]
    return str(len(pairs))


def odd_times_powers() -> str:
    """alg-04: the sum of (2k - 1) 2^k, term by term."""
    return str(sum((2 * k - 1) * 2**k for k in range(1, 11)))


def roots_plus_one() -> str:
    """alg-05: the product of root^2 + 1, as det(C^2 + I) of the cubic's companion matrix C."""
    companion = [[0, 0, -5], [1, 0, -2], [0, 1, 4]]
    (a, b, c), (d, e, f), (g, h, i) = _times(companion, companion)
    a, e, i = a + 1, e + 1, i + 1
    return str(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g))


def nineteen_times_digits() -> str:
    """alg-06: three-digit integers that are 19 times their digit sum."""
    return str(sum(n == 19 * sum(map(int, str(n))) for n in range(100, 1000)))


def largest_linear_form() -> str:
    """alg-07: the maximum of 5x + 12y on the circle x^2 + y^2 = 2x + 4y + 20."""
    # A line meets the circle of centre (1, 2) and radius 5 when its distance from the centre,
    # |29 - m| / 13, is at most 5: an upper bound for m, which a rational point must attain.
    bound = 29 + isqrt(25 * 169)
    best = Fraction(0)
    for slope in {Fraction(p, q) for p in range(21) for q in range(1, 21)}:
        x = 1 + 5 * (1 - slope**2) / (1 + slope**2)
        y = 2 + 5 * 2 * slope / (1 + slope**2)
        if x**2 + y**2 != 2 * x + 4 * y + 20:
            raise ArithmeticError("the point is not on the circle")
        best = max(best, 5 * x + 12 * y)
    if best != bound:
        raise ArithmeticError(f"the bound {bound} is not attained, only {best}")
    return str(best)


def three_remainders() -> str:
    """alg-08: the smallest n that is 4 mod 7, 6 mod 11 and 8 mod 15."""
    return str(next(n for n in range(1, 1156) if (n % 7, n % 11, n % 15) == (4, 6, 8)))


def divisible_quadratic() -> str:
    """alg-09: the sum of all n with n + 4 dividing n^2 + 3n + 44."""
    # n^2 + 3n + 44 lies strictly between (n + 4)(n - 1) and (n + 4)n once n > 44.
    return str(sum(n for n in range(1, 1001) if (n * n + 3 * n + 44) % (n + 4) == 0))


ANSWERS: dict[str, Callable[[], str]] = {
    "alg-01": power_sums,
    "alg-02": large_power,
    "alg-03": product_equation,
    "alg-04": odd_times_powers,
    "alg-05": roots_plus_one,
    "alg-06": nineteen_times_digits,
    "alg-07": largest_linear_form,
    "alg-08": three_remainders,
    "alg-09": divisible_quadratic,
}
