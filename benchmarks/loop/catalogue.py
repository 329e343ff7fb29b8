"""Which arms are run, in which order, and which of them are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.loop.arms import BASE_ARM, Arm, Plan
from benchmarks.loop.base import BaseOptions

DIVERSITY_WEIGHT = 0.5

CORE = (
    Arm(BASE_ARM, "base model"),
    Arm("random_1p1s", "random 1P1S"),
    Arm("random_1p3s", "random 1P3S", per_problem=3),
    Arm("rpd_1p3s", "RPD 1P3S", problems="rpd", solutions="rpd", per_problem=3),
    Arm("random_q_rpd_a", "random problems, RPD solutions, 1P3S", solutions="rpd", per_problem=3),
    Arm("repeated", "one solution three times", repeat=3),
    Arm("unfiltered_1p16s", "unfiltered 1P16S", solutions="all", per_problem=16),
)
BUDGET = (Arm("rpd_budget", "a budget, spent by RPD", solutions="rpd", budget=True),)
REINFORCED = tuple(
    Arm(f"grpo_{start}{suffix}", f"{title} + GRPO{words}", start=start, diversity_weight=weight)
    for start, title in (("random_1p1s", "random 1P1S"), ("rpd_1p3s", "RPD 1P3S"))
    for suffix, words, weight in (
        ("", "", 0.0),
        ("_diverse", " with the diversity reward", DIVERSITY_WEIGHT),
    )
)
RPD_1P3S = next(arm for arm in CORE if arm.name == "rpd_1p3s")
NUMBERS = tuple(
    replace(RPD_1P3S, name=f"rpd_1p{n}s", title=f"RPD 1P{n}S", per_problem=n) for n in (1, 2, 4, 5)
)
CHOICES = (
    replace(RPD_1P3S, name="rpd_maxavg", title="RPD 1P3S, maxavg", selection="maxavg"),
    replace(RPD_1P3S, name="rpd_exact", title="RPD 1P3S, exact", selection="exact"),
    replace(RPD_1P3S, name="rpd_first", title="RPD 1P3S, ties as in Algorithm 3", ties="first"),
    Arm("strategy", "`strategy` 1P3S", problems="strategy", solutions="strategy", per_problem=3),
    replace(RPD_1P3S, name="labels", title="true strategies 1P3S (ceiling)", steps="labels"),
    replace(
        RPD_1P3S, name="extractive", title="RPD 1P3S, steps by `extractive`", steps="extractive"
    ),
)
# Breadth, depth, chosen depth, and breadth first with chosen depth after it.
TRADED = ("random_1p1s", "random_1p3s", "rpd_1p3s", "rpd_budget")
GROUPS = {
    "core": CORE,
    "budget": BUDGET,
    "grpo": REINFORCED,
    "numbers": NUMBERS,
    "choices": CHOICES,
}


@dataclass(frozen=True)
class Cell:
    """One place of the map: what differs from the plan."""

    name: str
    title: str
    share: float = 1.0
    epochs: int | None = None
    pool: int | None = None
    base: str = "base"


CELLS = (
    Cell("few", "a third of the samples", share=1 / 3),
    Cell("many", "three times the samples, three times the pool", share=3.0, pool=1200),
    Cell("short", "2 epochs", epochs=2),
    Cell("long", "18 epochs", epochs=18),
    Cell("scarce", "a pool of 100 problems, the breadth arm repeating them", pool=100),
    Cell("wide", "a pool of 1,200 problems", pool=1200),
    Cell("weak", "a base 70 % of whose attempts missed", base="base-weak"),
)


def map_arms(cell: Cell) -> tuple[Arm, ...]:
    """Breadth, depth and chosen depth in a cell of the map."""
    return tuple(
        replace(
            arm,
            name=f"map_{cell.name}_{arm.name}",
            share=cell.share,
            # With no more problems than fill a third of the set, breadth is to repeat them.
            repeat=3 if cell.name == "scarce" and arm.name == "random_1p1s" else 1,
            epochs=cell.epochs,
            pool=cell.pool,
            base=cell.base,
        )
        for arm in (*CORE, *BUDGET)
        if arm.name in TRADED
    )


MAP = tuple(arm for cell in CELLS for arm in map_arms(cell))

# Each is asked as: does the first solve more than the second, with one try and with sixteen?
COMPARISONS = (
    ("rpd_1p3s", "random_1p3s", "choosing by RPD against choosing at random, three solutions each"),
    ("random_q_rpd_a", "random_1p3s", "choosing only the solutions by RPD"),
    ("rpd_1p3s", "random_q_rpd_a", "choosing the problems by RPD, too"),
    ("random_1p3s", "repeated", "three solutions against one three times, same problems"),
    ("rpd_1p3s", "repeated", "three different solutions against one three times"),
    ("rpd_1p3s", "random_1p1s", "depth against breadth at equal samples"),
    ("rpd_budget", "random_1p1s", "a budget spent by RPD against breadth"),
    ("rpd_budget", "rpd_1p3s", "a budget spent by RPD against chosen depth"),
    ("random_1p3s", "random_1p1s", "depth at random against breadth at equal samples"),
    ("random_1p1s", "unfiltered_1p16s", "breadth against all candidates of few problems"),
    ("rpd_1p3s", BASE_ARM, "after fine-tuning against before"),
)
NUMBER_COMPARISONS = tuple(
    (arm.name, "rpd_1p3s", f"{arm.per_problem} of each problem against 3") for arm in NUMBERS
)
CHOICE_COMPARISONS = tuple(
    (arm.name, "rpd_1p3s", f"{arm.title} against RPD 1P3S as it is by default") for arm in CHOICES
)
REINFORCED_COMPARISONS = (
    ("grpo_random_1p1s", "random_1p1s", "GRPO after random 1P1S"),
    ("grpo_rpd_1p3s", "rpd_1p3s", "GRPO after RPD 1P3S"),
    ("grpo_random_1p1s_diverse", "grpo_random_1p1s", "the diversity reward, after random 1P1S"),
    ("grpo_rpd_1p3s_diverse", "grpo_rpd_1p3s", "the diversity reward, after RPD 1P3S"),
    ("grpo_rpd_1p3s", "grpo_random_1p1s", "GRPO from RPD 1P3S against GRPO from random 1P1S"),
)

FULL = Plan(bases={"base": BaseOptions(), "base-weak": BaseOptions(wrong=0.7)})
# Small enough for a test; its figures mean nothing.
QUICK = Plan(
    samples=18,
    pool=24,
    tests=8,
    practice=16,
    bases={"base": BaseOptions(rows=4000, hidden=48, layers=2, batch=32, wrong=0.0)},
    sft={"num_train_epochs": 4, "warmup_steps": 0, "logging_steps": 1},
    grpo={
        "num_train_epochs": 1,
        "effective_batch_size": 64,
        "per_device_train_batch_size": 64,
        "max_completion_length": 32,
    },
    passk={"max_tokens": 32},
)
QUICK_ARMS = (BASE_ARM, "random_1p1s", "rpd_1p3s", "grpo_rpd_1p3s_diverse")
