"""The page of a run: tables, a figure, and sentences that the numbers choose.

A sentence says that one arm solves more than another only where the 95 % interval of their
difference lies on one side of zero; else it says that they were not told apart. Not here: any
expectation of what should come out.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from platform import python_version

from benchmarks.loop.arms import Arm, ArmResult, Plan, finished, folder_of
from benchmarks.loop.base import RECORD
from benchmarks.loop.catalogue import (
    BUDGET,
    CELLS,
    CHOICE_COMPARISONS,
    COMPARISONS,
    CORE,
    DIVERSITY_WEIGHT,
    GROUPS,
    MAP,
    NUMBER_COMPARISONS,
    NUMBERS,
    REINFORCED,
    REINFORCED_COMPARISONS,
    RPD_1P3S,
    TRADED,
    map_arms,
)
from benchmarks.loop.curves import KS, draw
from benchmarks.loop.measure import Found, course, difference, figure, mean_of, over_seeds
from rpd_metric.statistics.intervals import Interval

RUNS = "runs.jsonl"
VERSIONED = ("torch", "transformers", "trl", "datasets", "sentence-transformers", "numpy")
INTRODUCTION = """
The loop of this project in small: curate, fine-tune, reinforce, sample, measure. All of it is the
project's own code: `rpd_datasets` chooses, `recipes/sft.py` and `recipes/grpo.py` train with TRL,
`recipes/passk.py` samples and grades, `rpd_metric` measures. Only task and model are toys.

The task names five numbers and a target: *Make 24 from 3 5 7 9 11*. A solution reaches it with
three of them and two operations, one line each, and boxes the expression; any expression counts
that uses each number at most once. Its strategy is its two operations in their order. The base
is a Qwen3 of {weights:,} weights, trained from scratch on {rows:,} attempts at other problems,
{wrong:.0%} of which miss the target. A pool has {pool} problems with 16 right candidates each, of
one to four strategies, each half as frequent as the one before. Training sets have {samples}
samples, so that *1P1S* is {samples} problems and *1P3S* is {third}. All weights are trained, with
the same options for every arm ([sft.yaml](../benchmarks/loop/sft.yaml),
[grpo.yaml](../benchmarks/loop/grpo.yaml)). Tests are {tests} problems per seed, 16 samples each at
temperature 0.6 and top-p 0.95.

RPD reads the lines that a solution states as its steps (no language model is asked), encoded by
`minilm`; one arm has the steps found by `extractive`, and one reads the true strategies.

A seed decides pool, candidates, test problems and training order. Figures are means over up to
{seeds} seeds, as many as a table says; brackets hold 95 % intervals over seeds by Student's t, for
differences those of the differences on the seeds that both arms have. Looking at many comparisons
is looking many times: about one in twenty intervals excludes zero by chance.
"""


BEYOND = """
Measured once, over five seeds. Models on the way from the base to RPD 1P3S (WiSE-FT, arXiv
2504.10478; `merge.py --interpolate`) solved 82.8, 81.4 and 80.2 % at pass@16 after 30, 50 and 70 %
of the way, all of it 75.4 %: +7.4 [+3.4, +11.4] at 30 %. They were not told apart from the base.
GRPO with diversity as a bonus, with rare strategies weighing more, and with an entropy bonus
([recipes/README.md](../recipes/README.md)) was not told apart from plain GRPO: pass@16 +2.4
[-8.3, +13.1], +4.6 [-3.7, +12.9] and +3.0 [-4.4, +10.4]. Asking for each of a problem's solutions
by a number in its prompt (SSFT's modes, arXiv 2510.05132) was tried and removed: on a base that had
never seen such a number it cost 15.8 points of pass@16 with numbers in the order of choice, 15.6
with numbers matched before each epoch.
""".strip()
HOW_CHOSEN = (
    "What was tuned, and on what: the share of misses in the base's attempts and GRPO's learning "
    "rate were chosen by pilots that looked at seed 0's test problems; the options of SFT were "
    "never tuned. Samples are batched as they come, so that a second run gives slightly different "
    "ones with the same seeds."
)


def write_page(file: Path, output: Path, plan: Plan, *, command: str) -> None:
    """Write the page from all results of the plan, and its figure beside it."""
    found = collect(output, plan)
    figure_file = file.with_suffix(".png")
    text = page_text(found, output, plan, command=command, figure_name=figure_file.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    draw(found, figure_file)
    file.write_text(text, encoding="utf-8")


def collect(output: Path, plan: Plan) -> dict[str, dict[int, ArmResult]]:
    """All results of a plan, by arm and seed."""
    found: dict[str, dict[int, ArmResult]] = {}
    seeds = sorted(int(folder.name.removeprefix("seed-")) for folder in output.glob("seed-*"))
    for arm in (*(arm for group in GROUPS.values() for arm in group), *MAP):
        if arm.base not in plan.bases:
            continue
        results = {seed: finished(folder_of(output, arm, seed), arm, plan) for seed in seeds}
        known = {seed: result for seed, result in results.items() if result is not None}
        if known:
            found[arm.name] = known
    return found


def page_text(found: Found, output: Path, plan: Plan, *, command: str, figure_name: str) -> str:
    """The page in Markdown."""
    base = json.loads((output / "base" / RECORD).read_text(encoding="utf-8"))
    spent = sum(result.cpu_seconds for arm in found.values() for result in arm.values())
    seeds = max(len(arm) for arm in found.values())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in VERSIONED)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = [
        "# The whole loop, measured",
        "",
        f"Written by `{command}`; do not edit.",
        INTRODUCTION.format(
            weights=base["weights"],
            rows=base["options"]["rows"],
            wrong=base["options"]["wrong"],
            pool=plan.pool,
            samples=plan.samples,
            third=plan.samples // 3,
            tests=plan.tests,
            seeds=seeds,
        ),
        f"![pass@k of the arms with 95 % intervals over seeds]({figure_name})",
        "",
        "## What the numbers say",
        "",
        "pass@1 is one try, pass@16 sixteen; differences are in points.",
        "",
        *sentences(found, (*COMPARISONS, *REINFORCED_COMPARISONS)),
        "",
        "## Training sets of equal size",
        "",
        arms_table(found, (*CORE, *BUDGET)),
        "",
        "*Strategies in the set* counts per problem. *Right outputs* are those of test problems "
        "with two or more: mean pairwise RPD, Div-Self-BLEU, and how many strategies they show; "
        "*found* counts the strategies of right outputs over all test problems.",
    ]
    if any(arm.name in found for arm in NUMBERS):
        lines += _section(
            f"One to five solutions of each problem, {plan.samples} samples",
            arms_table(found, sorted([*NUMBERS, RPD_1P3S], key=lambda arm: arm.per_problem)),
            "",
            *sentences(found, NUMBER_COMPARISONS),
        )
    if any(a in found for a, _, _ in CHOICE_COMPARISONS):
        lines += _section(
            "Ways to choose",
            arms_table(found, [RPD_1P3S, *GROUPS["choices"]]),
            "",
            *sentences(found, CHOICE_COMPARISONS),
        )
    if any(arm.name in found for arm in REINFORCED):
        lines += _section(
            "Reinforcement learning",
            f"{_updates(found)} updates on {plan.practice} problems, 16 of them at a time with 8 "
            "completions each. The reward is 1 for what passes the task's check and 0.1 for the "
            f"form, and {DIVERSITY_WEIGHT} times the diversity reward where that is on.",
            "",
            arms_table(found, REINFORCED),
            "",
            *gaming(found),
        )
    lines += _section("Beyond the paper", BEYOND)
    if any(arm.name in found for arm in MAP):
        lines += _section("Where breadth and depth trade places", *map_section(found))
    seeds_run = sorted({seed for arm in found.values() for seed in arm})
    lines += _section(
        "The run",
        f"{sum(map(len, found.values()))} arms of {len(found)} kinds, seeds "
        f"{', '.join(map(str, seeds_run))}: "
        f"{spent:,.0f} CPU seconds, and {base['cpu_seconds']:,.0f} for the base "
        f"model{_wall(output)}. Machine: {cores} cores, no GPU. Python {python_version()}, "
        f"{versions}.",
        "",
        HOW_CHOSEN,
        "",
    )
    return "\n".join(lines)


def _section(title: str, *body: str) -> list[str]:
    return ["", f"## {title}", "", *body]


def _updates(found: Found) -> int:
    """How often reinforcement learning changed the weights."""
    return max(
        len(result.rewards) for arm in REINFORCED for result in found.get(arm.name, {}).values()
    )


def _wall(output: Path) -> str:
    file = output / RUNS
    if not file.is_file():
        return ""
    runs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    minutes = sum(run["wall_seconds"] for run in runs) / 60
    calls = "one call" if len(runs) == 1 else f"{len(runs)} calls"
    return f"; {minutes:.0f} minutes on the clock in {calls} of the command"


def arms_table(found: Found, arms: Sequence[Arm]) -> str:
    """One row per arm that has results."""
    head = ["arm", "seeds", "problems", "strategies in the set", *(f"pass@{k}" for k in KS)]
    head += ["RPD", "Div-Self-BLEU", "strategies", "found"]
    rows = []
    for arm in arms:
        results = found.get(arm.name)
        if results is None:
            continue
        cells = [arm.title, str(len(results)), _number(mean_of(results, "problems"), 0)]
        cells.append(_number(mean_of(results, "strategies_per_problem"), 2))
        for k in KS:
            value = figure(results, k)
            cells.append(_percent(value) if k in (1, 16) else f"{100 * value.value:.1f}")
        shown = {"rpd": 3, "div_self_bleu": 1, "strategies": 2, "found": 2}
        cells += [_number(mean_of(results, name), digits) for name, digits in shown.items()]
        rows.append(cells)
    return _table(head, rows)


def sentences(found: Found, comparisons: Sequence[tuple[str, str, str]]) -> list[str]:
    """What the paired differences say, one line per comparison."""
    lines = []
    for first, second, question in comparisons:
        if first in found and second in found:
            a, b = found[first], found[second]
            said = [f"pass@{k} {verdict(difference(a, b, k))}" for k in (1, 16)]
            lines.append(f"- {question[0].upper()}{question[1:]}: {'; '.join(said)}.")
    return lines


def verdict(gap: Interval) -> str:
    """What a difference with its interval says, in points."""
    if gap.low == gap.high == 0.0:
        return "equal in every seed"
    # Adding 0.0 makes a zero of a small negative number.
    value, low, high = (round(100 * x, 1) + 0.0 for x in (gap.value, gap.low, gap.high))
    shown = f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
    if math.isinf(gap.low):
        return f"{100 * gap.value:+.1f}, one seed only"
    if not gap.excludes_zero:
        return f"not told apart ({shown})"
    return f"**{'higher' if gap.value > 0 else 'lower'}** ({shown})"


def gaming(found: Found) -> list[str]:
    """Whether the diversity reward was earned by what it is meant for."""
    watched = {
        "rewards/accuracy/mean": "accuracy",
        "diversity/rpd": "RPD among right answers",
        "diversity/wording": "distance of their words",
        "diversity/length": "their words",
        "entropy": "entropy",
    }
    rows = []
    for arm in REINFORCED:
        if arm.name not in found:
            continue
        cells = [arm.title]
        for name in watched:
            way = course(found[arm.name], name)
            cells.append("–" if way is None else f"{way[0]:.3f} → {way[1]:.3f}")
        rows.append(cells)
    lines = [
        "Training's own log, first four steps → last four, mean over seeds (right answers are "
        "compared among those of a prompt):",
        "",
        _table(["arm", *watched.values()], rows),
        "",
    ]
    for start in ("random_1p1s", "rpd_1p3s"):
        plain, diverse = found.get(f"grpo_{start}"), found.get(f"grpo_{start}_diverse")
        if plain and diverse:
            shared = sorted(plain.keys() & diverse.keys())
            rpd = over_seeds([(diverse[s].rpd or 0) - (plain[s].rpd or 0) for s in shared])
            strategies = over_seeds([diverse[s].found - plain[s].found for s in shared])
            lines.append(
                f"- With the reward, after {start.replace('_', ' ')}: RPD of right test outputs "
                f"{_gap(rpd, 3)}, strategies found per test problem {_gap(strategies, 2)}. "
                f"{_played(rpd, strategies)}"
            )
    return lines


def _played(rpd: Interval, strategies: Interval) -> str:
    if rpd.low > 0 and strategies.low > 0:
        return "RPD rose, and so did the strategies found: the reward was earned."
    if rpd.low > 0:
        return "RPD rose and the strategies found did not: the reward was earned by other means."
    return "The reward did not measurably raise what it rewards."


def map_section(found: Found) -> list[str]:
    """Breadth against depth wherever the map has been run."""
    rows = []
    cells = [("as above", list(TRADED))]
    cells += [(cell.title, [arm.name for arm in map_arms(cell)]) for cell in CELLS]
    for title, names in cells:
        if all(name in found for name in names):
            breadth, depth, chosen, budget = (found[name] for name in names)
            rows.append(
                [
                    title,
                    str(len(breadth)),
                    *(f"{100 * figure(found[name], 16).value:.1f}" for name in names),
                    _gap(difference(depth, breadth, 16), 1, 100),
                    _gap(difference(chosen, breadth, 16), 1, 100),
                    _gap(difference(chosen, depth, 16), 1, 100),
                    _gap(difference(chosen, breadth, 1), 1, 100),
                    _gap(difference(budget, breadth, 16), 1, 100),
                    _gap(difference(budget, chosen, 16), 1, 100),
                    _gap(difference(budget, breadth, 1), 1, 100),
                ]
            )
    head = ["setting", "seeds", "random 1P1S", "random 1P3S", "RPD 1P3S", "budget by RPD"]
    head += [
        "random 1P3S − 1P1S",
        "RPD 1P3S − 1P1S",
        "RPD − random 1P3S",
        "pass@1: RPD 1P3S − 1P1S",
        "budget − 1P1S",
        "budget − RPD 1P3S",
        "pass@1: budget − 1P1S",
    ]
    wins = [row[0] for row in rows if row[7].startswith("**+")]
    losses = [row[0] for row in rows if row[7].startswith("**−")]
    behind = [row[0] for row in rows if any(row[place].startswith("**−") for place in (10, 11))]
    said = (
        f"Chosen depth (RPD 1P3S) solved more than breadth (random 1P1S) at pass@16 in "
        f"{len(wins)} of {len(rows)} settings{_list(wins)}, less in {len(losses)}{_list(losses)}; "
        "in the others the intervals hold zero. A budget spent by RPD solved less at pass@16 than "
        f"one of the two in {len(behind)}{_list(behind)}."
    )
    return [
        "pass@16 with each setting changed alone; differences in points, bold where the interval "
        "excludes zero.",
        "",
        _table(head, rows),
        "",
        said,
    ]


def _percent(value: Interval) -> str:
    if math.isinf(value.low):
        return f"{100 * value.value:.1f}"
    return f"{100 * value.value:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def _gap(gap: Interval, digits: int, scale: float = 1) -> str:
    if math.isinf(gap.low):
        return f"{scale * gap.value:+.{digits}f}".replace("-", "−")
    shown = f"{scale * gap.value:+.{digits}f} [{scale * gap.low:+.{digits}f}, "
    shown = f"{shown}{scale * gap.high:+.{digits}f}]".replace("-", "−")
    return f"**{shown}**" if gap.excludes_zero else shown


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _list(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
