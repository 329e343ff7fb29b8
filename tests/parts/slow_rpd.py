"""RPD written a second time, from the paper's Algorithm 3 alone: plain loops, float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]


def cosine_distance(a: Vector, b: Vector) -> float:
    largest_a, largest_b = max(map(abs, a)), max(map(abs, b))
    if largest_a == 0 or largest_b == 0:
        return 0.0 if largest_a == largest_b else 1.0
    a = [value / largest_a for value in a]
    b = [value / largest_b for value in b]
    dot = math.fsum(x * y for x, y in zip(a, b, strict=True))
    norms = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    return min(2.0, max(0.0, 1.0 - dot / norms))


def asks(asking: Sequence[Vector], answering: Sequence[Vector]) -> float:
    return math.fsum(
        min(cosine_distance(step, other) for other in answering) for step in asking
    ) / len(asking)


def slow_rpd(a: Sequence[Vector], b: Sequence[Vector], ties: str = "mean") -> float:
    if len(a) == 0 or len(b) == 0:
        return 1.0
    if len(a) == len(b) and ties == "mean":
        return (asks(a, b) + asks(b, a)) / 2
    return asks(a, b) if len(a) <= len(b) else asks(b, a)
