"""How a run goes about its work: options that decide nothing of what is chosen, and its callbacks.

What is chosen, and how, is `rpd_datasets.config`; the run itself is `run.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rpd_datasets.config import CurationConfig
from rpd_datasets.curation.models import Models
from rpd_datasets.curation.scored import Scored
from rpd_datasets.curation.scoring import score_problem
from rpd_datasets.curation.shards import SHARD_SIZE, Engine
from rpd_datasets.filters.contamination import Contamination
from rpd_datasets.inputs.spec import IN_MEMORY
from rpd_datasets.options import documented, option
from rpd_datasets.problem import Problem

MAX_IN_FLIGHT = 32

Score = Callable[[Problem, CurationConfig, Models, ThreadPoolExecutor | None], Awaitable[Scored]]


@documented
@dataclass(frozen=True)
class RunOptions:
    """How a run goes about its work and what its card says beside: nothing here decides what is
    chosen."""

    overwrite: bool = option(False, "replace an existing output folder, at the very end")
    partial: bool = option(
        False,
        "where the budget is spent before the end, write a set of the problems that are complete, "
        "and say so in its card and manifest",
    )
    license: str | None = option(
        None,
        "licence of the input's texts, for the card, e.g. apache-2.0 (default: as the input's own "
        "card on the Hub says)",
        metavar="ID",
    )
    language: str | None = option(
        None, "their language, for the card, e.g. en (default: likewise)", metavar="CODE"
    )
    calibration: str | None = option(
        None,
        "what labelled pairs say of another encoder, as rpd compare-metrics --calibrate writes it: "
        "strategies are then counted by it, and distances said in words, in the report, too",
        metavar="FILE",
    )
    preset: str | None = option(
        None, "the name of a training set of the paper, for the card", group=None
    )
    name: str = option(IN_MEMORY, "what the card calls a dataset in memory", group=None)
    models: Models | None = option(None, "what the configuration names, loaded already", group=None)
    engine: Engine | None = option(None, "who scores; this process if unset", group=None)
    shard_size: int = option(
        SHARD_SIZE, "problems that an engine's workers are handed at a time", group=None
    )
    contamination: Contamination | None = option(
        None, "problems of benchmarks; what stands among them is left out", group=None
    )
    max_in_flight: int = option(MAX_IN_FLIGHT, "problems worked on at once", group=None)
    score: Score = option(
        score_problem,
        "scores a problem; rows that were scored before bring another one",
        group=None,
    )
    on_total: Callable[[int], None] = option(
        lambda _: None,
        "called when it is known how many problems there are, which grouping tells",
        group=None,
    )
    on_problem: Callable[[Scored], None] = option(
        lambda _: None, "called after each problem, for progress bars", group=None
    )
    on_stage: Callable[[str], None] = option(
        lambda _: None,
        "called with the name of each stage that follows the first scoring",
        group=None,
    )
    on_read: Callable[[int], None] = option(
        lambda _: None, "called with the number of rows read so far, in each pass", group=None
    )
    on_chosen: Callable[[Problem, Scored, list[int]], None] = option(
        lambda *_: None,
        "called for each chosen problem, best first, with its solutions' chosen indices",
        group=None,
    )
