"""Which arms there are, what they are made of, and how large everything is."""

from __future__ import annotations

from dataclasses import dataclass

START = "start"


@dataclass(frozen=True)
class Arm:
    """One way to make a model from the start; the start itself is one, too."""

    title: str
    # `rpd curate`'s name of what chooses problems and solutions, and solutions of a problem.
    choice: str | None = None
    each: int = 3
    # What it chooses from: "all" solutions, one of each true strategy ("different"), or those of a
    # problem's commonest strategy ("same").
    candidates: str = "all"
    # The arm whose model it goes on from, where nothing is curated, and how far from the start to
    # that model (WiSE-FT).
    base: str | None = None
    share: float | None = None
    # Of the diversity reward in GRPO.
    diversity_weight: float = 0.0


ARMS = {
    START: Arm("start, warmed on mixed samples"),
    "random_1p1s": Arm("random 1P1S", "random", each=1),
    "random_1p3s": Arm("random 1P3S", "random"),
    "rpd_1p3s": Arm("RPD 1P3S", "rpd"),
    "pieces_1p3s": Arm("`pieces` 1P3S", "pieces"),
    "true_1p3s": Arm("three true strategies", "random", candidates="different"),
    "same_1p3s": Arm("one strategy three times", "random", candidates="same"),
    "half": Arm("half way to RPD 1P3S (WiSE-FT)", base="rpd_1p3s", share=0.5),
    "grpo": Arm("RPD 1P3S + GRPO", base="rpd_1p3s"),
    "grpo_diverse": Arm(
        "the same with the diversity reward", base="rpd_1p3s", diversity_weight=0.5
    ),
}
# Each is asked as: how much more does the first solve than the second?
COMPARISONS = (
    ("rpd_1p3s", "random_1p3s"),
    ("pieces_1p3s", "random_1p3s"),
    ("rpd_1p3s", "pieces_1p3s"),
    ("true_1p3s", "random_1p3s"),
    ("true_1p3s", "same_1p3s"),
    ("random_1p3s", "same_1p3s"),
    ("rpd_1p3s", "random_1p1s"),
    ("random_1p3s", "random_1p1s"),
    ("half", "rpd_1p3s"),
    ("grpo", "rpd_1p3s"),
    ("grpo_diverse", "grpo"),
)


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    pool: int = 320  # problems that an arm may choose from
    candidates: int = 8  # solutions of each
    samples: int = 300  # training samples of an arm
    warm: int = 60  # mixed samples that the start is warmed on
    tests: int = 100  # test problems
    attempts: int = 8  # samples of each
    practice: int = 160  # problems of GRPO
