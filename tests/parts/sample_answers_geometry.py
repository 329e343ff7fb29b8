"""Answers of the packaged sample's geometry problems, worked out a second time by program.

Each function recomputes the answer to one problem from its statement alone: exact arithmetic
on integers and fractions, with a plain search where the worked solutions reason. The three
extremum problems are scanned over a grid of exact points that meet the constraint, which
shows the best value found on the grid, not a proof that nothing off the grid is better; the
proofs are in the solutions. What is not here: any check of the solutions' text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

Point = tuple[Fraction, Fraction]


def _only(values: Iterator[Fraction]) -> str:
    """The single distinct value of a search, as text; anything else is a wrong problem."""
    found = sorted(set(values))
    if len(found) != 1:
        raise AssertionError(f"expected exactly one value, found {[str(v) for v in found]}")
    return str(found[0])


def _point(x: Fraction | int, y: Fraction | int) -> Point:
    return Fraction(x), Fraction(y)


def _between(a: Point, b: Point, t: Fraction) -> Point:
    """The point that divides the segment from a to b at the fraction t."""
    return a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])


def _cross(o: Point, a: Point, b: Point) -> Fraction:
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def _polygon_area(points: Sequence[Point]) -> Fraction:
    origin = _point(0, 0)
    closed = [*points, points[0]]
    return abs(sum((_cross(origin, a, b) for a, b in pairwise(closed)), Fraction(0))) / 2


def corner_quadrilateral() -> str:
    """geo-01: cut a scalene triangle of area 90 and measure the piece at C."""
    a, b, c = _point(7, 12), _point(0, 0), _point(15, 0)
    assert _polygon_area([a, b, c]) == 90
    d = _between(b, c, Fraction(2, 5))
    e = _between(c, a, Fraction(1, 3))
    # P divides AD where the signed distance from line BE changes its sign.
    at_a, at_d = _cross(b, e, a), _cross(b, e, d)
    p = _between(a, d, at_a / (at_a - at_d))
    return str(_polygon_area([p, d, c, e]))


def square_with_half_right_angle() -> str:
    """geo-02: try every F on side CD in steps of 1/12 and keep those seen at 45 degrees."""
    a, e = _point(0, 0), _point(12, 4)

    def areas() -> Iterator[Fraction]:
        for i in range(12 * 12 + 1):
            f = _point(Fraction(i, 12), 12)
            dot = e[0] * f[0] + e[1] * f[1]
            # At 45 degrees the dot product and the cross product are equal.
            if dot == _cross(a, e, f):
                yield _polygon_area([a, e, f])

    return _only(areas())


def bisector_in_wide_triangle() -> str:
    """geo-03: try every D on BC in steps of 1/1000 and keep those with equal angles at A."""
    ab, ac = Fraction(15), Fraction(10)
    # Dot products of the vectors AB and AC; the angle between them has cosine -1/2.
    bb, cc, bc = ab * ab, ac * ac, -ab * ac / 2

    def lengths() -> Iterator[Fraction]:
        for i in range(1001):
            t = Fraction(i, 1000)
            with_b = (1 - t) * bb + t * bc
            with_c = (1 - t) * bc + t * cc
            if with_b / ab == with_c / ac:
                squared = (1 - t) ** 2 * bb + 2 * t * (1 - t) * bc + t**2 * cc
                yield from (Fraction(r) for r in range(1, 16) if r * r == squared)

    return _only(lengths())


def smallest_sum_of_intercepts() -> str:
    """geo-04: scan lines through (12, 3) by their intercept p, in steps of 1/60 up to 212."""
    sums = []
    for i in range(1, 200 * 60 + 1):
        p = 12 + Fraction(i, 60)
        # The line from (p, 0) through (12, 3), followed up to the y-axis.
        q = 3 * p / (p - 12)
        sums.append(p + q)
    return str(min(sums))


def largest_linear_value_on_ellipse() -> str:
    """geo-05: scan rational points of the ellipse, found with chords through (3, -1)."""
    values = []
    for i in range(-3000, 3001):
        slope = Fraction(i, 60)
        # (3 + s, -1 + slope * s) on x^2 + xy + y^2 = 7 besides s = 0.
        s = -(5 + slope) / (1 + slope + slope**2)
        x, y = 3 + s, -1 + slope * s
        assert x * x + x * y + y * y == 7
        values.append(4 * x + 5 * y)
    return str(max(values))


def sum_of_triple_products() -> str:
    """geo-06: multiply and add, term by term."""
    return str(sum(k * (k + 1) * (k + 2) for k in range(1, 13)))


def recurrent_series() -> str:
    """geo-07: add 200 terms exactly; the only simple fraction as near as the tail allows."""
    terms = 200
    total, current, following = Fraction(0), 9, 3
    for n in range(terms):
        total += Fraction(current, 4**n)
        current, following = following, following + 2 * current
    # Terms are at most 9 / 2^n, so the rest of the series is below 18 / 2^terms.
    simple = total.limit_denominator(10_000)
    assert 0 < simple - total < Fraction(18, 2**terms)
    return str(simple)


def circle_in_the_gap() -> str:
    """geo-08: move the small circle's foot along the line and keep the places where it fits."""
    # Centres (0, 36) and (36, 9) are 36 + 9 apart, so the two given circles touch.
    assert 36**2 + (36 - 9) ** 2 == (36 + 9) ** 2

    def radii() -> Iterator[Fraction]:
        for i in range(1, 36 * 60):
            x = Fraction(i, 60)
            # Touching the big circle: x^2 + (36 - r)^2 = (36 + r)^2 leaves one radius for x.
            r = x * x / 144
            if (36 - x) ** 2 + (9 - r) ** 2 == (9 + r) ** 2:
                yield r

    return _only(radii())


def largest_weighted_product() -> str:
    """geo-09: scan x and y in steps of 1/20; z follows from the constraint."""
    n = 20
    best = 0
    for x in range(1, 6 * n):
        for y in range(1, 9 * n):
            z = 18 * n - 3 * x - 2 * y
            if z > 0:
                best = max(best, x * y**2 * z**3)
    return str(Fraction(best, n**6))


ANSWERS: dict[str, Callable[[], str]] = {
    "geo-01": corner_quadrilateral,
    "geo-02": square_with_half_right_angle,
    "geo-03": bisector_in_wide_triangle,
    "geo-04": smallest_sum_of_intercepts,
    "geo-05": largest_linear_value_on_ellipse,
    "geo-06": sum_of_triple_products,
    "geo-07": recurrent_series,
    "geo-08": circle_in_the_gap,
    "geo-09": largest_weighted_product,
}
