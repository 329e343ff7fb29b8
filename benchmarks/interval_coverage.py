"""How often intervals hold the truth, and how often equal models are called different.

    python benchmarks/interval_coverage.py          # the tables of docs/statistics.md, roughly
    python benchmarks/interval_coverage.py --full   # as printed there, in an hour
    python benchmarks/interval_coverage.py --power  # which gains are found
    python benchmarks/interval_coverage.py --ways   # the table of docs/evaluation.md

Problems are drawn from known populations, samples from the problems, and the figure that
infinitely many problems and samples would have is known. The library's own intervals are measured,
with a tenth of its resamples.
"""

import argparse
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, stdtr, stdtrit

from rpd_datasets.comparison.paired import (
    APART,
    PASS,
    PLACEBO,
    STRATEGIES,
    TEXTS,
    Solved,
    compare,
)
from rpd_datasets.evaluation.results import Results
from rpd_metric.statistics import intervals
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import (
    Interval,
    holm_rows,
    mean_band,
    mean_interval,
    paired_differences,
)
from rpd_metric.statistics.power import draw_models, gain_deviation, power

Floats = npt.NDArray[np.float64]
KS = (1, 2, 4, 8, 16, 32, 64)
SIZES = (30, 134, 674)
METHODS = ("t", "Wilson", "here")
fewer_resamples = patch.object(intervals, "_RESAMPLES", 1_000)
# Share of hopeless problems, and the Beta distribution of the others' chance of a right sample.
POPULATIONS = {
    **{
        f"Beta({a}, {b}), {hopeless:.0%} hopeless": (hopeless, a, b)
        for a, b in ((0.5, 0.5), (0.2, 2), (1, 5), (5, 1), (5, 5), (8, 0.3))
        for hopeless in (0, 0.05, 0.3)
    },
    "1 in 50 hopeless, the others 0.9": (0.02, 9000, 1000),
    "1 in 100 solved at 0.3, the others hopeless": (0.99, 3000, 7000),
}
# Chances of two models that are equal, or equal at pass@1 alone.
EVEN, HARD, CEILING, ENDS = (0, 0.5, 0.5), (0, 0.2, 2), (0, 8, 0.3), (0.05, 5, 1)
Pair = Callable[[np.random.Generator, tuple[int, int]], tuple[Floats, Floats]]


def _equal(population: tuple[float, float, float], *, own: bool = False) -> Pair:
    """Two models with the same chances, or with chances of their own from one population."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        chances = draw_chances(population, rng, shape)
        return chances, draw_chances(population, rng, shape) if own else chances

    return draw


EQUAL_MODELS: dict[str, tuple[Pair, tuple[int, ...]]] = {
    "same chances, every difficulty": (_equal(EVEN), KS),
    "same chances, hard": (_equal(HARD), KS),
    "same chances, near the ceiling": (_equal(CEILING), KS),
    "same chances, 5% hopeless": (_equal(ENDS), KS),
    "own chances, every difficulty": (_equal(EVEN, own=True), KS),
    "own chances, hard": (_equal(HARD, own=True), KS),
    "own chances, 5% hopeless": (_equal(ENDS, own=True), KS),
    "0.5 everywhere and every difficulty": (
        lambda rng, shape: (np.full(shape, 0.5), draw_chances(EVEN, rng, shape)),
        (1,),
    ),
    "0.09 everywhere and 0.9 on 1 in 10": (
        lambda rng, shape: (np.full(shape, 0.09), np.where(rng.random(shape) < 0.1, 0.9, 0.0)),
        (1,),
    ),
}


def draw_chances(
    population: tuple[float, float, float], rng: np.random.Generator, shape: tuple[int, ...]
) -> Floats:
    """Chances of a right sample, problem by problem."""
    hopeless, a, b = population
    return np.where(rng.random(shape) < hopeless, 0.0, rng.beta(a, b, shape))


@fewer_resamples
def coverage(population: str, *, problems: int, repeats: int) -> dict[str, Floats]:
    """Share of benchmarks whose intervals hold the population's pass@k: for each k of `KS`.

    `"band"` is the share whose band holds all of them; `"width ..."` are mean widths.
    """
    rng = np.random.default_rng(0)
    hopeless, a, b = POPULATIONS[population]
    truth = np.array([(1 - hopeless) * -np.expm1(betaln(a, b + k) - betaln(a, b)) for k in KS])
    figures: dict[str, list[Any]] = defaultdict(list)
    for right in rng.binomial(64, draw_chances(POPULATIONS[population], rng, (repeats, problems))):
        values = pass_at_ks(64, right)
        for name, (low, high) in {
            "t": student(values),
            "Wilson": wilson(values.mean(axis=0), problems),
            "here": _ends([mean_interval(column) for column in values.T]),
            "band": _ends(mean_band(values)),
        }.items():
            held = (low <= truth + 1e-9) & (high >= truth - 1e-9)
            figures[name].append(held.all() if name == "band" else held)
            figures[f"width {name}"].append(high - low)
    return {name: np.mean(values, axis=0) for name, values in figures.items()}


def _ends(estimates: Sequence[Interval]) -> tuple[Floats, Floats]:
    low, high = np.array([(estimate.low, estimate.high) for estimate in estimates]).T
    return low, high


def student(values: Floats) -> tuple[Floats, Floats]:
    """Student's interval for a mean."""
    half = stdtrit(len(values) - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return values.mean(axis=0) - half, values.mean(axis=0) + half


def wilson(means: Floats, problems: int) -> tuple[Floats, Floats]:
    """Wilson's interval, as if each problem were right or wrong."""
    square = 1.96**2 / problems
    middle = (means + square / 2) / (1 + square)
    half = np.sqrt(square * (means * (1 - means) + square / 4)) / (1 + square)
    return middle - half, middle + half


@fewer_resamples
def alarms(
    pair: Pair, ks: tuple[int, ...], *, problems: int, samples: tuple[int, int], repeats: int
) -> tuple[float, float]:
    """Share of pairs that any of `ks` calls different, by t with Holm and by max-t."""
    rng = np.random.default_rng(0)
    chances = pair(rng, (repeats, problems))
    fewest = min(samples)
    counts = []
    for drawn, chance in zip(samples, chances, strict=True):
        right = rng.binomial(drawn, chance)
        counts.append(rng.hypergeometric(right, drawn - right, fewest))
    compared, called = [k in ks for k in KS if k <= fewest], np.zeros(2)
    for first, second in zip(*counts, strict=True):
        a, b = (pass_at_ks(fewest, right) for right in (first, second))
        error = (b - a).std(axis=0, ddof=1) / np.sqrt(problems)
        ratio = np.divide((b - a).mean(axis=0), error, out=np.zeros(len(error)), where=error > 0)
        alone = 2 * stdtr(problems - 1, -np.abs(ratio))
        by_t = [row[0] for row in holm_rows([[p] for p in alone.tolist()])]
        flipped = [difference.p for difference in paired_differences(b, a)]
        called += [np.compress(compared, p).min() < 0.05 for p in (by_t, flipped)]
    alarms_by_t, alarms = (called / repeats).tolist()
    return alarms_by_t, alarms


@fewer_resamples
def table_alarms(*, problems: int, repeats: int) -> float:
    """Share of tables of six equal models on three benchmarks that call any two different."""
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(repeats):
        rows = []
        for _ in range(3):
            chances = draw_chances(EVEN, rng, (problems,))
            values = [pass_at_ks(64, rng.binomial(64, chances)) for _ in range(6)]
            rows += [[gap.p for gap in paired_differences(v, values[0])] for v in values[1:]]
        called += min(map(min, holm_rows(rows))) < 0.05
    return called / repeats


def way_alarms(
    *, problems: int, samples: tuple[int, int], strategies: int, named: bool, repeats: int
) -> dict[str, float]:
    """Share of tables of `rpd compare` on two equal models that call them different, by measure.

    Both have the same chances of a right sample and of each strategy on each problem. Not `named`,
    solutions are points around their strategy's, and distances those between points; texts have
    lengths that tell nothing.
    """
    rng, called = np.random.default_rng(0), dict.fromkeys(("any", PASS, STRATEGIES, APART), 0)
    for _ in range(repeats):
        right = rng.binomial(np.transpose([samples]), draw_chances(EVEN, rng, (problems,)))
        solved = []
        for number, counts in enumerate(right.T):
            shares = rng.dirichlet(np.full(strategies, 0.5))
            chosen = rng.choice(strategies, counts.sum(), p=shares)
            points = (
                rng.normal(size=(strategies, 3))[chosen] + rng.normal(size=(len(chosen), 3)) / 3
            )
            apart = np.linalg.norm(points[:, None] - points[None], axis=2) / 4
            labels = [f"strategy {place}" for place in chosen] if named else None
            owners = ["a"] * counts[0] + ["b"] * counts[1]
            texts = ["1" * length for length in rng.integers(1, 1_000, len(chosen))]
            solved.append(Solved(f"{number}", owners, apart, labels, texts))
        results = [
            Results(
                name,
                "A",
                {
                    f"{n}": [(place < c, None) for place in range(drawn)]
                    for n, c in enumerate(counts)
                },
            )
            for name, counts, drawn in zip("ab", right.tolist(), samples, strict=True)
        ]
        alarms = {
            APART if gap.measure == TEXTS else gap.measure
            for gap in compare({"A": results}, {"A": solved})
            if gap.measure != PLACEBO and gap.p is not None and gap.p < 0.05
        }
        for name in alarms | ({"any"} if alarms else set()):
            called[name] += 1
    return {name: count / repeats for name, count in called.items()}


def print_ways(repeats: int) -> None:
    """The table of docs/evaluation.md."""
    print("| problems | samples | strategies | any | pass@k | effective | apart, texts |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    for problems, samples in ((30, (16, 16)), (30, (4, 64)), (134, (8, 8))):
        for strategies, named in ((2, True), (5, True), (5, False)):
            kind = {"problems": problems, "samples": samples, "strategies": strategies}
            rates = way_alarms(**kind, named=named, repeats=repeats)
            by = f"{strategies} by {'name' if named else 'distance'}"
            cells = _cells(list(rates.values()))
            print(f"| {problems} | {samples[0]}, {samples[1]} | {by} | {cells} |", flush=True)


def pass_at_ks(samples: int, right: npt.NDArray[np.int64]) -> Floats:
    """pass@k of problems by how many of their samples are right, a column for each k of `KS`."""
    return _tables(samples)[right]


@lru_cache
def _tables(samples: int) -> Floats:
    right = np.arange(samples + 1)
    return np.array([pass_at_k(samples, right, k) for k in KS if k <= samples]).T


def better_by(points: float) -> Pair:
    """A model that is better by so much on every problem that leaves room for it."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        chances = rng.beta(1, 1, shape)
        return chances, np.minimum(chances + points, 1)

    return draw


def print_power(repeats: int) -> None:
    """The first table of docs/statistics.md: what is found where gains vary between problems."""
    print("| problems | samples | points | gains vary by | found | `rpd plan` |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for problems, samples in itertools.product((30, 134, 500), (16, 64)):
        for gain, spread in ((0.04, 0.0), (0.04, 1.0), (0.055, 1.0)):
            pair, both = partial(draw_models, gain, spread), (samples, samples)
            rate = alarms(pair, KS, problems=problems, samples=both, repeats=repeats)[1]
            planned = power(problems, samples, gain, spread)
            cells = _cells([gain, gain_deviation(gain, spread), rate, planned])
            print(f"| {problems} | {samples} | {cells} |", flush=True)


def main() -> None:
    """Print the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="1,000 benchmarks of a kind, not 100")
    parser.add_argument("--ways", action="store_true", help="comparisons of solutions alone")
    parser.add_argument("--power", action="store_true", help="the table of power alone")
    args = parser.parse_args()
    repeats = 1_000 if args.full else 100
    if args.power or args.ways:
        (print_power if args.power else print_ways)(repeats)
        return
    print("| problems | k | t | Wilson | here | lowest of | width of t | Wilson | here |")
    print("| ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    bands = []
    for problems in SIZES:
        shares = [coverage(name, problems=problems, repeats=repeats) for name in POPULATIONS]
        bands += [row["band"].item() for row in shares]
        for place, k in enumerate(KS):
            held = {key: [row[key][place] for row in shares] for key in METHODS}
            worst = list(POPULATIONS)[int(np.argmin(held["here"]))]
            widths = [np.mean([row[f"width {key}"][place] for row in shares]) for key in held]
            cells = _cells([min(shares) for shares in held.values()])
            print(f"| {problems} | {k} | {cells} | {worst} | {_cells(widths)} |", flush=True)
    print(f"\nThe band over all k holds them all in {_cells([min(bands)])} % or more.")
    print("\n| problems | samples | equal models | t with Holm | here |")
    print("| ---: | ---: | --- | ---: | ---: |")
    for problems, samples in itertools.product(SIZES, ((64, 64), (16, 64), (4, 64))):
        for name, (pair, ks) in EQUAL_MODELS.items():
            rates = alarms(pair, ks, problems=problems, samples=samples, repeats=repeats)
            print(f"| {problems} | {samples[0]}, {samples[1]} | {name} | {_cells(rates)} |")
    rate = table_alarms(problems=134, repeats=repeats)
    print(f"\nSix equal models on three benchmarks: {_cells([rate])} % of tables say anything.")
    print("\n| problems | better by | t with Holm | here |\n| ---: | ---: | ---: | ---: |")
    for problems, points in itertools.product(SIZES, (0.02, 0.04)):
        rates = alarms(better_by(points), KS, problems=problems, samples=(64, 64), repeats=repeats)
        print(f"| {problems} | {100 * points:.0f} | {_cells(rates)} |")


def _cells(shares: Iterable[float]) -> str:
    return " | ".join(f"{100 * share:.1f}" for share in shares)


if __name__ == "__main__":
    main()
