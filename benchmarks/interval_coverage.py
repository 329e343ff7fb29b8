"""How often intervals hold the truth, and how often equal models are called different.

    python benchmarks/interval_coverage.py          # the tables of docs/statistics.md, roughly
    python benchmarks/interval_coverage.py --full   # as printed there, in some ten minutes
    python benchmarks/interval_coverage.py --power  # which gains are found
    python benchmarks/interval_coverage.py --ways   # the table of docs/evaluation.md

Problems are drawn from known populations, samples from the problems, and the figure that
infinitely many problems and samples would have is known. All benchmarks of a kind are worked out
at once, with the formulas of `rpd_metric/statistics/intervals.py` on arrays with one more axis.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import lru_cache, partial

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
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import holm_rows
from rpd_metric.statistics.power import draw_models, gain_deviation, power

Floats = npt.NDArray[np.float64]
KS = (1, 2, 4, 8, 16, 32, 64)
SIZES = (30, 134, 674)
METHODS = ("t", "Wilson", "here")
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


def coverage(population: str, *, problems: int, repeats: int, seed: int) -> dict[str, Floats]:
    """Share of benchmarks whose intervals hold the population's pass@k: for each k of `KS`.

    `"band"` is the share whose band holds all of them; `"width ..."` are mean widths.
    """
    rng = np.random.default_rng(seed)
    hopeless, a, b = POPULATIONS[population]
    truth = np.array([(1 - hopeless) * -np.expm1(betaln(a, b + k) - betaln(a, b)) for k in KS])
    counts = rng.binomial(64, draw_chances(POPULATIONS[population], rng, (problems, repeats)))
    values = np.moveaxis(_tables(64)[:, counts], 0, -1)  # problem, benchmark, k
    ours, band = gaffke(values)
    hits: dict[str, Floats] = {}
    for name, (low, high) in {
        "t": student(values),
        "Wilson": wilson(values.mean(axis=0), problems),
        "here": ours,
        "band": band,
    }.items():
        held = (low <= truth + 1e-9) & (high >= truth - 1e-9)
        hits[name] = (held.all(axis=1) if name == "band" else held).mean(axis=0)
        hits[f"width {name}"] = (high - low).mean(axis=0)
    return hits


def gaffke(values: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """The ends of Gaffke's intervals and bands: `(benchmarks, ks)` of `(problems, benchmarks, ks)`.

    In single precision, and with fewer resamples than in the library.
    """
    weights = _weights(len(values))
    # Benchmarks are sorted by their values, which are sorted alike for every k.
    ordered = np.sort(values, axis=0).astype(np.float32)
    lows = np.tensordot(weights[:, :-1], ordered, axes=1)
    highs = lows + weights[:, -1][:, None, None]
    rank = int(0.975 * len(weights))
    ends, bands = [], []
    for drawn in (-lows, highs):
        ranked = np.sort(drawn, axis=0)
        ends.append(ranked[rank])
        order = np.argsort(np.argsort(drawn, axis=0), axis=0).max(axis=2)
        highest = np.sort(order, axis=0)[rank]
        bands.append(np.take_along_axis(ranked, highest[None, :, None], axis=0)[0])
    return (-ends[0], ends[1]), (-bands[0], bands[1])


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


def p_values(gaps: Floats) -> tuple[Floats, Floats]:
    """P values of differences `(problems, pairs, ks)`: corrected by Holm after t, and by max-t."""
    problems, pairs, ks = gaps.shape
    lengths = np.sqrt((gaps**2).sum(axis=0))
    scaled = np.divide(gaps, lengths, out=np.zeros_like(gaps), where=lengths > 0)
    observed = np.abs(scaled.sum(axis=0))
    largest = np.abs(np.tensordot(_signs(problems), scaled, axes=1)).max(axis=2)
    flipped = (1 + (largest[:, :, None] >= observed - 1e-6).sum(axis=0)) / (1 + len(largest))
    error = gaps.std(axis=0, ddof=1) / np.sqrt(problems)
    ratio = np.divide(gaps.mean(axis=0), error, out=np.zeros((pairs, ks)), where=error > 0)
    alone = 2 * stdtr(problems - 1, -np.abs(ratio))
    holm = [[cell[0] for cell in holm_rows([[p] for p in row])] for row in alone.tolist()]
    return np.array(holm), flipped


def alarms(
    pair: Pair, ks: tuple[int, ...], *, problems: int, samples: tuple[int, int], repeats: int
) -> tuple[float, float]:
    """Share of pairs that any of `ks` calls different, by t with Holm and by max-t."""
    rng = np.random.default_rng(0)
    chances = pair(rng, (problems, repeats))
    fewest = min(samples)
    counts = []
    for drawn, chance in zip(samples, chances, strict=True):
        right = rng.binomial(drawn, chance)
        counts.append(rng.hypergeometric(right, drawn - right, fewest))
    table = _tables(fewest)
    gaps = np.moveaxis(table[:, counts[1]] - table[:, counts[0]], 0, -1)
    looked_at = [place for place, k in enumerate(KS) if k in ks and k <= fewest]
    holm, flipped = (p[:, looked_at].min(axis=1) for p in p_values(gaps))
    return float((holm < 0.05).mean()), float((flipped < 0.05).mean())


def table_alarms(*, problems: int, repeats: int) -> float:
    """Share of tables of six equal models on three benchmarks that call any two different."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(3):
        chances = draw_chances(EVEN, rng, (problems, repeats))
        values = [_tables(64)[:, rng.binomial(64, chances)] for _ in range(6)]
        rows += [p_values(np.moveaxis(value - values[0], 0, -1))[1] for value in values[1:]]
    lowest = [min(map(min, holm_rows(table.tolist()))) for table in np.stack(rows, axis=1)]
    return float(np.mean([p < 0.05 for p in lowest]))


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


@lru_cache
def _tables(samples: int) -> Floats:
    """pass@k by k and by how many samples are right."""
    right = np.arange(samples + 1)
    return np.array([pass_at_k(samples, right, k) for k in KS if k <= samples])


@lru_cache
def _weights(problems: int) -> npt.NDArray[np.float32]:
    drawn = np.random.default_rng(0).standard_exponential((1_000, problems + 1))
    return (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)


@lru_cache
def _signs(problems: int) -> Floats:
    return 2.0 * np.random.default_rng(0).integers(0, 2, (1_000, problems)) - 1.0


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
    if args.power:
        print_power(repeats)
        return
    if args.ways:
        print_ways(repeats)
        return
    print("| problems | k | t | Wilson | here | lowest of | width of t | Wilson | here |")
    print("| ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    bands = []
    for problems in SIZES:
        means = []
        for name in POPULATIONS:
            # In blocks, which bound the memory.
            seeds = range(repeats // 100)
            blocks = [coverage(name, problems=problems, repeats=100, seed=seed) for seed in seeds]
            means.append({key: np.mean([row[key] for row in blocks], axis=0) for key in blocks[0]})
        bands += [float(row["band"]) for row in means]
        for place, k in enumerate(KS):
            held = {key: [float(row[key][place]) for row in means] for key in METHODS}
            worst = list(POPULATIONS)[int(np.argmin(held["here"]))]
            widths = [float(np.mean([row[f"width {key}"][place] for row in means])) for key in held]
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


def _cells(shares: list[float] | tuple[float, ...]) -> str:
    return " | ".join(f"{100 * share:.1f}" for share in shares)


if __name__ == "__main__":
    main()
