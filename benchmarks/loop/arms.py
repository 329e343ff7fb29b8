"""The arms as plain values: what a training set is made of, how large all is, what came out.

Not here: which arms there are (`catalogue.py`), running one (`pipeline.py`), and what the results
mean (`measure.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.loop.base import BaseOptions
from rpd_datasets.select import Selection
from rpd_metric.distance.core import Ties

HERE = Path(__file__).parent
RESULT = "result.json"
BASE_ARM = "base"

Steps = Literal["stated", "extractive", "labels"]


@dataclass(frozen=True)
class Arm:
    """One way to make a training set, and what is done with it.

    Args:
        name (`str`): Of its folder.
        title (`str`): For tables.
        problems, solutions, selection, ties (`str`): As in `CurationConfig`.
        per_problem (`int`): Solutions of each problem.
        budget (`bool`): The samples are spent over all problems at once (`num_samples`) instead.
        share (`float`): Samples, as a share of the plan's number of samples.
        repeat (`int`): How often each sample stands in the set.
        steps (`str`): What distances read: the stated steps, the extractive summarizer's, or the
            true strategies.
        start (`str`, *optional*): The arm whose model reinforcement learning starts from; then
            nothing is curated.
        diversity_weight (`float`): Of the diversity reward.
        epochs (`int`, *optional*): Other than the recipe's.
        pool (`int`, *optional*): Other than the plan's.
        base (`str`): The folder of the base model.
    """

    name: str
    title: str
    problems: str = "random"
    solutions: str = "random"
    per_problem: int = 1
    budget: bool = False
    share: float = 1.0
    repeat: int = 1
    selection: Selection = "maxmin"
    ties: Ties = "mean"
    steps: Steps = "stated"
    start: str | None = None
    diversity_weight: float = 0.0
    epochs: int | None = None
    pool: int | None = None
    base: str = "base"


@dataclass(frozen=True)
class Plan:
    """How large everything is.

    Args:
        samples (`int`): Of a training set.
        pool (`int`): Problems to choose from, 16 candidate solutions each.
        tests (`int`): Test problems, 16 samples each.
        practice (`int`): Problems of reinforcement learning, which come from the pool's part.
        bases (`Mapping[str, BaseOptions]`): The base models, by folder.
        sft, grpo, passk (`Mapping[str, Any]`): Options that differ from the recipes in this
            folder.
    """

    samples: int = 300
    pool: int = 400
    tests: int = 100
    practice: int = 800
    bases: Mapping[str, BaseOptions] = field(default_factory=lambda: {"base": BaseOptions()})
    sft: Mapping[str, Any] = field(default_factory=dict)
    grpo: Mapping[str, Any] = field(default_factory=dict)
    passk: Mapping[str, Any] = field(default_factory=dict)

    def num_problems(self, arm: Arm) -> int:
        """Problems in an arm's training set."""
        return max(1, round(self.samples * arm.share / arm.repeat / arm.per_problem))


@dataclass(frozen=True)
class ArmResult:
    """What an arm came to.

    Args:
        settings (`dict`): The arm and the plan, to tell whether it is the same run.
        correct (`list[str]`): Per test problem, 1 or 0 for each of the 16 samples.
        rpd, div_self_bleu, strategies (`float`, *optional*): Means over the test problems with two
            right outputs or more: what these differ by, and how many strategies they show.
        found (`float`): Mean number of strategies found per test problem, solved or not.
        training (`dict`): Samples, problems, strategies per problem, and the first and last loss.
        rewards (`list[dict]`): Of reinforcement learning, what its log says.
    """

    arm: str
    seed: int
    settings: dict[str, Any]
    correct: list[str]
    rpd: float | None
    div_self_bleu: float | None
    strategies: float | None
    found: float
    training: dict[str, Any]
    rewards: list[dict[str, float]]
    cpu_seconds: float

    @property
    def verdicts(self) -> Any:
        """Which samples are right, `(problems, samples)`."""
        return np.array([[c == "1" for c in text] for text in self.correct])


def settings_of(arm: Arm, plan: Plan) -> dict[str, Any]:
    """All that decides an arm's result, as plain values; nothing that concerns others only."""
    own = asdict(replace(plan, bases={arm.base: plan.bases[arm.base]}))
    recipes = ["sft", "passk"]
    if arm.start is None:
        del own["practice"], own["grpo"]
    else:
        recipes.append("grpo")
    texts = {name: (HERE / f"{name}.yaml").read_text(encoding="utf-8") for name in recipes}
    # Without defaults, so that an option which came later leaves older results as they are.
    plain = asdict(Arm(arm.name, arm.title))
    changed = {name: value for name, value in asdict(arm).items() if value != plain[name]}
    settings: dict[str, Any] = json.loads(
        json.dumps({"arm": {"name": arm.name, **changed}, "plan": own, "recipes": texts})
    )
    return settings


def finished(folder: Path, arm: Arm, plan: Plan) -> ArmResult | None:
    """An arm's result, if it has been run with these settings."""
    file = folder / RESULT
    if not file.is_file():
        return None
    result = ArmResult(**json.loads(file.read_text(encoding="utf-8")))
    return result if result.settings == settings_of(arm, plan) else None


def folder_of(output: Path, arm: Arm, seed: int) -> Path:
    """Where an arm is run."""
    return output / f"seed-{seed}" / arm.name


def model_of(arm: Arm, seed: int, output: Path) -> Path:
    """The folder of an arm's model."""
    return output / arm.base if arm.name == BASE_ARM else folder_of(output, arm, seed) / "model"
