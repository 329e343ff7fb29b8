"""How long scoring takes on this machine: a few problems of the input are timed, the rest follows.

Only for models of this process. What a server needs is not known here.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models, load_models
from rpd_datasets.curation.scoring import score_problem
from rpd_datasets.problem import Problem
from rpd_metric.models.spec import EMBEDDERS, embedder_spec
from rpd_metric.steps.summarizers import asks_chat_model

# Problems that are timed, drawn from all; one more is scored before, while models warm up.
TIMED = 8
# What a worker process with an encoder holds, rounded up.
BYTES_PER_PROCESS = 1_500_000_000


def runs_on_cores(config: CurationConfig) -> bool:
    """Whether scoring keeps cores of this machine busy, and nothing else."""
    if asks_chat_model(config.summarizer) or config.asks_judge or config.device is not None:
        return False
    spec = embedder_spec(config.embedder)
    return spec.runs_here and not EMBEDDERS[spec.kind].needs_gpu


def processes_that_fit() -> int:
    """As many processes as this machine has cores and memory for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # macOS and Windows do not say
        return 1
    return max(1, min(cores or 1, memory // BYTES_PER_PROCESS))


@dataclass
class Draw:
    """A few problems drawn from all, and how much text there is in all."""

    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    characters: int = 0
    _random: Random = field(default_factory=lambda: Random(0))

    def add(self, problem: Problem) -> None:
        """Take a problem in; every one has the same chance (reservoir sampling)."""
        self.count += 1
        self.characters += _size(problem)
        if len(self.problems) <= TIMED:
            self.problems.append(problem)
        elif (place := self._random.randrange(self.count)) <= TIMED:
            self.problems[place] = problem


def seconds_to_score(draw: Draw, config: CurationConfig, clock: Callable[[], float]) -> float:
    """How long one process would take for all, by characters of the timed problems.

    Args:
        draw ([`Draw`]): Of the whole input.
        config ([`CurationConfig`]): See [`runs_on_cores`].
        clock (`Callable`): Seconds, e.g. `time.perf_counter`.
    """
    models = load_models(config, keep_replies=False)
    try:
        first, *timed = draw.problems
        asyncio.run(_score([first], config, models))
        start = clock()
        asyncio.run(_score(timed or [first], config, models))
        elapsed = clock() - start
    finally:
        models.answers.close()
    return elapsed * draw.characters / max(1, sum(map(_size, timed or [first])))


def forecasts(
    draw: Draw, config: CurationConfig, clock: Callable[[], float], num_proc: int
) -> dict[str, float]:
    """Seconds on `num_proc` processes with the configured embedder, and with `static`."""
    names = dict.fromkeys((config.embedder, "static"))
    return {
        name: seconds_to_score(draw, replace(config, embedder=name), clock) / num_proc
        for name in names
    }


def in_words(seconds: float) -> str:
    """A length of time for a person.

    >>> in_words(20), in_words(200), in_words(8_000)
    ('under a minute', '3 min', '2 h 13 min')
    """
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else "under a minute"
    return f"{minutes // 60} h {minutes % 60} min"


def _size(problem: Problem) -> int:
    return sum(map(len, problem.solutions))


async def _score(problems: Iterable[Problem], config: CurationConfig, models: Models) -> None:
    for problem in problems:
        await score_problem(problem, config, models)
