"""What is run: corners, arms, how large everything is, and the question that decides.

A start's gate says what to expect: a set with more strategies wins at most about what an even
mixture of the strategies has over the natural shares. Learning rate and epochs are chosen once for
each start, by pass@16 of random 1P1S on problems for validation, and hold for all arms.
"""

from dataclasses import dataclass

from benchmarks.loop_strategies.task import DIFFERENT, SAME

START, LITTLE, SOME, ALL = "start", "little", "some", "all"
PRIMARY_K, MOST_K = 16, 64
# In points of pass@16.
BAND = 2.0
QUESTION = f"""\
Fixed before the first run: RPD 1P3S − random 1P1S at pass@{PRIMARY_K}, in the corner
`all-different`, minus the same difference in the corner `little-same`. The answer is yes,
diversity pays where the start knows the strategies and they fit different problems, if the 95 %
interval over seeds and problems is above +{BAND:g} points. It is no if the interval is within
±{BAND:g} points, or below −{BAND:g}. Otherwise it is undecided."""


@dataclass(frozen=True)
class Corner:
    """A start, and a task with the shares of its strategies."""

    start: str
    task: str
    skew: str = "steep"

    @property
    def name(self) -> str:
        """The name of its folders, such as all-different."""
        return "-".join([self.start, self.task, *([self.skew] if self.skew != "steep" else [])])


CORNERS = {
    corner.name: corner
    for corner in (
        Corner(ALL, DIFFERENT),
        Corner(LITTLE, SAME),
        Corner(SOME, DIFFERENT),
        Corner(SOME, SAME),
        Corner(LITTLE, DIFFERENT),
        Corner(ALL, SAME),
        Corner(ALL, DIFFERENT, "mild"),
    )
}
GOOD, OLD = CORNERS["all-different"], CORNERS["little-same"]


@dataclass(frozen=True)
class Arm:
    """One way to make a model from the start; the start itself is one, too."""

    title: str
    # `rpd curate`'s name of what chooses problems and solutions, and solutions of a problem.
    choice: str | None = None
    each: int = 3
    # What it chooses from: "all" solutions, or three of "different" or the "same" strategies.
    candidates: str = "all"
    # Whether it chooses among what the start finds natural.
    student: bool = False
    # The arm whose model or set it goes on from, where nothing is curated; how far from the start
    # to that model (WiSE-FT), or after which share of its updates training ends.
    base: str | None = None
    share: float = 1.0
    early: float = 1.0
    # Of the diversity reward in GRPO; `None` is no GRPO.
    diversity_weight: float | None = None


ARMS = {
    START: Arm("start"),
    "random_1p1s": Arm("random 1P1S", "random", each=1),
    "rpd_1p3s": Arm("RPD 1P3S", "rpd"),
    "random_1p3s": Arm("random 1P3S", "random"),
    "same_1p3s": Arm("one strategy three times", "random", candidates="same"),
    "true_1p3s": Arm("true strategies", "random", candidates="different"),
    "pieces_1p3s": Arm("`pieces` 1P3S", "pieces"),
    "natural_1p3s": Arm("RPD 1P3S, `--student`", "rpd", student=True),
    "half": Arm("halfway to RPD 1P3S (WiSE-FT)", base="rpd_1p3s", share=0.5),
    "early": Arm("RPD 1P3S, half the updates", base="rpd_1p3s", early=0.5),
    "grpo": Arm("RPD 1P3S + GRPO", base="rpd_1p3s", diversity_weight=0.0),
    "grpo_diverse": Arm(
        "the same with the diversity reward", base="rpd_1p3s", diversity_weight=0.5
    ),
}
# Each is asked as: how much more does the first solve than the second?
COMPARISONS = (
    ("rpd_1p3s", "random_1p1s"),
    ("rpd_1p3s", "random_1p3s"),
    ("random_1p3s", "random_1p1s"),
    ("pieces_1p3s", "random_1p1s"),
    ("true_1p3s", "random_1p1s"),
    ("true_1p3s", "same_1p3s"),
    ("same_1p3s", "random_1p1s"),
    ("natural_1p3s", "random_1p1s"),
    ("natural_1p3s", "rpd_1p3s"),
    ("half", "rpd_1p3s"),
    ("early", "half"),
    ("grpo", "rpd_1p3s"),
    ("grpo_diverse", "grpo"),
)


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    pool: int = 320  # problems that an arm may choose from
    candidates: int = 16  # solutions of each, copies included
    samples: int = 300  # training samples of an arm
    little: int = 60  # samples that a start that knows little is warmed on
    some: int = 1600  # those of a start that knows some strategies,
    warm: int = 3000  # and of one that knows all,
    settle: int = 240  # and those at natural shares that follow in both
    tests: int = 100  # test problems
    checked: int = 4  # those that are also sampled from the start
    practice: int = 160  # problems of GRPO

    def of(self, start: str) -> dict[str, int]:
        """What matters to the arms of a start."""
        others = {
            LITTLE: {"some", "warm", "settle"},
            SOME: {"little", "warm"},
            ALL: {"little", "some"},
        }[start]
        return {name: value for name, value in vars(self).items() if name not in others}


# Samples of a problem, to check its chances.
CHECKS = 64
# Learning rates and epochs that are tried for the arms of a start, and in which corner.
TRIED = {
    ALL: (GOOD, ((3e-4, 2.0), (1e-3, 2.0))),
    SOME: (CORNERS["some-different"], ((3e-4, 2.0), (1e-3, 2.0))),
    LITTLE: (OLD, ((1e-3, 2.0), (1e-3, 4.0))),
}
# Those of the starts themselves, and of the phase at natural shares.
WARMING = {LITTLE: (1e-3, 2.0), SOME: (1e-3, 2.0), ALL: (1e-3, 1.5)}
SETTLING = (3e-4, 1.0)
